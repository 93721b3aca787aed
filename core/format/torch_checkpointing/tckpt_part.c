/* SPDX-License-Identifier: MIT */
/*
 * tckpt_part: the part that a rank has of a tensor, by metadata.pkl. The boxes of a DTensor follow
 * from mesh and placements (ranks/placement.c); those of other tensors are listed. What does not
 * fit is a fault of the tensor, or of the part of this rank. Stateless, except for a cache.
 */
#include "format/ranks/ranks_internal.h"
#include "tckpt_internal.h"

#include <errno.h>
#include <inttypes.h>

/* The part that is being computed. */
struct computing {
	struct ck_rank_reader r;
	const struct ck_tckpt_local *local;
	struct ck_tckpt_seen *seen;
	uint64_t rank;
	struct ck_rank_part *part;
	bool is_over; /* the budget is exceeded */
	struct ck_diag d;
};

static int misfit(struct computing *c, const char *what)
{
	return ck_fail(&c->d, EBADMSG, CK_TCKPT_METADATA ": %s", what);
}

/* --- groups --------------------------------------------------------------------------- */

/* The identity of a value that a pickle may have in several places. */
static const void *identity(const struct ck_pv *v)
{
	return v->tag == CK_PV_INTS ? (const void *)v->ints
				    : (const void *)ck_pv_list(v);
}

/* Returns the position of the rank in a sequence, or -1. Charges the search to the budget: a small
 * metadata.pkl can have one long sequence in many groups. If the budget is exceeded, sets
 * c->is_over. */
static int64_t rank_find(struct computing *c, const struct ck_pv *ranks)
{
	uint32_t n = ck_pv_count(ranks);

	c->is_over |= !ck_pickle_spend(c->r.p, n / 8 + 1);
	for (uint32_t i = 0; i < n && !c->is_over; i++) {
		struct ck_pv v = ck_pv_at(ranks, i);
		int64_t is;

		if (ck_pv_int(&v, &is) && is >= 0 && (uint64_t)is == c->rank)
			return i;
	}
	return -1;
}

/* The same as rank_find() >= 0, for the ranks that were used last. */
static bool has_rank(struct computing *c, const struct ck_pv *ranks)
{
	struct ck_tckpt_seen *seen = c->seen;
	const void *is = identity(ranks);

	if (!is || seen->ranks != is || seen->rank != c->rank) {
		seen->has = rank_find(c, ranks) >= 0;
		seen->ranks = is;
		seen->mesh = seen->rank == c->rank ? seen->mesh : NULL;
		seen->rank = c->rank;
	}
	return seen->has;
}

/* Returns 1 if a group has the rank, and sets *sharding; 0 if no group has it; or -EBADMSG. */
static int group_find(struct computing *c, const struct ck_tckpt_path *path,
		      struct ck_pv *sharding)
{
	struct ck_pv ranks;

	for (uint32_t i = 0; i < ck_pv_count(&path->groups); i++) {
		if (!ck_tckpt_group_take(path, i, &ranks, sharding))
			return misfit(c, "a malformed group of ranks");
		if (has_rank(c, &ranks))
			return 1;
		if (c->is_over)
			return misfit(c, "too many ranks in its groups");
	}
	return 0;
}

/* --- parts of all types ------------------------------------------------------------------- */

static int alloc(struct computing *c, size_t n, size_t size, void *out)
{
	c->r.d = &c->d;
	return ck_rank_alloc(&c->r, n, size, out);
}

static struct ck_pv local_value(const struct ck_tckpt_local *local)
{
	if (!local->value)
		return (struct ck_pv){ .tag = CK_PV_NONE };
	return local->own && local->own->npieces ? local->own->pieces[0].tensor
						 : *local->value;
}

static int piece_make(struct computing *c)
{
	int rc = alloc(c, 1, sizeof(*c->part->pieces), &c->part->pieces);

	if (rc)
		return rc;
	c->part->npieces = 1;
	c->part->pieces[0] =
		(struct ck_rank_piece){ .tensor = local_value(c->local) };
	return 0;
}

/* Makes the local tensor a part that is its whole tensor. */
static int whole_make(struct computing *c)
{
	const struct ck_tckpt_local *local = c->local;
	int64_t *boxes;
	int rc;

	*c->part = (struct ck_rank_part){
		.kind = CK_KIND_TENSOR,
		.dtype = local->dtype,
		.ndim = local->ndim,
		.shape = local->size,
		.answer = { CK_NO_RANK, 0, 0 },
	};
	rc = piece_make(c);
	if (rc == 0)
		rc = alloc(c, 3UL * local->ndim, sizeof(*boxes), &boxes);
	if (rc)
		return -ENOMEM;
	for (uint32_t d = 0; d < local->ndim; d++) {
		boxes[d] = boxes[2 * local->ndim + d] = 0;
		boxes[local->ndim + d] = local->size[d];
	}
	c->part->pieces[0].size = local->size;
	c->part->pieces[0].boxes = boxes;
	c->part->pieces[0].nboxes = 1;
	return 0;
}

