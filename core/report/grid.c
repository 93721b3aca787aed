/* SPDX-License-Identifier: MIT */
/*
 * grid: detects whether the boxes of a tensor are the cells of a grid: each
 * combination of intervals of the dimensions exactly once. Boxes without
 * elements count: ranks that own no part of a tensor save such boxes. No state;
 * any thread.
 */
#include "ckptfs/report.h"

#include <errno.h>

struct interval {
	int64_t off, len;
};

/* Scratch, one of each for every box. */
struct cells {
	struct interval *sorted; /* of one dimension, without duplicates */
	uint32_t nsorted;
	uint64_t *number; /* cell of each box, in the dimensions so far */
	bool *taken;	  /* cells */
};

static int interval_cmp(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return (x->len > y->len) - (x->len < y->len);
}

static struct interval interval_of(const struct ck_tensor *t, uint32_t i,
				   uint32_t d)
{
	const int64_t *box = ck_tensor_box(t, i);

	return (struct interval){ box[d], box[t->ndim + d] };
}

static void intervals_sort(const struct ck_tensor *t, uint32_t d,
			   struct cells *s)
{
	s->nsorted = 0;
	for (uint32_t i = 0; i < t->nchunks; i++)
		s->sorted[i] = interval_of(t, i, d);
	qsort(s->sorted, t->nchunks, sizeof(*s->sorted), interval_cmp);
	for (uint32_t i = 0; i < t->nchunks; i++)
		if (i == 0 || interval_cmp(&s->sorted[s->nsorted - 1],
					   &s->sorted[i]) != 0)
			s->sorted[s->nsorted++] = s->sorted[i];
}

static void numbers_extend(const struct ck_tensor *t, uint32_t d,
			   struct cells *s)
{
	for (uint32_t i = 0; i < t->nchunks; i++) {
		struct interval key = interval_of(t, i, d);
		const struct interval *at = bsearch(&key, s->sorted, s->nsorted,
						    sizeof(key), interval_cmp);

		s->number[i] = s->number[i] * s->nsorted +
			       (uint64_t)(at - s->sorted);
	}
}

static bool is_grid(const struct ck_tensor *t, struct cells *s, int64_t *grid)
{
	uint64_t ncells = 1;

	for (uint32_t d = 0; d < t->ndim; d++) {
		intervals_sort(t, d, s);
		grid[d] = s->nsorted;
		ncells *= s->nsorted;
		if (ncells > t->nchunks)
			return false;
		numbers_extend(t, d, s);
	}
	for (uint32_t i = 0; i < t->nchunks; i++) {
		if (s->taken[s->number[i]])
			return false;
		s->taken[s->number[i]] = true;
	}
	return ncells == t->nchunks;
}

int ck_report_grid(const struct ck_tensor *t, int64_t grid[static CK_MAX_DIMS])
{
	struct cells s = { 0 };
	int rc = -ENOMEM;

	if (t->err || t->holes || !t->nchunks || t->ndim > CK_MAX_DIMS)
		return -ENOENT;
	s.sorted = calloc(t->nchunks, sizeof(*s.sorted));
	s.number = calloc(t->nchunks, sizeof(*s.number));
	s.taken = calloc(t->nchunks, sizeof(*s.taken));
	if (s.sorted && s.number && s.taken)
		rc = is_grid(t, &s, grid) ? 0 : -ENOENT;
	free(s.sorted);
	free(s.number);
	free(s.taken);
	return rc;
}
