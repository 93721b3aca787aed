/* SPDX-License-Identifier: MIT */
/*
 * tiling: checks whether boxes are disjoint, fast for the grids that sharding makes and
 * with bounded work for any others.
 *
 * The boxes are projected on one dimension. At gaps of their intervals, and where
 * intervals only touch, they fall into groups, and boxes of different groups are
 * disjoint. Each group is projected on the next dimension. A grid is cut into single
 * boxes by one pass for each dimension, and sorting is free because the boxes are
 * sorted already. A group that no dimension cuts has an overlap, or is a tiling of the
 * pinwheel kind: its boxes are compared where their intervals in one dimension meet.
 * That may be quadratic, as may a tiling that loses one box with each cut. So every
 * step is counted, and the search ends with the budget. A struct ck_tiling is used by
 * one thread.
 */
#include "model/catalog/catalog_internal.h"

#include <errno.h>

enum { FEW = 4 }; /* boxes that are compared at once */

/* A group: part of the index, and the dimension to try first. */
struct ck_tiling_range {
	uint32_t begin, end;
	uint32_t dim;
};

int ck_tiling_init(struct ck_tiling *t, uint32_t max)
{
	size_t n = (size_t)max + 1;

	*t = (struct ck_tiling){ 0 };
	t->index = calloc(n, sizeof(*t->index));
	t->spare = calloc(n, sizeof(*t->spare));
	/* Pending groups are disjoint and have at least two boxes. */
	t->stack = calloc(n / 2 + 1, sizeof(*t->stack));
	if (t->index && t->spare && t->stack)
		return 0;
	ck_tiling_fini(t);
	return -ENOMEM;
}

void ck_tiling_fini(struct ck_tiling *t)
{
	free(t->index);
	free(t->spare);
	free(t->stack);
	*t = (struct ck_tiling){ 0 };
}

static void spend(struct ck_tiling *t, uint64_t steps)
{
	t->budget -= ck_min(t->budget, steps);
}

static int64_t off_of(const struct ck_tiling *t, uint32_t box, uint32_t dim)
{
	return t->boxes[(size_t)box * 2 * t->ndim + dim];
}

static int64_t end_of(const struct ck_tiling *t, uint32_t box, uint32_t dim)
{
	return off_of(t, box, dim) + off_of(t, box, t->ndim + dim);
}

/* --- sorting: merges existing runs ------------------------------------------------ */

/* A part of the index, to be sorted by the offsets in [dim, dim_end). */
struct sorting {
	uint32_t begin, end;
	uint32_t dim, dim_end;
};

static bool is_after(struct ck_tiling *t, uint32_t a, uint32_t b,
		     const struct sorting *s)
{
	const int64_t *x = t->boxes + (size_t)a * 2 * t->ndim;
	const int64_t *y = t->boxes + (size_t)b * 2 * t->ndim;
	uint32_t d = s->dim;

	while (d < s->dim_end && x[d] == y[d])
		d++;
	spend(t, d - s->dim + 1);
	return d < s->dim_end && x[d] > y[d];
}

static uint32_t run_end(struct ck_tiling *t, const struct sorting *s,
			uint32_t begin)
{
	uint32_t i = begin + 1;

	while (i < s->end && !is_after(t, t->index[i - 1], t->index[i], s))
		i++;
	return i;
}

static void merge(struct ck_tiling *t, const struct sorting *s, uint32_t begin,
		  uint32_t middle, uint32_t end)
{
	uint32_t *out = t->index + begin;
	const uint32_t *a = t->spare, *a_end = a + (middle - begin);
	const uint32_t *b = t->index + middle, *b_end = t->index + end;

	memcpy(t->spare, out, (middle - begin) * sizeof(*out));
	while (a < a_end && b < b_end)
		*out++ = is_after(t, *a, *b, s) ? *b++ : *a++;
	while (a < a_end)
		*out++ = *a++;
}

static void sort(struct ck_tiling *t, const struct sorting *s)
{
	uint32_t middle, end;

	while (run_end(t, s, s->begin) < s->end) {
		for (uint32_t begin = s->begin; begin < s->end; begin = end) {
			middle = run_end(t, s, begin);
			end = middle;
			if (middle == s->end)
				break;
			end = run_end(t, s, middle);
			merge(t, s, begin, middle, end);
		}
	}
}

void ck_tiling_sort(struct ck_tiling *t)
{
	struct sorting all = { 0, t->n, 0, t->ndim };

	if (t->n)
		sort(t, &all);
}

static void range_sort(struct ck_tiling *t, const struct ck_tiling_range *r,
		       uint32_t dim)
{
	struct sorting s = { r->begin, r->end, dim, dim + 1 };

	sort(t, &s);
}

/* --- comparing ---------------------------------------------------------------- */