static int shape_take(struct computing *c, const struct ck_pv *data)
{
	struct ck_str torch = CK_STR("torch."), dtype;
	int64_t dims[CK_MAX_DIMS], *shape;
	struct ck_pv v;
	int rc;

	if (!ck_pv_get(data, "dtype", &v) || !ck_pv_str(&v, &dtype) ||
	    !ck_str_starts(dtype, torch))
		return misfit(c, "malformed dtype");
	c->part->dtype = (struct ck_str){ dtype.p + torch.len,
					  dtype.len - torch.len };
	if (!ck_pv_get(data, "global_shape", &v) ||
	    !ck_rank_dims(&v, &c->part->ndim, dims))
		return misfit(c, "malformed global_shape");
	rc = alloc(c, c->part->ndim, sizeof(*shape), &shape);
	if (rc)
		return rc;
	memcpy(shape, dims, c->part->ndim * sizeof(*shape));
	c->part->shape = shape;
	return 0;
}

/* --- DTensors ------------------------------------------------------------------------------ */

struct mesh {
	struct ck_pv shape, data, names;
	uint32_t ndim;
	int64_t sizes[CK_RANK_MESH_DIMS];
};

static bool mesh_take(const struct ck_pv *data, struct mesh *out)
{
	int64_t sizes[CK_MAX_DIMS];
	uint64_t ranks = 1;
	struct ck_pv spec;

	if (!ck_pv_get(data, "mesh_spec", &spec) ||
	    !ck_pv_get(&spec, "mesh_shape", &out->shape) ||
	    !ck_pv_get(&spec, "mesh_data", &out->data) ||
	    !ck_pv_get(&spec, "mesh_dim_names", &out->names) ||
	    !ck_pv_is_sequence(&out->data) ||
	    !ck_rank_dims(&out->shape, &out->ndim, sizes) ||
	    out->ndim > CK_RANK_MESH_DIMS)
		return false;
	for (uint32_t i = 0; i < out->ndim; i++) {
		out->sizes[i] = sizes[i];
		if (sizes[i] < 1 || !ck_mul(&ranks, ranks, (uint64_t)sizes[i]))
			return false;
	}
	return ranks == ck_pv_count(&out->data);
}

/* Finds the place of the rank in the mesh, or in the one that was used last. */
static bool coordinate_find(struct computing *c, const struct mesh *mesh)
{
	struct ck_tckpt_seen *seen = c->seen;
	const void *is = identity(&mesh->data);
	const void *shape = identity(&mesh->shape);
	int64_t at;

	if (is && seen->mesh == is && seen->shape == shape &&
	    seen->rank == c->rank)
		return seen->inside;
	at = rank_find(c, &mesh->data);
	seen->mesh = is;
	seen->shape = shape;
	seen->ranks = seen->rank == c->rank ? seen->ranks : NULL;
	seen->rank = c->rank;
	seen->inside = at >= 0;
	for (uint32_t i = mesh->ndim; at >= 0 && i > 0 && i--;) {
		seen->coordinate[i] = (uint64_t)(at % mesh->sizes[i]);
		at /= mesh->sizes[i];
	}
	return seen->inside;
}

static bool placement_take(const struct ck_pv *v, uint32_t ndim,
			   struct ck_placement *out)
{
	struct ck_str type = CK_STR("");
	struct ck_pv field;

	*out = (struct ck_placement){ .type = CK_PLACE_REPLICATE };
	if (ck_pv_get(v, "type", &field))
		(void)ck_pv_str(&field, &type);
	if (ck_str_is(type, "Replicate"))
		return true;
	out->type = ck_str_is(type, "StridedShard") ? CK_PLACE_STRIDED
						    : CK_PLACE_SHARD;
	if (out->type == CK_PLACE_SHARD && !ck_str_is(type, "Shard"))
		return false;
	return ck_rank_dim_take(v, ndim, &out->dim) &&
	       (out->type == CK_PLACE_SHARD ||
		ck_rank_split_take(v, &out->split));
}

