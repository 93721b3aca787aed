/* SPDX-License-Identifier: MIT */
/*
 * edit: what the next generation of a catalog costs, in time and in new memory,
 * while the one before is held. The catalog has 1,000 tensors of 1,024 boxes.
 *
 *	edit
 */
#include "../lib/catalogs.h"

#include <malloc.h>
#include <stdlib.h>
#include <time.h>

enum { TENSORS = 1000, BOXES = 1024, ROUNDS = 2001 };

static struct ck_catalog *make(void)
{
	struct ck_catalog *c = catalog_new();
	char key[32];

	file_add(c, "__0_0.distcp", UINT64_MAX, 0);
	for (int t = 0; t < TENSORS; t++) {
		snprintf(key, sizeof(key), "layers.%d.weight", t);
		tensor_add(c, key, "float32", 2, DIMS(BOXES, 8));
		for (int64_t i = 0; i < BOXES; i++)
			box_add(c, DIMS(i, 0), DIMS(1, 8));
	}
	finish(c);
	return c;
}

/* As a commit does it: a new file, and n boxes of a tensor in it. */
static struct ck_catalog *edit(const struct ck_catalog *c, uint32_t tensor,
			       uint32_t n)
{
	static struct ck_edit edits[BOXES];
	struct ck_catalog *next = ck_catalog_next(c);
	uint32_t first = ck_catalog_tensor(c, tensor)->chunk;

	if (!next)
		abort();
	file_add(next, "__0_ckptfs-0000000000000001-0123456789abcdef.distcp",
		 UINT64_MAX, 0);
	for (uint32_t i = 0; i < n; i++)
		edits[i] = (struct ck_edit){
			.number = first + i,
			.item = { .file = next->files.n - 1, .length = 10 },
		};
	must(ck_catalog_edit(next, edits, n, NULL));
	return next;
}

/* An entry has another key; all are listed again. */
static struct ck_catalog *renamed(const struct ck_catalog *c, uint32_t tensor)
{
	struct ck_catalog *next = ck_catalog_next(c);
	const struct ck_new_entry new = { .key = CK_STR("another.name") };
	const struct ck_edit edit = { .kind = CK_EDIT_RENAME,
				      .number = tensor,
				      .new = &new };

	if (!next)
		abort();
	must(ck_catalog_edit(next, &edit, 1, NULL));
	return next;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const struct ck_catalog *c, uint32_t n)
{
	static double times[ROUNDS];
	size_t bytes = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		size_t before = mallinfo2().uordblks;
		double begin = now();
		uint32_t tensor = (uint32_t)rand() % TENSORS;
		struct ck_catalog *next = n ? edit(c, tensor, n)
					    : renamed(c, tensor);

		times[i] = now() - begin;
		bytes += mallinfo2().uordblks - before;
		ck_catalog_put(next);
	}
	qsort(times, ROUNDS, sizeof(*times), cmp);
	printf("%4u %s: median %.1f us, 99 of 100 below %.1f "
	       "us, %.1f KiB\n",
	       n ? n : TENSORS,
	       n ? "boxes of one tensor" : "entries, one of them renamed",
	       times[ROUNDS / 2], times[ROUNDS * 99 / 100],
	       (double)bytes / ROUNDS / 1024);
}

int main(void)
{
	struct ck_catalog *c = make();

	measure(c, 1);
	measure(c, 128);
	measure(c, BOXES);
	measure(c, 0);
	ck_catalog_put(c);
	return 0;
}
