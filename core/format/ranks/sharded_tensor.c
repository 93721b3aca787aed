/* SPDX-License-Identifier: MIT */
/*
 * sharded_tensor: reads a pickled ShardedTensor: (local_shards, metadata, pg_state, ...). The
 * metadata of each shard has its box. Boxes are clipped to the size of the whole tensor:
 * before 2.1, FSDP1 saved the padding of a rank as a shard behind the end. A local tensor may
 * be a ShardedTensor itself (FSDP1 over tensor parallelism); its boxes are inside the box of
 * the outer shard. The walk over nested ones is bounded, and does not recurse. The state is
 * local to one call.
 */
#include "ranks_internal.h"

#include <errno.h>
#include <inttypes.h>

enum { NESTED_MAX = 4 };

/* A ShardedTensor whose local shards are being read. */
struct nested {
	struct ck_pv shards;
	uint32_t next;		 /* index of the next shard */
	int64_t at[CK_MAX_DIMS]; /* its offsets in the whole tensor */
};

struct walk {
	struct ck_rank_reader *r;
	struct ck_rank_part *out;
	struct nested *level; /* owned, NESTED_MAX */
	uint32_t depth;
	struct ck_rank_piece *pieces; /* out->npieces; owned */
	size_t cap;
};

/* A local shard. */
struct shard {
	struct ck_pv tensor;
	int64_t at[CK_MAX_DIMS], size[CK_MAX_DIMS];
};

static int malformed(struct ck_rank_reader *r, const char *what)
{
	return ck_fail(r->d, EBADMSG, "malformed ShardedTensor: %s", what);
}

/* --- its state ----------------------------------------------------------------- */

static bool state_at(const struct ck_rank_typed *t, uint32_t i,
		     struct ck_pv *out)
{
	if (!ck_pv_is_sequence(&t->state) || ck_pv_count(&t->state) != 5)
		return false;
	*out = ck_pv_at(&t->state, i);
	return true;
}

static bool size_take(const struct ck_rank_reader *r,
		      const struct ck_rank_typed *t, uint32_t *ndim,
		      int64_t *size)
{
	struct ck_pv v, metadata;
	struct ck_str class;

	return state_at(t, 1, &v) && ck_rank_object(r, &v, &class, &metadata) &&
	       ck_str_is(class, "ShardedTensorMetadata") &&
	       ck_pv_get(&metadata, "size", &v) && ck_rank_dims(&v, ndim, size);
}

static bool count_take(const struct ck_pv *state, const char *name,
		       uint64_t *out)
{
	struct ck_pv v;
	int64_t i;

	if (!ck_pv_get(state, name, &v) || !ck_pv_int(&v, &i) || i < 0 ||
	    i > CK_RANK_MAX)
		return false;
	*out = (uint64_t)i;
	return true;
}

/* Reads the rank from the ProcessGroupState. It is recognised by its attributes: as a nested
 * class, it does not always have a global name. */
static int group_take(struct ck_rank_reader *r, const struct ck_rank_typed *t,
		      struct ck_rank_answer *out)
{
	struct ck_pv v, state;
	struct ck_str class;

	if (!state_at(t, 2, &v) || !ck_rank_object(r, &v, &class, &state) ||
	    !count_take(&state, "global_rank", &out->rank) ||
	    !count_take(&state, "global_world_size", &out->world))
		return malformed(r, "its ProcessGroupState");
	if (out->rank >= out->world)
		return ck_differs(r->d, EBADMSG,
				  ck_shown("less than %" PRIu64, out->world),
				  ck_shown("%" PRIu64, out->rank),
				  "malformed ShardedTensor: its global_rank");
	out->ranks = out->world;
	return 0;
}

/* --- shards --------------------------------------------------------------------- */

static int shard_take(struct ck_rank_reader *r, const struct ck_pv *v,
		      uint32_t ndim, struct shard *out)
{
	struct ck_pv shard, metadata, at, size;
	struct ck_str class;
	uint32_t n, m;

	if (!ck_rank_object(r, v, &class, &shard) ||
	    !ck_str_is(class, "Shard") ||
	    !ck_pv_get(&shard, "tensor", &out->tensor) ||
	    !ck_pv_get(&shard, "metadata", &metadata))
		return malformed(r, "a local shard");
	if (!ck_rank_object(r, &metadata, &class, &metadata) ||
	    !ck_str_is(class, "ShardMetadata") ||
	    !ck_pv_get(&metadata, "shard_offsets", &at) ||
	    !ck_pv_get(&metadata, "shard_sizes", &size) ||
	    !ck_rank_dims(&at, &n, out->at) ||
	    !ck_rank_dims(&size, &m, out->size))
		return malformed(r, "the metadata of a local shard");
	if (n != ndim || m != ndim)
		return ck_differs(r->d, EBADMSG,
				  ck_shown("%u dimensions", ndim),
				  ck_shown("%u and %u", n, m),
				  "malformed ShardedTensor: a local shard");
	return 0;
}

/* Clips a box to the whole tensor. *gone: all its elements were clipped. */
static void clip(const struct ck_rank_part *part, const int64_t *at,
		 int64_t *size, bool *gone)
{
	bool had = !ck_dims_have_zero(size, part->ndim);

	for (uint32_t d = 0; d < part->ndim; d++) {
		int64_t room = part->shape[d] - at[d];

		if (room < 0)
			room = 0;
		if (size[d] > room)
			size[d] = room;
	}
	*gone = had && ck_dims_have_zero(size, part->ndim);
}