static int sharding_take(struct computing *c, const struct ck_pv *data,
			 const struct mesh *mesh)
{
	struct ck_sharding *sharding;
	struct ck_mesh_dim *dims;
	struct ck_pv placements, v;
	int rc;

	if (!ck_pv_get(data, "placements", &placements) ||
	    !ck_pv_is_sequence(&placements) ||
	    ck_pv_count(&placements) != mesh->ndim)
		return misfit(c, "placements that do not fit the mesh");
	rc = alloc(c, 1, sizeof(*sharding), &sharding);
	if (rc == 0)
		rc = alloc(c, mesh->ndim, sizeof(*dims), &dims);
	for (uint32_t i = 0; i < mesh->ndim && rc == 0; i++) {
		dims[i] = (struct ck_mesh_dim){
			.size = (uint64_t)mesh->sizes[i]
		};
		if (i < ck_pv_count(&mesh->names)) {
			v = ck_pv_at(&mesh->names, i);
			(void)ck_pv_str(&v, &dims[i].name);
		}
		v = ck_pv_at(&placements, i);
		if (!placement_take(&v, c->part->ndim, &dims[i].placement))
			rc = misfit(c, "a placement that is unknown, or does "
				       "not fit the tensor");
	}
	if (rc)
		return rc;
	*sharding = (struct ck_sharding){ mesh->ndim, dims };
	c->part->sharding = sharding;
	return 0;
}

/* True if the placements are those that the package writes for a tensor that is not a DTensor. */
static bool is_for_plain(const struct ck_sharding *s)
{
	return s->ndim == 1 && s->dims[0].placement.type == CK_PLACE_REPLICATE;
}

static int dtensor_take(struct computing *c, const struct ck_pv *data)
{
	struct ck_rank_part *part = c->part;
	struct mesh mesh;
	int rc = shape_take(c, data);

	if (rc == 0 && !mesh_take(data, &mesh))
		rc = misfit(c, "malformed mesh_spec");
	if (rc == 0)
		rc = sharding_take(c, data, &mesh);
	if (rc == 0 && !coordinate_find(c, &mesh))
		rc = misfit(c, "a rank that is not in its mesh");
	/* The record of a plain tensor has the shape on one of the ranks. */
	if (rc == 0 && c->local->is_plain && is_for_plain(part->sharding))
		return whole_make(c);
	if (rc == 0)
		rc = piece_make(c);
	if (rc)
		return rc;
	const struct ck_rank_place place = {
		.ndim = part->ndim,
		.shape = part->shape,
		.nmesh = mesh.ndim,
		.mesh = part->sharding->dims,
		.coordinate = c->seen->coordinate,
	};
	part->kind = CK_KIND_DTENSOR;
	return ck_rank_boxes(c->r.p, &place, c->r.arena, &part->pieces[0],
			     &c->d);
}

/* --- listed boxes ----------------------------------------------------------------------------- */

/* Copies row i of a list of rows of ndim numbers. */
static bool row_take(const struct ck_pv *data, const char *name, uint32_t i,
		     uint32_t ndim, int64_t *out)
{
	int64_t dims[CK_MAX_DIMS];
	struct ck_pv rows, row;
	uint32_t n;

	if (!ck_pv_get(data, name, &rows) || i >= ck_pv_count(&rows))
		return false;
	row = ck_pv_at(&rows, i);
	if (!ck_rank_dims(&row, &n, dims) || n != ndim)
		return false;
	memcpy(out, dims, ndim * sizeof(*out));
	return true;
}

/* True if [at, at + size) is inside of [0, whole) in each dimension. */
static bool is_inside(uint32_t ndim, const int64_t *at, const int64_t *size,
		      const int64_t *whole)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (at[d] > whole[d] || size[d] > whole[d] - at[d])
			return false;
	return true;
}

static int boxes_take(struct computing *c, const struct ck_pv *data, uint32_t n,
		      int64_t *boxes)
{
	uint32_t ndim = c->part->ndim;
	const struct ck_tckpt_local *local = c->local;

	for (uint32_t i = 0; i < n; i++) {
		int64_t *at = boxes + (size_t)i * 3 * ndim;
		int64_t *size = at + ndim, *in = size + ndim;

		if (!row_take(data, "global_offsets", i, ndim, at) ||
		    !row_take(data, "local_sizes", i, ndim, size) ||
		    !row_take(data, "local_offsets", i, ndim, in) ||
		    !is_inside(ndim, at, size, c->part->shape))
			return misfit(c, "boxes that do not fit the tensor");
		if (local->ndim == ndim &&
		    !is_inside(ndim, in, size, local->size))
			return misfit(c, "boxes beyond the local tensor");
	}
	return 0;
}

/* A local tensor of any shape, and the boxes in it. */
static int listed_take(struct computing *c, const struct ck_pv *data)
{
	struct ck_rank_piece *piece;
	struct ck_pv rows;
	int64_t *boxes;
	uint32_t n;
	int rc = shape_take(c, data);

	if (rc)
		return rc;
	if (c->local->ndim != c->part->ndim)
		return misfit(c, "another number of dimensions than the local "
				 "tensor");
	if (!ck_pv_get(data, "global_offsets", &rows))
		return misfit(c, "it has no global_offsets");
	n = ck_pv_count(&rows);
	if (n > CK_RANK_BOXES)
		return misfit(c, "too many boxes");
	c->part->kind = CK_KIND_TENSOR;
	rc = alloc(c, (size_t)n * 3 * c->part->ndim, sizeof(*boxes), &boxes);
	if (rc == 0)
		rc = boxes_take(c, data, n, boxes);
	if (rc || n == 0)
		return rc;
	rc = piece_make(c);
	if (rc)
		return rc;
	piece = &c->part->pieces[0];
	piece->size = c->local->size;
	piece->boxes = boxes;
	piece->nboxes = n;
	return 0;
}