/* True if boxes a and b share an element. Records them as t->a and t->b. */
static bool meet(struct ck_tiling *t, uint32_t a, uint32_t b)
{
	uint32_t d = 0;

	while (d < t->ndim && off_of(t, a, d) < end_of(t, b, d) &&
	       off_of(t, b, d) < end_of(t, a, d))
		d++;
	spend(t, d + 1);
	t->a = a < b ? a : b;
	t->b = a < b ? b : a;
	return d == t->ndim;
}

/* Compares all boxes whose intervals in one dimension meet. */
static enum ck_tiling_result compare(struct ck_tiling *t,
				     const struct ck_tiling_range *r,
				     uint32_t dim)
{
	range_sort(t, r, dim);
	for (uint32_t i = r->begin; i < r->end; i++) {
		int64_t end = end_of(t, t->index[i], dim);

		for (uint32_t j = i + 1; j < r->end; j++) {
			if (off_of(t, t->index[j], dim) >= end)
				break;
			if (meet(t, t->index[i], t->index[j]))
				return CK_TILING_OVERLAP;
			if (t->budget == 0)
				return CK_TILING_IRREGULAR;
		}
	}
	return CK_TILING_DISJOINT;
}

/* Returns the dimension in which intervals overlap least: the sum of their lengths is
 * smallest, relative to the range that they span. */
static uint32_t thinnest_dim(struct ck_tiling *t,
			     const struct ck_tiling_range *r)
{
	double best = 0;
	uint32_t found = 0;

	for (uint32_t d = 0; d < t->ndim; d++) {
		int64_t low = INT64_MAX, high = 0;
		double sum = 0;

		for (uint32_t i = r->begin; i < r->end; i++) {
			int64_t off = off_of(t, t->index[i], d);
			int64_t end = end_of(t, t->index[i], d);

			low = off < low ? off : low;
			high = end > high ? end : high;
			sum += (double)(end - off);
		}
		spend(t, r->end - r->begin);
		if (d == 0 || sum / (double)(high - low) < best) {
			best = sum / (double)(high - low);
			found = d;
		}
	}
	return found;
}

/* --- cutting -------------------------------------------------------------------- */

/* True if all intervals begin at one offset: then all meet there, and this dimension
 * cannot cut. */
static bool is_flat(struct ck_tiling *t, const struct ck_tiling_range *r,
		    uint32_t dim)
{
	int64_t first = off_of(t, t->index[r->begin], dim);
	uint32_t i = r->begin + 1;

	while (i < r->end && off_of(t, t->index[i], dim) == first)
		i++;
	spend(t, i - r->begin);
	return i == r->end;
}

/* Pushes the groups of r in one dimension that have more than one box. Returns the
 * number of all groups. */
static uint32_t cut(struct ck_tiling *t, const struct ck_tiling_range *r,
		    uint32_t dim, size_t *depth)
{
	uint32_t groups = 0, begin = r->begin;
	int64_t reach = end_of(t, t->index[begin], dim);

	for (uint32_t i = begin + 1; i <= r->end; i++) {
		if (i < r->end && off_of(t, t->index[i], dim) < reach) {
			int64_t end = end_of(t, t->index[i], dim);

			reach = end > reach ? end : reach;
			continue;
		}
		if (i - begin > 1 && i - begin < r->end - r->begin)
			t->stack[(*depth)++] = (struct ck_tiling_range){
				begin, i, (dim + 1) % t->ndim
			};
		groups++;
		begin = i;
		if (i < r->end)
			reach = end_of(t, t->index[i], dim);
	}
	spend(t, r->end - r->begin);
	return groups;
}

/* Cuts a group in the first dimension that cuts it, or compares its boxes. */
static enum ck_tiling_result settle(struct ck_tiling *t,
				    const struct ck_tiling_range *r,
				    size_t *depth)
{
	if (r->end - r->begin <= FEW)
		return compare(t, r, r->dim);
	for (uint32_t i = 0; i < t->ndim; i++) {
		uint32_t dim = (r->dim + i) % t->ndim;

		if (t->budget == 0)
			return CK_TILING_IRREGULAR;
		if (is_flat(t, r, dim))
			continue;
		range_sort(t, r, dim);
		if (cut(t, r, dim, depth) > 1)
			return CK_TILING_DISJOINT;
	}
	return compare(t, r, thinnest_dim(t, r));
}

enum ck_tiling_result ck_tiling_check(struct ck_tiling *t)
{
	enum ck_tiling_result result = CK_TILING_DISJOINT;
	size_t depth = 0;

	if (t->n < 2)
		return CK_TILING_DISJOINT;
	if (t->ndim == 0) {
		t->a = t->index[0];
		t->b = t->index[1];
		return CK_TILING_OVERLAP;
	}
	t->stack[depth++] = (struct ck_tiling_range){ 0, t->n, 0 };
	while (depth && result == CK_TILING_DISJOINT) {
		struct ck_tiling_range r = t->stack[--depth];

		result = settle(t, &r, &depth);
	}
	return result;
}
