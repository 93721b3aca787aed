/* SPDX-License-Identifier: MIT */
/*
 * dtensor: reads a pickled DTensor: { _local_tensor, _spec }. The spec has mesh, placements
 * and tensor_meta, since 2.10 also shard_order. placement.c computes the boxes. Stateless.
 */
#include "ranks_internal.h"

#include <errno.h>

/* The attributes of a DTensorSpec. */
struct spec {
	struct ck_pv mesh, placements, meta, order;
};

static int malformed(struct ck_rank_reader *r, const char *what)
{
	return ck_fail(r->d, EBADMSG, "malformed DTensor: %s", what);
}

static bool spec_take(const struct ck_rank_reader *r, const struct ck_pv *v,
		      struct spec *out)
{
	struct ck_pv attributes;
	struct ck_str class;

	*out = (struct spec){ .meta = { .tag = CK_PV_NONE },
			      .order = { .tag = CK_PV_NONE } };
	if (!ck_rank_object(r, v, &class, &attributes) ||
	    !ck_str_is(class, "DTensorSpec"))
		return false;
	(void)ck_pv_get(&attributes, "tensor_meta", &out->meta);
	(void)ck_pv_get(&attributes, "shard_order", &out->order);
	return ck_pv_get(&attributes, "mesh", &out->mesh) &&
	       ck_pv_get(&attributes, "placements", &out->placements);
}

/* --- shape -------------------------------------------------------------------- */

/* Verifies that the shape in the spec, if there is one, is that of the wrapper. */
static int shape_check(struct ck_rank_reader *r, const struct spec *spec,
		       uint32_t ndim, const int64_t *shape)
{
	struct ck_pv args, v;
	int64_t meta[CK_MAX_DIMS];
	struct ck_buf expected = { 0 }, found = { 0 };
	uint32_t n;
	int rc;

	if (spec->meta.tag == CK_PV_NONE)
		return 0;
	if ((!ck_rank_tuple(r, &spec->meta, "TensorMeta", &args) &&
	     !ck_rank_tuple(r, &spec->meta, "TensorMetadata", &args)) ||
	    ck_pv_count(&args) < 1)
		return malformed(r, "its tensor_meta");
	v = ck_pv_at(&args, 0);
	if (!ck_rank_dims(&v, &n, meta))
		return malformed(r, "the shape in its tensor_meta");
	if (n == ndim &&
	    (n == 0 || memcmp(meta, shape, n * sizeof(*meta)) == 0))
		return 0;
	ck_dims_print(&expected, shape, ndim);
	ck_dims_print(&found, meta, n);
	rc = ck_differs(r->d, EBADMSG,
			expected.data ? expected.data : "its own",
			found.data ? found.data : "another",
			"malformed DTensor: the shape in its tensor_meta");
	ck_buf_fini(&expected);
	ck_buf_fini(&found);
	return rc;
}

static int shape_take(struct ck_rank_reader *r, const struct ck_rank_typed *t,
		      const struct spec *spec, struct ck_rank_part *out)
{
	int64_t dims[CK_MAX_DIMS];
	int64_t *shape;
	int rc;

	if (!ck_rank_dtype(r, &t->dtype, &out->dtype) ||
	    !ck_rank_dims(&t->size, &out->ndim, dims))
		return malformed(r, "its dtype or size");
	rc = shape_check(r, spec, out->ndim, dims);
	if (rc == 0)
		rc = ck_rank_alloc(r, out->ndim, sizeof(*shape), &shape);
	if (rc)
		return rc;
	memcpy(shape, dims, out->ndim * sizeof(*shape));
	out->shape = shape;
	return 0;
}

/* --- placements --------------------------------------------------------------- */

bool ck_rank_dim_take(const struct ck_pv *v, uint32_t ndim, uint32_t *dim)
{
	struct ck_pv field;
	int64_t i;

	if (!ck_pv_get(v, "dim", &field) || !ck_pv_int(&field, &i))
		return false;
	if (i < 0 && i >= -(int64_t)ndim)
		i += ndim;
	if (i < 0 || i >= (int64_t)ndim)
		return false;
	*dim = (uint32_t)i;
	return true;
}

