/* SPDX-License-Identifier: MIT */
/*
 * A byte range of a box -> copies from the chunks that hold it.
 *
 * The bytes of one element are taken as one more dimension, the innermost, of
 * which every chunk has all. A range of bytes in C order is then cut into
 * pieces that are boxes, at most two for each dimension and one between:
 *
 *	. . . . 1 1	begin: the rest of a row (and of an element, of a
 *	2 2 2 2 2 2	plane, ...); then whole rows; then the beginning of
 *	3 3 3 . . .	the row in which the range ends
 *
 * A piece is intersected with the chunks; each intersection is one copy, whose
 * loops are the dimensions that cannot be merged into the run. Copies that
 * continue each other across pieces are joined, so that a range of whole rows,
 * or any range of a chunk that is contiguous, is one run.
 *
 * Chunks are sorted by their offsets. Those that begin behind the piece's last
 * element are skipped by binary search; the search then goes backwards and
 * ends when the chunks found fill the piece. Nothing is assumed about grids,
 * except that chunks are disjoint.
 */
#include "ckptfs/io.h"

#include <errno.h>

enum { DIMS = CK_MAX_DIMS + 1 };

struct planner {
	const struct ck_request *r;
	struct ck_plan *plan;
	uint64_t step[DIMS]; /* bytes from one index to the next in the box */
	uint64_t size[DIMS];
	/* the piece, in the tensor's coordinates */
	uint64_t lo[DIMS];
	uint64_t hi[DIMS];
	uint64_t missing; /* bytes of the piece for which no chunk was found */
};

/* --- the plan's memory --------------------------------------------------- */

/* Room for one more copy with as many loops as there can be. */
static int reserve_copy(struct ck_plan *plan, uint32_t ndim)
{
	struct ck_plan_op *copies = ck_grow(plan->copies, &plan->copies_cap,
					    plan->ncopies, 1, sizeof(*copies));
	struct ck_loop *loops;

	if (!copies)
		return -ENOMEM;
	plan->copies = copies;
	loops = ck_grow(plan->loops, &plan->loops_cap, plan->nloops, ndim,
			sizeof(*loops));
	if (!loops)
		return -ENOMEM;
	plan->loops = loops;
	return 0;
}

void ck_plan_fini(struct ck_plan *plan)
{
	free(plan->copies);
	free(plan->loops);
	*plan = (struct ck_plan){ 0 };
}

/* --- a piece and a chunk -> a copy --------------------------------------- */

static const int64_t *box_of(const struct ck_request *r, uint32_t chunk)
{
	return r->boxes + (size_t)chunk * 2 * r->ndim;
}

static bool touches(const struct planner *p, uint32_t chunk)
{
	uint32_t ndim = p->r->ndim;
	const int64_t *off = box_of(p->r, chunk);
	const int64_t *size = off + ndim;

	for (uint32_t d = 0; d < ndim; d++) {
		uint64_t lo = (uint64_t)off[d];

		if (size[d] <= 0 || lo >= p->hi[d] ||
		    lo + (uint64_t)size[d] <= p->lo[d])
			return false;
	}
	return true;
}

/* Puts a loop around a copy: into its run or its outermost loop if these
 * continue each other in source and destination. Loops are innermost first
 * here. */
static void wrap(struct ck_plan *plan, struct ck_plan_op *c,
		 struct ck_loop loop)
{
	struct ck_loop *outer = plan->loops + plan->nloops;

	if (loop.count == 1)
		return;
	if (c->nloops == 0 && loop.dst == c->run && loop.src == c->run) {
		c->run *= loop.count;
		return;
	}
	if (c->nloops > 0 && loop.dst == outer[-1].count * outer[-1].dst &&
	    loop.src == outer[-1].count * outer[-1].src) {
		outer[-1].count *= loop.count;
		return;
	}
	*outer = loop;
	plan->nloops++;
	c->nloops++;
}

