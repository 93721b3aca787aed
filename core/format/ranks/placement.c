/* SPDX-License-Identifier: MIT */
/*
 * placement: computes the boxes of a DTensor that one rank of a mesh has.
 *
 * Each dimension of the mesh that shards makes one cut of one dimension of the tensor. A cut
 * divides the remaining elements as torch.chunk does: chunks of the size that is rounded up,
 * the last ones short or empty. The rank keeps the chunk of its coordinate.
 *
 *   Shard          Cuts in the order of mesh dimensions, from left to right.
 *   _StridedShard  Cuts after mesh dimensions further to the right: FSDP2 over tensor
 *                  parallelism. split_factor is the product of the sizes of these, and so
 *                  determines the position in the order
 *                  (DTensorSpec._maybe_convert_StridedShard_to_shard_order).
 *
 * A split_factor that is no such product has the meaning of _StridedShard._split_tensor: the
 * remaining elements are divided into split_factor chunks, and the rank keeps its part of each
 * chunk. So the remainder of a dimension is a list of ranges. The boxes of the rank are all
 * combinations of the ranges of each dimension.
 *
 * Stateless. Memory is charged to the budget of the pickle, so that a small pickle cannot
 * cause many boxes.
 */
#include "model/local_box.h"
#include "ranks_internal.h"

#include <errno.h>
#include <inttypes.h>

struct range {
	uint64_t at, len;
};

/* The remainder of one dimension of the tensor: ascending ranges with gaps between them. */
struct left {
	struct range *ranges; /* owned */
	size_t n, cap;
	uint64_t len; /* elements of all ranges */
};

struct cut {
	struct ck_pickle *p;
	const struct ck_rank_place *place;
	struct ck_diag *d;
};

static bool is_cutting(const struct ck_placement *p)
{
	return p->type == CK_PLACE_SHARD || p->type == CK_PLACE_STRIDED;
}

static int out_of_memory(struct ck_diag *d)
{
	return ck_fail(d, ENOMEM, "out of memory");
}

static int too_many(struct ck_diag *d)
{
	return ck_fail(d, EBADMSG,
		       "a local tensor of more than %d boxes, or of "
		       "more than its pickle is worth",
		       CK_RANK_BOXES);
}

/* --- the order of the cuts ------------------------------------------------------ */

static void order_insert(uint32_t *order, uint32_t *n, uint32_t at,
			 uint32_t dim)
{
	memmove(order + at + 1, order + at, (*n - at) * sizeof(*order));
	order[at] = dim;
	(*n)++;
}

/* Finds the position behind the first dimensions of the order whose sizes have the product
 * `factor`. False if there is no such position. */
static bool order_find(const struct ck_rank_place *place, uint64_t factor,
		       const uint32_t *order, uint32_t n, uint32_t *at)
{
	uint64_t product = 1;

	for (*at = 0; product != factor; (*at)++) {
		if (*at == n ||
		    !ck_mul(&product, product, place->mesh[order[*at]].size))
			return false;
	}
	return true;
}

/* Computes the order of the cuts of one dimension of the tensor from split_factors; from left
 * to right if a factor gives no position. Returns the number of cuts. */
static uint32_t order_of_dim(const struct ck_rank_place *place, uint32_t dim,
			     uint32_t order[static CK_RANK_MESH_DIMS])
{
	uint32_t n = 0, at, i;

	for (i = place->nmesh; i > 0; i--) {
		const struct ck_placement *p = &place->mesh[i - 1].placement;

		if (!is_cutting(p) || p->dim != dim)
			continue;
		if (!order_find(place, p->type == CK_PLACE_SHARD ? 1 : p->split,
				order, n, &at))
			break;
		order_insert(order, &n, at, i - 1);
	}
	if (i == 0)
		return n;
	n = 0;
	for (i = 0; i < place->nmesh; i++)
		if (is_cutting(&place->mesh[i].placement) &&
		    place->mesh[i].placement.dim == dim)
			order[n++] = i;
	return n;
}

/* Selects the cuts of one dimension of the tensor from place->order. */
static uint32_t order_given(const struct ck_rank_place *place, uint32_t dim,
			    uint32_t order[static CK_RANK_MESH_DIMS])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < place->norder; i++)
		if (place->mesh[place->order[i]].placement.dim == dim)
			order[n++] = place->order[i];
	return n;
}

/* True if cut i is a Shard, or a _StridedShard whose split_factor is the product of the earlier
 * cuts by mesh dimensions to its right. */
static bool is_plain(const struct ck_rank_place *place, const uint32_t *order,
		     uint32_t i)
{
	const struct ck_placement *p = &place->mesh[order[i]].placement;
	uint64_t product = 1;

	if (p->type == CK_PLACE_SHARD)
		return true;
	for (uint32_t k = 0; k < i; k++)
		if (order[k] > order[i] &&
		    !ck_mul(&product, product, place->mesh[order[k]].size))
			return false;
	return product == p->split;
}

