/* SPDX-License-Identifier: MIT */
/*
 * inspect_totals: one row for each tensor, sorted by the name it is counted
 * under; then neighbours of one name become one row.
 */
#include "inspect_totals.h"
#include <errno.h>

static void add(uint64_t *sum, uint64_t more)
{
	if (!ck_add(sum, *sum, more))
		*sum = UINT64_MAX;
}

void ck_total_add(struct ck_total *sum, const struct ck_total *more)
{
	sum->tensors += more->tensors;
	sum->chunks += more->chunks;
	add(&sum->bytes, more->bytes);
	add(&sum->elements, more->elements);
	add(&sum->parameters, more->parameters);
}

static uint64_t elements_of(const struct ck_tensor *t)
{
	const int64_t *shape = t->shape;
	uint64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		if (shape[i] < 0 || !ck_mul(&n, n, (uint64_t)shape[i]))
			return 0;
	return n;
}

void ck_total_count(struct ck_total *sum, const struct ck_tensor *t)
{
	struct ck_total one = { .tensors = 1,
				.bytes = ck_tensor_alias_of(t) == CK_NO_TENSOR
						 ? t->nbytes
						 : 0,
				.chunks = t->nchunks,
				.elements = elements_of(t) };

	if (!ck_mul(&one.parameters, one.elements, ck_dtype_values(t->dtype)))
		one.parameters = UINT64_MAX;
	ck_total_add(sum, &one);
}

void ck_total_print_json(const struct ck_total *t, struct ck_buf *out)
{
	ck_buf_printf(out,
		      "\"tensors\":%ju,\"bytes\":%ju,\"chunks\":%ju,"
		      "\"elements\":%ju",
		      (uintmax_t)t->tensors, (uintmax_t)t->bytes,
		      (uintmax_t)t->chunks, (uintmax_t)t->elements);
}

static int total_cmp(const void *a, const void *b)
{
	const struct ck_total *x = a, *y = b;

	return ck_str_natural_cmp(x->name, y->name);
}

static void join_equal(struct ck_totals *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (n && ck_str_eq(t->rows[n - 1].name, t->rows[i].name))
			ck_total_add(&t->rows[n - 1], &t->rows[i]);
		else
			t->rows[n++] = t->rows[i];
	}
	t->n = n;
}

static int rows_make(const struct ck_catalog *c, const uint32_t *tensors,
		     size_t n, struct ck_totals *out)
{
	*out = (struct ck_totals){ .n = n };
	out->rows = calloc(n + 1, sizeof(*out->rows));
	if (!out->rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		ck_total_count(&out->rows[i], ck_catalog_tensor(c, tensors[i]));
	return 0;
}

static void rows_join(struct ck_totals *t)
{
	qsort(t->rows, t->n, sizeof(*t->rows), total_cmp);
	join_equal(t);
}

int ck_totals_by_dtype(const struct ck_catalog *c, const uint32_t *tensors,
		       size_t n, struct ck_totals *out)
{
	int rc = rows_make(c, tensors, n, out);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		out->rows[i].name =
			ck_catalog_tensor(c, tensors[i])->facts->dtype_name;
	rows_join(out);
	return 0;
}

/* Bytes up to the last dot, that included; 0: there is none. */
static size_t parent_len(struct ck_str s)
{
	while (s.len && s.p[s.len - 1] != '.')
		s.len--;
	return s.len;
}

static struct ck_str name_of(const struct ck_catalog *c, uint32_t tensor)
{
	return ck_tensor_names(c, tensor).name;
}

size_t ck_shared_prefix(const struct ck_catalog *c, const uint32_t *tensors,
			size_t n)
{
	struct ck_str shared = { 0 };

	if (n)
		shared = name_of(c, tensors[0]);
	shared.len = parent_len(shared);
	for (size_t i = 1; i < n; i++)
		while (shared.len &&
		       !ck_str_starts(name_of(c, tensors[i]), shared)) {
			shared.len--;
			shared.len = parent_len(shared);
		}
	return shared.len;
}

static size_t prefix_len(struct ck_str name, size_t shared)
{
	const char *dot = NULL;

	if (name.len > shared)
		dot = memchr(name.p + shared, '.', name.len - shared);
	return dot ? (size_t)(dot - name.p) : name.len;
}

int ck_totals_by_prefix(const struct ck_catalog *c, const uint32_t *tensors,
			size_t n, struct ck_totals *out)
{
	int rc = rows_make(c, tensors, n, out);
	size_t shared;

	if (rc)
		return rc;
	shared = ck_shared_prefix(c, tensors, n);
	for (size_t i = 0; i < n; i++) {
		out->rows[i].name = name_of(c, tensors[i]);
		out->rows[i].name.len = prefix_len(out->rows[i].name, shared);
	}
	rows_join(out);
	return 0;
}

void ck_totals_fini(struct ck_totals *t)
{
	free(t->rows);
	*t = (struct ck_totals){ 0 };
}
