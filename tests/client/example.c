/* SPDX-License-Identifier: MIT */
/*
 * Prints the tensors of a checkpoint, and the sum of the first rows of one of them.
 *
 *	cc example.c $(pkg-config --cflags --libs ckptfs) && ./a.out step-1000 model.norm.weight
 */
#include <ckptfs/client.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(void)
{
	fprintf(stderr, "%s\n", ckptfs_last_error()->text);
	return 1;
}

static void print(const struct ckptfs_tensor *t)
{
	printf("%-50s %-10s [", t->fqn, t->dtype);
	for (uint32_t d = 0; d < t->ndim; d++)
		printf("%s%" PRId64, d ? "," : "", t->shape[d]);
	printf("] %" PRIu64 " bytes\n", t->nbytes);
}

/* Reads at most two rows of a float32 tensor. */
static int sum_rows(struct ckptfs *ck, const struct ckptfs_tensor *t)
{
	uint64_t sizes[64] = { 0 };
	uint64_t elements = 1;
	struct ckptfs_box box = { .fqn = t->fqn, .ndim = t->ndim };
	double sum = 0;

	for (uint32_t d = 0; d < t->ndim; d++) {
		sizes[d] = (uint64_t)t->shape[d];
		if (d == 0 && sizes[d] > 2)
			sizes[d] = 2;
		elements *= sizes[d];
	}
	float *values = malloc(elements * sizeof(float) + 1);
	box.sizes = sizes;
	box.to = values;
	if (!values || ckptfs_read_box(ck, &box))
		return failed();
	for (uint64_t i = 0; i < elements; i++)
		sum += (double)values[i];
	printf("%s: the sum of %" PRIu64 " elements is %g\n", t->fqn, elements,
	       sum);
	free(values);
	return 0;
}

int main(int argc, char **argv)
{
	struct ckptfs *ck;
	const struct ckptfs_tensor *t;
	int rc = 0;

	if (argc != 3 || ckptfs_open(argv[1], NULL, &ck))
		return failed();
	for (uint64_t i = 0; (t = ckptfs_tensor_at(ck, i)); i++)
		print(t);
	t = ckptfs_tensor(ck, argv[2]);
	if (!t || strcmp(t->dtype, "float32") != 0 || t->ndim > 64)
		rc = failed();
	else
		rc = sum_rows(ck, t);
	ckptfs_close(ck);
	return rc;
}