static void reverse_loops(struct ck_loop *loops, uint32_t n)
{
	for (uint32_t i = 0; i < n / 2; i++) {
		struct ck_loop swap = loops[i];

		loops[i] = loops[n - 1 - i];
		loops[n - 1 - i] = swap;
	}
}

/* pos + n * stride. A number too large stays the largest, behind the end of
 * every file. */
static uint64_t advance(uint64_t pos, uint64_t n, uint64_t stride)
{
	uint64_t way;

	if (!ck_mul(&way, n, stride) || !ck_add(&pos, pos, way))
		return UINT64_MAX;
	return pos;
}

/* The copy of what piece and chunk share; they touch. */
static int add_copy(struct planner *p, uint32_t chunk)
{
	const struct ck_request *r = p->r;
	const int64_t *off = box_of(r, chunk);
	const int64_t *size = off + r->ndim;
	const uint64_t *strides = r->strides
					  ? r->strides + (size_t)chunk * r->ndim
					  : NULL;
	uint64_t dense = r->item; /* the stride where there are no gaps */
	struct ck_plan *plan = p->plan;
	struct ck_plan_op c = { .dst = p->lo[r->ndim],
				.src = p->lo[r->ndim],
				.run = p->hi[r->ndim] - p->lo[r->ndim],
				.chunk = chunk,
				.loop = plan->nloops };
	uint64_t bytes = c.run;

	if (reserve_copy(plan, r->ndim))
		return -ENOMEM;
	for (uint32_t d = r->ndim; d > 0 && d--;) {
		uint64_t from = (uint64_t)off[d];
		uint64_t lo = ck_max(p->lo[d], from);
		uint64_t hi = ck_min(p->hi[d], from + (uint64_t)size[d]);
		uint64_t stride = strides ? strides[d] : dense;

		c.dst += (lo - r->off[d]) * p->step[d];
		c.src = advance(c.src, lo - from, stride);
		bytes *= hi - lo;
		wrap(plan, &c, (struct ck_loop){ hi - lo, p->step[d], stride });
		if (!strides)
			dense *= (uint64_t)size[d];
	}
	c.dst -= r->begin;
	reverse_loops(plan->loops + c.loop, c.nloops);
	plan->copies[plan->ncopies++] = c;
	p->missing -= ck_min(p->missing, bytes);
	return 0;
}

/* --- a piece -> copies --------------------------------------------------- */

/* How many chunks, in their order, do not begin behind the piece. */
static uint32_t count_before(const struct planner *p)
{
	const struct ck_request *r = p->r;
	int64_t last[CK_MAX_DIMS];

	for (uint32_t d = 0; d < r->ndim; d++)
		last[d] = (int64_t)(p->hi[d] - 1);
	return ck_boxes_before(r->boxes, r->ndim, r->order, r->nchunks, last);
}

static void reverse_copies(struct ck_plan_op *copies, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		struct ck_plan_op swap = copies[i];

		copies[i] = copies[n - 1 - i];
		copies[n - 1 - i] = swap;
	}
}

/* Makes one copy of the last one before `first` and the one there, if the
 * second continues the first. */
static void join(struct ck_plan *plan, size_t first)
{
	struct ck_plan_op *a, *b;

	if (first == 0)
		return;
	a = &plan->copies[first - 1];
	b = &plan->copies[first];
	if (a->chunk != b->chunk || a->nloops || b->nloops ||
	    a->dst + a->run != b->dst || a->src + a->run != b->src)
		return;
	a->run += b->run;
	plan->ncopies--;
	memmove(b, b + 1, (plan->ncopies - first) * sizeof(*b));
}

/* Where the piece is: at `prefix` in the dimensions before dim, in [first,
 * last) of dim, everywhere in those after it. */
static void set_piece(struct planner *p, const uint64_t *prefix, uint32_t dim,
		      uint64_t first, uint64_t last)
{
	const struct ck_request *r = p->r;

	for (uint32_t d = 0; d <= r->ndim; d++) {
		uint64_t base = d < r->ndim ? r->off[d] : 0;

		p->lo[d] = base;
		p->hi[d] = base + p->size[d];
		if (d < dim) {
			p->lo[d] = base + prefix[d];
			p->hi[d] = p->lo[d] + 1;
		} else if (d == dim) {
			p->lo[d] = base + first;
			p->hi[d] = base + last;
		}
	}
	p->missing = (last - first) * p->step[dim];
}