bool ck_rank_split_take(const struct ck_pv *v, uint64_t *split)
{
	struct ck_pv field;
	int64_t i;

	if (!ck_pv_get(v, "split_factor", &field) || !ck_pv_int(&field, &i) ||
	    i < 1)
		return false;
	*split = (uint64_t)i;
	return true;
}

static int placement_take(struct ck_rank_reader *r, const struct ck_pv *v,
			  uint32_t ndim, struct ck_placement *out)
{
	struct ck_pv attributes = { .tag = CK_PV_NONE };
	struct ck_str class = CK_STR("");
	bool has = ck_rank_object(r, v, &class, &attributes);

	*out = (struct ck_placement){ .type = CK_PLACE_REPLICATE };
	if (ck_str_is(class, "Replicate"))
		return 0;
	out->type = CK_PLACE_PARTIAL;
	if (ck_str_ends(class, CK_STR("Partial")))
		return 0;
	out->type = CK_PLACE_SHARD;
	if (ck_str_is(class, "_StridedShard"))
		out->type = CK_PLACE_STRIDED;
	else if (!ck_str_is(class, "Shard"))
		return ck_differs(r->d, EBADMSG,
				  "Shard, _StridedShard, Replicate or Partial",
				  class.len ? ck_show(class) : "a value",
				  "unknown placement");
	if (!has || !ck_rank_dim_take(&attributes, ndim, &out->dim))
		return ck_differs(r->d, EBADMSG,
				  ck_shown("one of %u dimensions", ndim),
				  "another", "malformed %s", ck_show(class));
	if (out->type == CK_PLACE_STRIDED &&
	    !ck_rank_split_take(&attributes, &out->split))
		return malformed(r, "the split_factor of a _StridedShard");
	return 0;
}

static int sharding_take(struct ck_rank_reader *r, const struct spec *spec,
			 const struct ck_rank_mesh *mesh,
			 struct ck_rank_part *out)
{
	struct ck_sharding *sharding;
	struct ck_mesh_dim *dims;
	int rc;

	if (!ck_pv_is_sequence(&spec->placements) ||
	    ck_pv_count(&spec->placements) != mesh->ndim)
		return ck_differs(
			r->d, EBADMSG, ck_shown("%u placements", mesh->ndim),
			ck_shown("%u", ck_pv_count(&spec->placements)),
			"malformed DTensor");
	rc = ck_rank_alloc(r, 1, sizeof(*sharding), &sharding);
	if (rc == 0)
		rc = ck_rank_alloc(r, mesh->ndim, sizeof(*dims), &dims);
	for (uint32_t i = 0; rc == 0 && i < mesh->ndim; i++) {
		struct ck_pv v = ck_pv_at(&spec->placements, i);

		dims[i].name = mesh->names[i];
		dims[i].size = mesh->sizes[i];
		rc = placement_take(r, &v, out->ndim, &dims[i].placement);
		if (dims[i].placement.type == CK_PLACE_PARTIAL)
			out->fault = "each rank has a summand of it (Partial)";
	}
	if (rc)
		return rc;
	*sharding = (struct ck_sharding){ mesh->ndim, dims };
	out->sharding = sharding;
	return 0;
}

/* --- order --------------------------------------------------------------------- */

/* Reads one entry: the dimensions of the mesh that shard one dimension of the tensor. */
static int entry_take(struct ck_rank_reader *r, const struct ck_pv *entry,
		      const struct ck_sharding *s, uint32_t *order,
		      uint32_t *norder, uint32_t *seen)
{
	struct ck_pv args, v, dims;
	int64_t dim, m;

	if (!ck_rank_tuple(r, entry, "ShardOrderEntry", &args) ||
	    ck_pv_count(&args) != 2)
		return malformed(r, "an entry of its shard_order");
	v = ck_pv_at(&args, 0);
	dims = ck_pv_at(&args, 1);
	if (!ck_pv_int(&v, &dim) || !ck_pv_is_sequence(&dims))
		return malformed(r, "an entry of its shard_order");
	for (uint32_t i = 0; i < ck_pv_count(&dims); i++) {
		v = ck_pv_at(&dims, i);
		if (!ck_pv_int(&v, &m) || m < 0 || m >= (int64_t)s->ndim ||
		    *seen & 1U << m)
			return malformed(r, "its shard_order names a dimension "
					    "of the mesh that is not there, or "
					    "twice");
		*seen |= 1U << m;
		if ((s->dims[m].placement.type != CK_PLACE_SHARD &&
		     s->dims[m].placement.type != CK_PLACE_STRIDED) ||
		    s->dims[m].placement.dim != (uint64_t)dim)
			return malformed(r, "its shard_order is not that of "
					    "its placements");
		order[(*norder)++] = (uint32_t)m;
	}
	return 0;
}

