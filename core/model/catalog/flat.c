/* SPDX-License-Identifier: MIT */
/*
 * flat: splits a run of elements into boxes, and adds a tensor that is a part of a flat
 * one.
 *
 * A run in C order consists of the rest of a row, the rest of a plane, and so on
 * outwards; then of whole indexes of the widest dimension; then of parts inwards again,
 * down to the beginning of a row. So each box is the largest one that begins where the
 * previous one ends. No state; any thread, with a catalog of its own.
 */
#include "flat.h"
#include "ckptfs/model.h"
#include "ckptfs/table.h"
#include "model/local_box.h"

#include <errno.h>
#include <inttypes.h>

/* --- boxes of a run --------------------------------------------------------------- */

/* Returns the outermost dimension of which the run, at its beginning, has whole
 * indexes. Sets *step to the elements of one index. */
static uint32_t widest(const struct ck_flat_run *run, uint64_t *step)
{
	uint32_t dim = run->ndim - 1;

	*step = 1;
	while (dim > 0) {
		uint64_t wider = *step * (uint64_t)run->shape[dim];

		if (run->first % wider || run->count < wider)
			break;
		*step = wider;
		dim--;
	}
	return dim;
}

/* Sets the box for a run that begins at index `at` of dimension `dim` and the outer
 * ones, counted as one dimension. */
static void place(const struct ck_flat_run *run, uint32_t dim, uint64_t at,
		  int64_t *off, int64_t *len)
{
	for (uint32_t d = run->ndim - 1; d > dim; d--) {
		off[d] = 0;
		len[d] = run->shape[d];
	}
	for (uint32_t d = dim + 1; d > 0 && d--;) {
		uint64_t size = (uint64_t)run->shape[d];

		off[d] = (int64_t)(at % size);
		len[d] = 1;
		at /= size;
	}
}

uint64_t ck_run_next(struct ck_flat_run *run, int64_t *off, int64_t *len)
{
	uint64_t step = 1, most, n = 1;
	uint32_t dim;

	if (run->count == 0)
		return 0;
	if (run->ndim) {
		dim = widest(run, &step);
		place(run, dim, run->first / step, off, len);
		most = (uint64_t)(run->shape[dim] - off[dim]);
		n = ck_min(run->count / step, most);
		len[dim] = (int64_t)n;
	}
	run->first += n * step;
	run->count -= n * step;
	return n * step;
}

/* --- shards ---------------------------------------------------------------------------- */

/* A shard with its position, which keeps the sort stable: qsort(3) need not be. */
struct sorted {
	struct ck_flat_shard shard;
	uint32_t given;
};

static int shard_cmp(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (x->shard.begin != y->shard.begin)
		return x->shard.begin < y->shard.begin ? -1 : 1;
	if (x->shard.count != y->shard.count)
		return x->shard.count > y->shard.count ? -1 : 1;
	return x->given < y->given ? -1 : x->given > y->given;
}

static int overlap(const struct ck_flat_shard *a, const struct ck_flat_shard *b,
		   struct ck_diag *d)
{
	return ck_differs(
		d, EIO, ck_shown("%" PRIu64 " or more", a->begin + a->count),
		ck_shown("%" PRIu64, b->begin),
		"shards overlap: where one of %" PRIu64 " elements begins",
		b->count);
}

/* Marks replicas among sorted shards. Fails if shards overlap. */
static int compare(struct ck_flat_shard *shards, uint32_t n, struct ck_diag *d)
{
	const struct ck_flat_shard *last = shards;

	for (uint32_t i = 0; i < n; i++) {
		struct ck_flat_shard *s = &shards[i];

		s->is_replica = i && s->begin == last->begin &&
				s->count == last->count;
		if (s->is_replica)
			continue;
		if (i && s->begin - last->begin < last->count)
			return overlap(last, s, d);
		last = s;
	}
	return 0;
}

/* Lists the shards that have elements. */
static int take(const struct ck_flat_shard *shards, uint32_t n,
		struct sorted *out, uint32_t *taken, struct ck_diag *d)
{
	*taken = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct ck_flat_shard *s = &shards[i];
		uint64_t end;

		if (!ck_add(&end, s->begin, s->count))
			return ck_fail(d, EIO,
				       "a shard of %" PRIu64
				       " elements at %" PRIu64,
				       s->count, s->begin);
		if (s->count)
			out[(*taken)++] = (struct sorted){ *s, i };
	}
	return 0;
}

int ck_flat_sort(struct ck_flat_shard *shards, uint32_t *n, struct ck_diag *d)
{
	ck_auto_free struct sorted *sorted = calloc(*n + 1UL, sizeof(*sorted));
	uint32_t taken;
	int rc;

	if (!sorted)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = take(shards, *n, sorted, &taken, d);
	if (rc)
		return rc;
	qsort(sorted, taken, sizeof(*sorted), shard_cmp);
	for (uint32_t i = 0; i < taken; i++)
		shards[i] = sorted[i].shard;
	*n = taken;
	return compare(shards, taken, d);
}