static int piece_add(struct walk *w, const struct shard *shard,
		     const int64_t *at)
{
	uint32_t ndim = w->out->ndim;
	struct ck_rank_piece *more;
	int64_t *size, *box;
	bool gone;
	int rc = ck_rank_alloc(w->r, ndim, sizeof(*size), &size);

	if (rc == 0)
		rc = ck_rank_alloc(w->r, 3 * (size_t)ndim, sizeof(*box), &box);
	if (rc)
		return rc;
	memcpy(size, shard->size, ndim * sizeof(*size));
	memcpy(box, at, ndim * sizeof(*box));
	memcpy(box + ndim, size, ndim * sizeof(*box));
	for (uint32_t d = 0; d < ndim; d++)
		box[2 * ndim + d] = 0;
	clip(w->out, box, box + ndim, &gone);
	if (gone)
		return 0;
	for (uint32_t d = 0; d < ndim; d++)
		if (box[d] > w->out->shape[d])
			box[d] = w->out->shape[d];
	if (w->out->npieces >= CK_RANK_BOXES)
		return malformed(w->r, "too many local shards");
	more = ck_grow(w->pieces, &w->cap, w->out->npieces, 1, sizeof(*more));
	if (!more)
		return ck_fail(w->r->d, ENOMEM, "out of memory");
	w->pieces = more;
	w->pieces[w->out->npieces++] = (struct ck_rank_piece){ shard->tensor,
							       size, box, 1 };
	return 0;
}

static int enter(struct walk *w, const struct ck_rank_typed *t,
		 const int64_t *at)
{
	struct nested *level = &w->level[w->depth];

	if (w->depth == NESTED_MAX)
		return malformed(w->r, "too many inside each other");
	if (!state_at(t, 0, &level->shards) || level->shards.tag != CK_PV_LIST)
		return malformed(w->r, "its local_shards");
	level->next = 0;
	memcpy(level->at, at, w->out->ndim * sizeof(*at));
	w->depth++;
	return 0;
}

/* Enters a nested ShardedTensor, which must have the size of its shard. */
static int enter_nested(struct walk *w, const struct ck_rank_typed *t,
			const struct shard *shard, const int64_t *at)
{
	int64_t size[CK_MAX_DIMS];
	uint32_t n;

	if (!size_take(w->r, t, &n, size) || n != w->out->ndim ||
	    memcmp(size, shard->size, n * sizeof(*size)) != 0)
		return malformed(w->r, "one inside of it has another size");
	return enter(w, t, at);
}

static int shard_visit(struct walk *w, struct nested *level)
{
	struct ck_pv v = ck_pv_at(&level->shards, level->next++);
	struct ck_rank_typed inner;
	int64_t at[CK_MAX_DIMS];
	struct shard shard;
	int rc;

	/* The same list may be visited in many places of the pickle. */
	if (!ck_pickle_spend(w->r->p, sizeof(v)))
		return malformed(w->r, "too many local shards");
	rc = shard_take(w->r, &v, w->out->ndim, &shard);
	for (uint32_t d = 0; rc == 0 && d < w->out->ndim; d++)
		if (__builtin_add_overflow(level->at[d], shard.at[d], &at[d]))
			rc = malformed(w->r, "offsets that are too large");
	if (rc)
		return rc;
	if (ck_rank_typed(w->r, &shard.tensor, &inner) &&
	    ck_str_is(inner.class, "ShardedTensor"))
		return enter_nested(w, &inner, &shard, at);
	return piece_add(w, &shard, at);
}

static int shards_read(struct walk *w, const struct ck_rank_typed *t)
{
	static const int64_t origin[CK_MAX_DIMS];
	int rc = enter(w, t, origin);

	while (rc == 0 && w->depth) {
		struct nested *level = &w->level[w->depth - 1];

		if (level->next == ck_pv_count(&level->shards))
			w->depth--;
		else
			rc = shard_visit(w, level);
	}
	return rc;
}

static int pieces_keep(struct walk *w)
{
	struct ck_rank_part *out = w->out;
	int rc = ck_rank_alloc(w->r, out->npieces, sizeof(*out->pieces),
			       &out->pieces);

	if (rc == 0 && out->npieces)
		memcpy(out->pieces, w->pieces,
		       out->npieces * sizeof(*out->pieces));
	return rc;
}

int ck_rank_sharded_read(struct ck_rank_reader *r,
			 const struct ck_rank_typed *t,
			 struct ck_rank_part *out)
{
	struct walk w = { .r = r, .out = out };
	int64_t size[CK_MAX_DIMS], *shape;
	int rc;

	out->kind = CK_KIND_SHARDED_TENSOR;
	if (!ck_rank_dtype(r, &t->dtype, &out->dtype) ||
	    !size_take(r, t, &out->ndim, size))
		return malformed(r, "its dtype or the size in its metadata");
	rc = group_take(r, t, &out->answer);
	if (rc == 0)
		rc = ck_rank_alloc(r, out->ndim, sizeof(*shape), &shape);
	if (rc)
		return rc;
	memcpy(shape, size, out->ndim * sizeof(*shape));
	out->shape = shape;
	w.level = calloc(NESTED_MAX, sizeof(*w.level));
	rc = w.level ? shards_read(&w, t)
		     : ck_fail(r->d, ENOMEM, "out of memory");
	if (rc == 0)
		rc = pieces_keep(&w);
	free(w.level);
	free(w.pieces);
	return rc;
}
