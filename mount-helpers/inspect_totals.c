/* SPDX-License-Identifier: MIT */
/*
 * inspect_totals: one row for each tensor, sorted by the name it is counted
 * under; then neighbours of one name become one row.
 */
#include "inspect_totals.h"
#include <errno.h>

void ck_total_add(struct ck_total *sum, const struct ck_total *more)
{
	sum->tensors += more->tensors;
	sum->chunks += more->chunks;
	if (!ck_add(&sum->bytes, sum->bytes, more->bytes))
		sum->bytes = UINT64_MAX;
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
	for (size_t i = 0; i < n; i++) {
		const struct ck_tensor *t = &c->tensors[tensors[i]];

		out->rows[i] = (struct ck_total){ .tensors = 1,
						  .bytes = t->nbytes,
						  .chunks = t->nchunks };
	}
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
			ck_catalog_str(c, c->tensors[tensors[i]].dtype_name);
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

/* Bytes of the dotted parts that all names begin with. */
static size_t shared_len(const struct ck_totals *t)
{
	struct ck_str shared = { 0 };

	if (t->n)
		shared = t->rows[0].name;
	shared.len = parent_len(shared);
	for (size_t i = 1; i < t->n; i++)
		while (shared.len && !ck_str_starts(t->rows[i].name, shared)) {
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
	for (size_t i = 0; i < n; i++)
		out->rows[i].name =
			ck_catalog_str(c, c->tensors[tensors[i]].names.name);
	shared = shared_len(out);
	for (size_t i = 0; i < n; i++)
		out->rows[i].name.len = prefix_len(out->rows[i].name, shared);
	rows_join(out);
	return 0;
}

void ck_totals_fini(struct ck_totals *t)
{
	free(t->rows);
	*t = (struct ck_totals){ 0 };
}