/* --- one cut --------------------------------------------------------------------- */

static int range_add(const struct cut *c, struct left *to, uint64_t at,
		     uint64_t len)
{
	struct range *more;

	if (len == 0)
		return 0;
	to->len += len;
	if (to->n &&
	    to->ranges[to->n - 1].at + to->ranges[to->n - 1].len == at) {
		to->ranges[to->n - 1].len += len;
		return 0;
	}
	if (to->n >= CK_RANK_BOXES || !ck_pickle_spend(c->p, sizeof(*more)))
		return too_many(c->d);
	more = ck_grow(to->ranges, &to->cap, to->n, 1, sizeof(*more));
	if (!more)
		return out_of_memory(c->d);
	to->ranges = more;
	to->ranges[to->n++] = (struct range){ at, len };
	return 0;
}

/* Position in a list of ranges. */
struct walk {
	size_t i;
	uint64_t before; /* elements in the ranges before i */
};

/* Adds the elements [begin, end) of `from`, counted over its ranges. Calls with the
 * same walk must have ascending, disjoint elements. */
static int part_add(const struct cut *c, const struct left *from,
		    struct walk *w, uint64_t begin, uint64_t end,
		    struct left *to)
{
	int rc = 0;

	while (w->i < from->n && w->before + from->ranges[w->i].len <= begin)
		w->before += from->ranges[w->i++].len;
	while (rc == 0 && begin < end && w->i < from->n) {
		const struct range *r = &from->ranges[w->i];
		uint64_t stop = ck_min(end, w->before + r->len);

		rc = range_add(c, to, r->at + (begin - w->before),
			       stop - begin);
		begin = stop;
		if (begin == w->before + r->len)
			w->before += from->ranges[w->i++].len;
	}
	return rc;
}

/* Divides the range `of` into `parts` chunks, and adds chunk `number`. */
static int chunk_add(const struct cut *c, const struct left *from,
		     struct walk *w, struct range of, uint64_t parts,
		     uint64_t number, struct left *to)
{
	uint64_t begin, len = ck_chunk(of.len, parts, number, &begin);

	begin += of.at;
	return part_add(c, from, w, begin, begin + len, to);
}

/* Divides all elements into split_factor chunks, and adds part `number` of each. */
static int strided_add(const struct cut *c, const struct left *from,
		       const struct ck_mesh_dim *dim, uint64_t number,
		       struct left *to)
{
	uint64_t begin,
		size = ck_chunk(from->len, dim->placement.split, 0, &begin);
	struct walk w = { 0 };
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < from->len;) {
		struct range of = { at, ck_min(size, from->len - at) };

		/* Charged also for an empty part, which takes time. */
		if (!ck_pickle_spend(c->p, sizeof(of)))
			return too_many(c->d);
		rc = chunk_add(c, from, &w, of, dim->size, number, to);
		at += of.len;
	}
	return rc;
}

static int cut_once(const struct cut *c, const uint32_t *order, uint32_t i,
		    struct left *left)
{
	const struct ck_mesh_dim *dim = &c->place->mesh[order[i]];
	uint64_t number = c->place->coordinate[order[i]];
	struct left to = { 0 };
	struct walk w = { 0 };
	int rc;

	if (is_plain(c->place, order, i))
		rc = chunk_add(c, left, &w, (struct range){ 0, left->len },
			       dim->size, number, &to);
	else
		rc = strided_add(c, left, dim, number, &to);
	free(left->ranges);
	*left = to;
	return rc;
}

static int cut_dim(const struct cut *c, uint32_t dim, struct left *left)
{
	uint32_t order[CK_RANK_MESH_DIMS], n;
	int rc = range_add(c, left, 0, (uint64_t)c->place->shape[dim]);

	n = c->place->order ? order_given(c->place, dim, order)
			    : order_of_dim(c->place, dim, order);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = cut_once(c, order, i, left);
	return rc;
}

/* --- all combinations --------------------------------------------------------------- */

/* Sets the box of a local tensor without elements. Like torch, it has the size of the whole
 * tensor as offset of an empty dimension. */
static void empty_box(const struct cut *c, const struct left *left,
		      int64_t *box)
{
	uint32_t ndim = c->place->ndim;

	for (uint32_t d = 0; d < ndim; d++) {
		box[d] = left[d].n == 1 ? (int64_t)left[d].ranges[0].at : 0;
		if (left[d].len == 0)
			box[d] = c->place->shape[d];
		box[ndim + d] = (int64_t)left[d].len;
		box[2 * ndim + d] = 0;
	}
}