/* --- a tensor in a flat one ------------------------------------------------------- */

/* A tensor while its boxes are added. */
struct adding {
	struct ck_catalog *c;
	uint32_t ndim;
	const int64_t *shape;
	uint64_t offset, count; /* elements in the flat tensor */
	uint32_t size;		/* bytes of an element */
};

static uint64_t count_of(uint32_t ndim, const int64_t *shape)
{
	uint64_t count = !ck_dims_have_zero(shape, ndim);

	for (uint32_t d = 0; count && d < ndim; d++)
		count *= (uint64_t)shape[d];
	return count;
}

/* Returns the run of the tensor that is in a shard. */
static struct ck_flat_run run_of(const struct adding *a,
				 const struct ck_flat_shard *s)
{
	uint64_t begin = ck_max(a->offset, s->begin);
	uint64_t end = ck_min(a->offset + a->count, s->begin + s->count);
	struct ck_flat_run run = { a->ndim, a->shape, begin - a->offset, 0 };

	run.count = end > begin ? end - begin : 0;
	return run;
}

/* Returns the item of `count` elements from `first` on of a shard. For an archive it is
 * the same item, whose elements are located when it is read. */
static struct ck_item item_of(const struct adding *a,
			      const struct ck_flat_shard *s, uint64_t first,
			      uint64_t count)
{
	struct ck_item item = s->item;

	if (item.form == CK_FORM_ARCHIVE) {
		item.form = CK_FORM_WITHIN;
		return item;
	}
	item.form = CK_FORM_ELEMENTS;
	item.length = count * a->size;
	if (!ck_add(&item.fpos, item.fpos, first * a->size))
		item.fpos = UINT64_MAX; /* beyond the end of any file */
	return item;
}

/* Adds the boxes of shards[0] and its replicas, n in all. */
static int boxes_add(const struct adding *a, const struct ck_flat_shard *shards,
		     uint32_t n)
{
	struct ck_flat_run run = run_of(a, shards);
	int64_t off[CK_MAX_DIMS], len[CK_MAX_DIMS];
	int rc = 0;

	for (;;) {
		uint64_t first = a->offset + run.first - shards->begin;
		uint64_t count = ck_run_next(&run, off, len);
		struct ck_item item = item_of(a, shards, first, count);

		if (count == 0)
			return 0;
		rc = ck_catalog_chunk_add(a->c, off, len, &item);
		if (rc == 0 && item.form == CK_FORM_WITHIN)
			rc = ck_catalog_within_add(a->c, shards->chunk, first);
		for (uint32_t i = 1; rc == 0 && i < n; i++) {
			item = item_of(a, &shards[i], first, count);
			rc = ck_catalog_replica_add(a->c, &item);
		}
		if (rc)
			return rc;
	}
}

/* Returns the first shard that ends behind an element; shards are disjoint. */
static uint32_t first_at(const struct ck_flat_shard *shards, uint32_t n,
			 uint64_t element)
{
	return (uint32_t)CK_COUNT_BEFORE(
		n, i, shards[i].begin + shards[i].count <= element);
}

int ck_flat_tensor_add(struct ck_catalog *c, struct ck_str key,
		       struct ck_str dtype, uint32_t ndim, const int64_t *shape,
		       uint64_t offset, const struct ck_flat_shard *shards,
		       uint32_t n)
{
	struct adding a = { c, ndim, shape, offset, 0, 0 };
	int rc = ck_catalog_tensor_add(c, key, dtype, ndim, shape);

	if (rc || ndim > CK_MAX_DIMS)
		return rc;
	ck_catalog_tensor_apart(c); /* local/ is the same without a sidecar */
	a.count = count_of(ndim, shape);
	a.size = ck_dtype_at(ck_dtype_by_name(dtype))->size;
	for (uint32_t i = first_at(shards, n, offset), end = i;
	     rc == 0 && i < n && shards[i].begin < offset + a.count; i = end) {
		for (end = i + 1; end < n && shards[end].is_replica; end++)
			;
		rc = boxes_add(&a, &shards[i], end - i);
	}
	return rc;
}

/* --- shards of FSDP1 -------------------------------------------------------------- */

uint64_t ck_flat_piece(uint64_t numel, uint64_t world, uint64_t rank,
		       uint64_t offset, uint64_t count, uint64_t *first)
{
	uint64_t begin, n = ck_chunk(numel, world, rank, &begin);
	uint64_t low = ck_max(begin, offset);
	uint64_t high = ck_min(begin + n, offset + count);

	*first = ck_min(low - offset, count);
	return high > low ? high - low : 0;
}