/* Reads shard_order. If it is missing or empty, *norder is 0: 2.9 and 2.10 write an empty one
 * for a _StridedShard. */
static int order_take(struct ck_rank_reader *r, const struct ck_pv *v,
		      const struct ck_sharding *s, uint32_t *order,
		      uint32_t *norder)
{
	uint32_t seen = 0, cutting = 0;
	int rc = 0;

	*norder = 0;
	if (v->tag == CK_PV_NONE)
		return 0;
	if (!ck_pv_is_sequence(v))
		return malformed(r, "its shard_order");
	for (uint32_t i = 0; rc == 0 && i < ck_pv_count(v); i++) {
		struct ck_pv entry = ck_pv_at(v, i);

		rc = entry_take(r, &entry, s, order, norder, &seen);
	}
	for (uint32_t i = 0; i < s->ndim; i++)
		cutting += s->dims[i].placement.type == CK_PLACE_SHARD ||
			   s->dims[i].placement.type == CK_PLACE_STRIDED;
	if (rc == 0 && ck_pv_count(v) && *norder != cutting)
		return ck_differs(
			r->d, EBADMSG,
			ck_shown("%u dimensions of the mesh", cutting),
			ck_shown("%u", *norder),
			"malformed DTensor: its shard_order");
	return rc;
}

static int boxes_make(struct ck_rank_reader *r, const struct spec *spec,
		      const struct ck_rank_mesh *mesh, struct ck_rank_part *out)
{
	uint32_t order[CK_RANK_MESH_DIMS];
	struct ck_rank_place place = {
		.ndim = out->ndim,
		.shape = out->shape,
		.nmesh = mesh->ndim,
		.mesh = out->sharding->dims,
		.coordinate = mesh->coordinate,
	};
	int rc = order_take(r, &spec->order, out->sharding, order,
			    &place.norder);

	if (rc)
		return rc;
	place.order = place.norder ? order : NULL;
	return ck_rank_boxes(r->p, &place, r->arena, &out->pieces[0], r->d);
}

int ck_rank_dtensor_read(struct ck_rank_reader *r,
			 const struct ck_rank_typed *t,
			 struct ck_rank_part *out)
{
	struct ck_pv state, local, v;
	struct ck_rank_mesh mesh;
	struct spec spec;
	int rc;

	out->kind = CK_KIND_DTENSOR;
	if (!ck_rank_slots(&t->state, &state) ||
	    !ck_pv_get(&state, "_local_tensor", &local) ||
	    !ck_pv_get(&state, "_spec", &v) || !spec_take(r, &v, &spec))
		return malformed(r, "it has no _local_tensor or no _spec");
	rc = shape_take(r, t, &spec, out);
	if (rc == 0)
		rc = ck_rank_mesh_read(r, &spec.mesh, &mesh);
	if (rc == 0)
		rc = sharding_take(r, &spec, &mesh, out);
	if (rc)
		return rc;
	out->answer = mesh.answer;
	out->outside = mesh.outside;
	if (mesh.outside)
		return 0;
	rc = ck_rank_alloc(r, 1, sizeof(*out->pieces), &out->pieces);
	if (rc)
		return rc;
	out->npieces = 1;
	out->pieces[0] = (struct ck_rank_piece){ .tensor = local };
	return boxes_make(r, &spec, &mesh, out);
}