/* index: number of the range in each dimension; local: its offset in the local tensor. */
static void box_set(const struct left *left, uint32_t ndim, const size_t *index,
		    const uint64_t *local, int64_t *box)
{
	for (uint32_t d = 0; d < ndim; d++) {
		box[d] = (int64_t)left[d].ranges[index[d]].at;
		box[ndim + d] = (int64_t)left[d].ranges[index[d]].len;
		box[2 * ndim + d] = (int64_t)local[d];
	}
}

/* Moves to the next combination, in C order. */
static void index_step(const struct left *left, uint32_t ndim, size_t *index,
		       uint64_t *local)
{
	for (uint32_t next = ndim; next > 0; next--) {
		uint32_t d = next - 1;

		local[d] += left[d].ranges[index[d]].len;
		if (++index[d] < left[d].n)
			return;
		index[d] = 0;
		local[d] = 0;
	}
}

static int boxes_count(const struct cut *c, const struct left *left,
		       bool *empty, uint32_t *n)
{
	uint64_t count = 1;

	*empty = false;
	for (uint32_t d = 0; d < c->place->ndim; d++)
		*empty |= left[d].len == 0;
	for (uint32_t d = 0; !*empty && d < c->place->ndim; d++) {
		count *= left[d].n;
		if (count > CK_RANK_BOXES)
			return too_many(c->d);
	}
	*n = (uint32_t)count;
	return 0;
}

static int boxes_fill(const struct cut *c, const struct left *left,
		      struct ck_arena *arena, struct ck_rank_piece *out)
{
	uint32_t ndim = c->place->ndim;
	struct ck_rank_reader r = { c->p, NULL, arena, c->d };
	size_t index[CK_MAX_DIMS] = { 0 };
	uint64_t local[CK_MAX_DIMS] = { 0 };
	int64_t *size, *boxes;
	bool empty;
	int rc = boxes_count(c, left, &empty, &out->nboxes);

	if (rc == 0)
		rc = ck_rank_alloc(&r, ndim, sizeof(*size), &size);
	if (rc == 0)
		rc = ck_rank_alloc(&r, (size_t)out->nboxes * 3 * ndim,
				   sizeof(*boxes), &boxes);
	if (rc)
		return rc;
	for (uint32_t d = 0; d < ndim; d++)
		size[d] = (int64_t)left[d].len;
	out->size = size;
	out->boxes = boxes;
	if (empty)
		empty_box(c, left, boxes);
	for (uint32_t i = 0; !empty && i < out->nboxes; i++) {
		box_set(left, ndim, index, local, boxes + (size_t)i * 3 * ndim);
		index_step(left, ndim, index, local);
	}
	return 0;
}

static int place_check(const struct ck_rank_place *place, struct ck_diag *d)
{
	if (place->ndim > CK_MAX_DIMS || place->nmesh > CK_RANK_MESH_DIMS)
		return ck_fail(d, EBADMSG,
			       "a tensor of %u dimensions on a mesh "
			       "of %u",
			       place->ndim, place->nmesh);
	for (uint32_t i = 0; i < place->nmesh; i++) {
		const struct ck_mesh_dim *m = &place->mesh[i];

		if (m->size == 0 || place->coordinate[i] >= m->size)
			return ck_differs(
				d, EBADMSG,
				ck_shown("less than %" PRIu64, m->size),
				ck_shown("%" PRIu64, place->coordinate[i]),
				"a coordinate outside of its mesh");
		if (!is_cutting(&m->placement))
			continue;
		if (m->placement.dim >= place->ndim)
			return ck_differs(
				d, EBADMSG,
				ck_shown("less than %u", place->ndim),
				ck_shown("%u", m->placement.dim),
				"a placement cuts a dimension that is not there");
		if (m->placement.type == CK_PLACE_STRIDED &&
		    m->placement.split == 0)
			return ck_differs(d, EBADMSG, "1 or more", "0",
					  "the split_factor of a placement");
	}
	return 0;
}

int ck_rank_boxes(struct ck_pickle *p, const struct ck_rank_place *place,
		  struct ck_arena *arena, struct ck_rank_piece *out,
		  struct ck_diag *d)
{
	struct left left[CK_MAX_DIMS] = { 0 };
	struct cut c = { p, place, d };
	int rc = place_check(place, d);

	if (rc)
		return rc;
	for (uint32_t i = 0; rc == 0 && i < place->ndim; i++)
		rc = cut_dim(&c, i, &left[i]);
	if (rc == 0)
		rc = boxes_fill(&c, left, arena, out);
	for (uint32_t i = 0; i < place->ndim; i++)
		free(left[i].ranges);
	return rc;
}