static int plan_piece(struct planner *p, const uint64_t *prefix, uint32_t dim,
		      uint64_t first, uint64_t last)
{
	struct ck_plan *plan = p->plan;
	size_t old = plan->ncopies;

	if (first >= last)
		return 0;
	set_piece(p, prefix, dim, first, last);
	for (uint32_t i = count_before(p); i > 0 && p->missing > 0; i--) {
		uint32_t chunk = p->r->order[i - 1];

		if (touches(p, chunk) && add_copy(p, chunk))
			return -ENOMEM;
	}
	if (plan->ncopies == old)
		return 0;
	reverse_copies(plan->copies + old, plan->ncopies - old);
	join(plan, old);
	return 0;
}

/* --- a range -> pieces --------------------------------------------------- */

/* The index in each dimension of a byte of the box; for the byte behind the
 * last one, the first index is one too large and the others are 0. */
static void find_index(const struct planner *p, uint64_t pos, uint64_t *index)
{
	for (uint32_t d = 0; d <= p->r->ndim; d++) {
		index[d] = pos / p->step[d];
		pos %= p->step[d];
	}
}

static int plan_range(struct planner *p)
{
	uint32_t inner = p->r->ndim;
	uint32_t split = 0; /* the first dimension in which the ends differ */
	uint64_t begin[DIMS], end[DIMS];
	uint64_t begun = 0; /* 1: pieces inside have part of index begin[d] */
	int rc = 0;

	find_index(p, p->r->begin, begin);
	find_index(p, p->r->end, end);
	while (begin[split] == end[split])
		split++;
	for (uint32_t d = inner; d > split && !rc; d--) {
		if (!begun && begin[d] == 0)
			continue;
		rc = plan_piece(p, begin, d, begin[d] + begun, p->size[d]);
		begun = 1;
	}
	if (!rc)
		rc = plan_piece(p, begin, split, begin[split] + begun,
				end[split]);
	for (uint32_t d = split + 1; d <= inner && !rc; d++)
		rc = plan_piece(p, end, d, 0, end[d]);
	return rc;
}

static void sum_up(struct ck_plan *plan)
{
	for (size_t i = 0; i < plan->ncopies; i++) {
		const struct ck_plan_op *c = &plan->copies[i];
		uint64_t runs = 1;

		for (uint32_t k = 0; k < c->nloops; k++)
			runs *= plan->loops[c->loop + k].count;
		plan->runs += runs;
		plan->covered += runs * c->run;
		plan->shortest = ck_min(plan->shortest, c->run);
	}
}

static void plan_clear(struct ck_plan *plan)
{
	plan->ncopies = plan->nloops = 0;
	plan->runs = plan->covered = 0;
	plan->shortest = UINT64_MAX;
}

int ck_plan_run(struct ck_plan *plan, uint64_t bytes)
{
	plan_clear(plan);
	if (reserve_copy(plan, 0))
		return -ENOMEM;
	plan->copies[plan->ncopies++] = (struct ck_plan_op){ .run = bytes };
	sum_up(plan);
	return 0;
}

int ck_plan_make(const struct ck_request *r, struct ck_plan *plan)
{
	struct planner p;
	uint64_t step = 1;
	int rc;

	plan_clear(plan);
	if (r->begin >= r->end)
		return 0;
	p.r = r;
	p.plan = plan;
	for (uint32_t d = r->ndim + 1; d > 0 && d--;) {
		p.size[d] = d < r->ndim ? r->size[d] : r->item;
		p.step[d] = step;
		step *= p.size[d];
	}
	if (step == 0) /* no element is in an empty box */
		return 0;
	rc = plan_range(&p);
	if (!rc)
		sum_up(plan);
	return rc;
}
