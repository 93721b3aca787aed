/* SPDX-License-Identifier: MIT */
/*
 * inspect_layers: a name is cut into stem, number and rest. Sorted by these,
 * the tensors of a layer are next to each other, and so are layers that follow
 * each other: they are compared, tensor by tensor, with the layer before.
 */
#include "inspect_layers.h"
#include <errno.h>

enum { DIGITS = 18 };

struct member {
	struct ck_str stem, rest;
	uint64_t number;
	const struct ck_tensor *tensor;
};

struct members {
	const struct ck_catalog *c;
	struct member *list;
	size_t n;
};

/* --- names ---------------------------------------------------------------- */

/* A decimal without leading zeros that ends with the text or before a dot;
 * *len: its digits. */
static bool number_at(struct ck_str s, uint64_t *number, size_t *len)
{
	size_t n = 0;

	*number = 0;
	for (; n < s.len && n < DIGITS && s.p[n] >= '0' && s.p[n] <= '9'; n++)
		*number = *number * 10 + (uint64_t)(s.p[n] - '0');
	*len = n;
	return n > 0 && (n == 1 || s.p[0] != '0') &&
	       (n == s.len || s.p[n] == '.');
}

static bool name_cut(struct ck_str name, size_t from, struct member *out)
{
	while (from < name.len) {
		struct ck_str left = { name.p + from, name.len - from };
		const char *dot;
		size_t len;

		if (number_at(left, &out->number, &len)) {
			out->stem = (struct ck_str){ name.p, from };
			out->rest = (struct ck_str){ left.p + len,
						     left.len - len };
			return true;
		}
		dot = memchr(left.p, '.', left.len);
		if (!dot)
			return false;
		from = (size_t)(dot - name.p) + 1;
	}
	return false;
}

/* --- layers ----------------------------------------------------------------- */

static int member_cmp(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int order = ck_str_natural_cmp(x->stem, y->stem);

	if (order == 0 && x->number != y->number)
		order = x->number < y->number ? -1 : 1;
	return order ? order : ck_str_natural_cmp(x->rest, y->rest);
}

static int members_make(struct members *m, const uint32_t *tensors, size_t n,
			size_t shared)
{
	m->list = calloc(n + 1, sizeof(*m->list));
	if (!m->list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(m->c, tensors[i]);
		struct member *member = &m->list[m->n];

		member->tensor = t;
		m->n += name_cut(ck_tensor_names(m->c, t->entry.number).name,
				 shared, member);
	}
	qsort(m->list, m->n, sizeof(*m->list), member_cmp);
	return 0;
}

static bool is_same_layer(const struct member *a, const struct member *b)
{
	return a->number == b->number && ck_str_eq(a->stem, b->stem);
}

static size_t layer_end(const struct members *m, size_t begin)
{
	size_t end = begin + 1;

	while (end < m->n && is_same_layer(&m->list[begin], &m->list[end]))
		end++;
	return end;
}

static bool is_alike(const struct member *a, const struct member *b)
{
	return ck_str_eq(a->rest, b->rest) &&
	       ck_tensor_is_alike(a->tensor, b->tensor);
}

/* Whether layer [begin, end) follows the one before it, which has `before`
 * tensors: the same form, and the next number. */
static bool goes_on(const struct members *m, size_t begin, size_t end,
		    size_t before)
{
	const struct member *last, *first = &m->list[begin];

	if (before != end - begin)
		return false;
	last = first - before;
	if (!ck_str_eq(last->stem, first->stem) ||
	    last->number + 1 != first->number)
		return false;
	for (size_t i = 0; i < before; i++)
		if (!is_alike(last + i, first + i))
			return false;
	return true;
}

static void rows_make(struct ck_layers *l, const struct members *m)
{
	size_t before = 0;

	for (size_t begin = 0; begin < m->n;) {
		const struct member *first = &m->list[begin];
		size_t end = layer_end(m, begin);
		struct ck_layers_row *row;

		if (!goes_on(m, begin, end, before))
			l->rows[l->n++] = (struct ck_layers_row){
				.stem = first->stem,
				.first = first->number,
			};
		row = &l->rows[l->n - 1];
		row->last = first->number;
		before = end - begin;
		for (; begin < end; begin++)
			ck_total_count(&row->total, m->list[begin].tensor);
	}
}

int ck_layers_find(const struct ck_catalog *c, const uint32_t *tensors,
		   size_t n, struct ck_layers *out)
{
	struct members m = { .c = c };
	int rc;

	*out = (struct ck_layers){ .shared = ck_shared_prefix(c, tensors, n) };
	rc = members_make(&m, tensors, n, out->shared);
	if (rc)
		return rc;
	out->rows = calloc(m.n + 1, sizeof(*out->rows));
	if (out->rows)
		rows_make(out, &m);
	free(m.list);
	return out->rows ? 0 : -ENOMEM;
}

void ck_layers_fini(struct ck_layers *l)
{
	free(l->rows);
	*l = (struct ck_layers){ 0 };
}

bool ck_layers_have(const struct ck_layers *l, struct ck_str prefix)
{
	struct ck_str part = { prefix.p + l->shared, prefix.len - l->shared };
	uint64_t number;
	size_t len;

	return number_at(part, &number, &len);
}

bool ck_layers_row_is_top(const struct ck_layers *l,
			  const struct ck_layers_row *row)
{
	return row->stem.len == l->shared;
}

void ck_layers_row_name(const struct ck_layers_row *row, struct ck_buf *out)
{
	ck_buf_escaped(out, row->stem);
	if (row->first == row->last)
		ck_buf_printf(out, "%ju", (uintmax_t)row->first);
	else
		ck_buf_printf(out, "{%ju..%ju}", (uintmax_t)row->first,
			      (uintmax_t)row->last);
}