/* --- the part in the value ------------------------------------------------------------------ */

static const char *text_keep(struct computing *c, const char *text)
{
	struct ck_str copy = ck_arena_copy(c->r.arena, ck_str_from(text));

	return copy.p;
}

static bool has_same_boxes(const struct ck_rank_part *a,
			   const struct ck_rank_part *b)
{
	size_t bytes;

	if (a->npieces != 1 || b->npieces != 1 || a->ndim != b->ndim ||
	    a->pieces[0].nboxes != b->pieces[0].nboxes)
		return false;
	bytes = a->pieces[0].nboxes * 3UL * a->ndim * sizeof(int64_t);
	return bytes == 0 ||
	       memcmp(a->pieces[0].boxes, b->pieces[0].boxes, bytes) == 0;
}

/* Compares the part with that of the DTensor itself. */
static int own_compare(struct computing *c)
{
	const struct ck_rank_part *own = c->local->own;
	const char *what = NULL;

	if (!own || c->part->npieces == 0)
		return 0;
	if (own->fault) {
		c->part->fault = own->fault;
		return 0;
	}
	if (own->answer.rank != CK_NO_RANK && own->answer.rank != c->rank)
		what = ck_shown("it is of rank %" PRIu64 ", " CK_TCKPT_METADATA
				" has rank %" PRIu64,
				own->answer.rank, c->rank);
	else if (!has_same_boxes(own, c->part))
		what = ck_shown("its own mesh and placements give other boxes "
				"than those in " CK_TCKPT_METADATA
				", for rank %" PRIu64,
				c->rank);
	if (!what)
		return 0;
	c->part->bad = text_keep(c, what);
	return c->part->bad ? 0 : -ENOMEM;
}

/* --- the part --------------------------------------------------------------------------------- */

static int type_take(struct computing *c, const struct ck_pv *sharding)
{
	struct ck_pv type, data;
	struct ck_str name = CK_STR("");

	if (!ck_pv_get(sharding, "type", &type) || !ck_pv_str(&type, &name) ||
	    !ck_pv_get(sharding, "data", &data))
		return misfit(c, "malformed sharding_metadata");
	if (ck_str_is(name, "DTensorShardingMetadata"))
		return dtensor_take(c, &data);
	if (ck_str_is(name, "default_tensor_v1"))
		return listed_take(c, &data);
	return misfit(c, ck_shown("unknown type of sharding_metadata: %s",
				  ck_show(name)));
}

/* Makes a part without a whole tensor, because of the error in c->d. */
static int fault_make(struct computing *c)
{
	const char *fault = text_keep(c, c->d.text);
	int rc = whole_make(c);

	c->part->kind = CK_KIND_DTENSOR;
	c->part->fault = fault;
	return rc || !fault ? -ENOMEM : 0;
}

int ck_tckpt_whole(const struct ck_tckpt_local *local, struct ck_pickle *budget,
		   struct ck_arena *arena, const struct ck_rank_part **out)
{
	struct computing c = {
		.r = { budget, NULL, arena, NULL },
		.local = local,
		.part = ck_arena_alloc(arena, sizeof(*c.part)),
	};

	*out = c.part;
	return c.part ? whole_make(&c) : -ENOMEM;
}

int ck_tckpt_part(const struct ck_tckpt_path *path, uint64_t rank,
		  const struct ck_tckpt_local *local,
		  struct ck_tckpt_seen *seen, struct ck_pickle *budget,
		  struct ck_arena *arena, const struct ck_rank_part **out)
{
	struct computing c = { .r = { budget, NULL, arena, NULL },
			       .local = local,
			       .seen = seen,
			       .rank = rank };
	struct ck_pv sharding;
	int rc;

	*out = NULL;
	c.part = ck_arena_alloc(arena, sizeof(*c.part));
	if (!c.part)
		return -ENOMEM;
	*c.part = (struct ck_rank_part){ .answer = { CK_NO_RANK, 0, 0 } };
	rc = group_find(&c, path, &sharding);
	if (rc == 0)
		return 0;
	if (rc > 0)
		rc = type_take(&c, &sharding);
	if (rc == -ENOMEM)
		return rc;
	rc = rc ? fault_make(&c) : own_compare(&c);
	*out = c.part;
	return rc;
}
