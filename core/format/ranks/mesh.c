/* SPDX-License-Identifier: MIT */
/*
 * mesh: reads a pickled DeviceMesh: its sizes, and the coordinate and rank of this process.
 *
 *   up to 2.8  `mesh` is a tensor of ranks. `_flatten_mesh_list` (not in 2.1) has the same
 *              ranks as numbers.
 *   since 2.9  `_layout` maps a coordinate to an index of `_flatten_rank_map`. A slice has
 *              the layout of the first slice on every rank. Of a slice, only `_rank` (not in
 *              all releases) and `_coordinate_on_dim` are right; the rank is otherwise
 *              computed from its root mesh.
 *
 * Stateless, except for the cache in struct ck_rank_seen of the caller.
 */
#include "ckptfs/value.h"
#include "ranks_internal.h"

#include <errno.h>
#include <inttypes.h>

/* One dimension of a layout: one or several parts, in row-major order. */
struct axis {
	struct ck_pv shape, stride;
};

static int malformed(struct ck_rank_reader *r, const char *what)
{
	return ck_fail(r->d, EBADMSG, "malformed DeviceMesh: %s", what);
}

static bool number(const struct ck_pv *v, uint64_t most, uint64_t *out)
{
	int64_t i;

	if (!ck_pv_int(v, &i) || i < 0 || (uint64_t)i > most)
		return false;
	*out = (uint64_t)i;
	return true;
}

/* --- layout: sizes since 2.9 ---------------------------------------------------- */

static bool axis_at(const struct ck_rank_reader *r, const struct ck_pv *layout,
		    uint32_t i, struct axis *out)
{
	struct ck_pv v, attributes;
	struct ck_str class;

	if (ck_pv_get(layout, "axes", &v)) {
		v = ck_pv_at(&v, i);
		return ck_rank_object(r, &v, &class, &attributes) &&
		       ck_pv_get(&attributes, "shape", &out->shape) &&
		       ck_pv_get(&attributes, "stride", &out->stride);
	}
	if (!ck_pv_get(layout, "shape", &out->shape) ||
	    !ck_pv_get(layout, "stride", &out->stride))
		return false;
	if (out->shape.tag == CK_PV_INT)
		return true;
	if (i >= ck_pv_count(&out->stride))
		return false;
	out->shape = ck_pv_at(&out->shape, i);
	out->stride = ck_pv_at(&out->stride, i);
	return true;
}

static bool axis_count(const struct ck_pv *layout, uint32_t *n)
{
	struct ck_pv v;

	if (!ck_pv_get(layout, "axes", &v) && !ck_pv_get(layout, "shape", &v))
		return false;
	*n = v.tag == CK_PV_INT ? 1 : ck_pv_count(&v);
	return v.tag == CK_PV_INT || ck_pv_is_sequence(&v);
}

/* Number of parts of an axis. */
static uint32_t parts_count(const struct axis *a)
{
	return a->shape.tag == CK_PV_INT ? 1 : ck_pv_count(&a->shape);
}

static bool part_at(const struct axis *a, uint32_t i, uint64_t *size,
		    uint64_t *stride)
{
	struct ck_pv shape = a->shape, along = a->stride;

	if (shape.tag != CK_PV_INT) {
		if (i >= ck_pv_count(&along))
			return false;
		shape = ck_pv_at(&shape, i);
		along = ck_pv_at(&along, i);
	}
	return number(&shape, CK_RANK_MAX, size) && *size > 0 &&
	       number(&along, CK_RANK_MAX, stride);
}

static bool axis_size(const struct axis *a, uint64_t *size)
{
	uint64_t part, stride;

	*size = 1;
	if (a->shape.tag != CK_PV_INT && !ck_pv_is_sequence(&a->shape))
		return false;
	for (uint32_t i = 0; i < parts_count(a); i++)
		if (!part_at(a, i, &part, &stride) ||
		    !ck_mul(size, *size, part) || *size > CK_RANK_MAX)
			return false;
	return true;
}

/* Adds to *at the offset in the rank map of coordinate c of the axis. */
static bool axis_place(const struct axis *a, uint64_t c, uint64_t *at)
{
	for (uint32_t i = parts_count(a); i > 0; i--) {
		uint64_t size, stride, step;

		if (!part_at(a, i - 1, &size, &stride) ||
		    !ck_mul(&step, c % size, stride) || !ck_add(at, *at, step))
			return false;
		c /= size;
	}
	return true;
}

static int layout_sizes(struct ck_rank_reader *r, const struct ck_pv *layout,
			struct ck_rank_mesh *out)
{
	if (!axis_count(layout, &out->ndim) || out->ndim > CK_RANK_MESH_DIMS)
		return malformed(r, "its _layout has no axes, or too many");
	for (uint32_t i = 0; i < out->ndim; i++) {
		struct axis a;

		if (!axis_at(r, layout, i, &a) ||
		    !axis_size(&a, &out->sizes[i]))
			return malformed(r, "an axis of its _layout");
	}
	return 0;
}

/* --- tensor: sizes up to 2.8 ---------------------------------------------------- */

struct table {
	struct ck_str class, key;
	int64_t numel, offset;
	uint32_t ndim;
	int64_t size[CK_MAX_DIMS], stride[CK_MAX_DIMS];
};

static int table_take(struct ck_rank_reader *r, const struct ck_pv *v,
		      struct table *t)
{
	struct ck_pv_room room;
	const struct ck_pv whole = ck_pv_unpack(v, &room);
	const struct ck_pcall *call =
		ck_pv_call(r->p, &whole, "torch._utils._rebuild_tensor_v2");
	struct ck_pv part[4];
	uint32_t nstrides;

	if (!call || ck_pv_count(&call->args) < 4)
		return malformed(r, "its mesh is no tensor");
	for (uint32_t i = 0; i < 4; i++)
		part[i] = ck_pv_at(&call->args, i);
	if (!ck_storage_take(r->p, &part[0], &t->class, &t->key, &t->numel) ||
	    !ck_pv_int(&part[1], &t->offset) || t->offset < 0 ||
	    !ck_rank_dims(&part[2], &t->ndim, t->size) ||
	    !ck_rank_dims(&part[3], &nstrides, t->stride) ||
	    nstrides != t->ndim || t->ndim > CK_RANK_MESH_DIMS)
		return malformed(r, "the tensor that is its mesh");
	return 0;
}

static int table_sizes(struct ck_rank_reader *r, const struct table *t,
		       struct ck_rank_mesh *out)
{
	out->ndim = t->ndim;
	for (uint32_t i = 0; i < t->ndim; i++) {
		if (t->size[i] < 1 || t->size[i] > CK_RANK_MAX)
			return malformed(r, "a size of its mesh");
		out->sizes[i] = (uint64_t)t->size[i];
	}
	return 0;
}

static int stored_rank(struct ck_rank_reader *r, const struct table *t,
		       uint64_t at, uint64_t *rank)
{
	uint8_t dtype = ck_dtype_by_storage(t->class);
	uint64_t width = ck_dtype_at(dtype)->size;
	uint8_t bytes[8];
	int rc;

	if (ck_dtype_at(dtype)->is_float || width == 0 || width > 8)
		return malformed(r, "the dtype of its mesh");
	if (at >= (uint64_t)t->numel)
		return malformed(r, "its mesh lies outside of its storage");
	if (!r->storages || !ck_mul(&at, at, width))
		return 0;
	rc = r->storages->read(r->storages->ctx, t->key, bytes, width, at,
			       r->d);
	if (rc)
		return rc;
	*rank = 0;
	for (uint64_t i = 0; i < width; i++)
		*rank |= (uint64_t)bytes[r->storages->big ? width - 1 - i : i]
			 << (8 * i);
	return *rank > CK_RANK_MAX ? malformed(r, "a rank in its mesh") : 0;
}

/* Finds the rank at the coordinate, in `list`, which is the mesh in row-major order; without
 * one, in the storage of the tensor. */
static int table_rank(struct ck_rank_reader *r, const struct table *t,
		      const struct ck_pv *list, const struct ck_rank_mesh *mesh,
		      uint64_t *rank)
{
	uint64_t row = 0, at = (uint64_t)t->offset, step;
	struct ck_pv v;

	for (uint32_t i = 0; i < t->ndim; i++) {
		row = row * mesh->sizes[i] + mesh->coordinate[i];
		if (!ck_mul(&step, mesh->coordinate[i],
			    (uint64_t)t->stride[i]) ||
		    !ck_add(&at, at, step))
			return malformed(r, "the strides of its mesh");
	}
	if (!ck_pv_is_sequence(list))
		return stored_rank(r, t, at, rank);
	if (row >= ck_pv_count(list))
		return malformed(r, "its _flatten_mesh_list is too short");
	v = ck_pv_at(list, (uint32_t)row);
	if (!number(&v, CK_RANK_MAX, rank))
		return malformed(r, "a rank in its _flatten_mesh_list");
	return 0;
}

/* --- the mesh --------------------------------------------------------------------- */

static int count_ranks(struct ck_rank_reader *r, struct ck_rank_mesh *m)
{
	m->answer.ranks = 1;
	for (uint32_t i = 0; i < m->ndim; i++)
		if (!ck_mul(&m->answer.ranks, m->answer.ranks, m->sizes[i]) ||
		    m->answer.ranks > CK_RANK_MAX)
			return malformed(r, "it has too many ranks");
	m->answer.world = ck_max(m->answer.world, m->answer.ranks);
	return 0;
}

/* Reads the coordinate of this process. It is `None` if the process is not in the mesh. */
static int coordinate_take(struct ck_rank_reader *r, const struct ck_pv *mesh,
			   struct ck_rank_mesh *m)
{
	struct ck_pv v;

	if (!ck_pv_get(mesh, "_coordinate_on_dim", &v))
		return malformed(r, "it has no _coordinate_on_dim");
	m->outside = v.tag == CK_PV_NONE;
	if (m->outside)
		return 0;
	if (!ck_pv_is_sequence(&v) || ck_pv_count(&v) != m->ndim)
		return ck_differs(r->d, EBADMSG,
				  ck_shown("%u numbers", m->ndim),
				  ck_shown("%u", ck_pv_count(&v)),
				  "malformed DeviceMesh: _coordinate_on_dim");
	for (uint32_t i = 0; i < m->ndim; i++) {
		struct ck_pv c = ck_pv_at(&v, i);

		if (!number(&c, m->sizes[i] - 1, &m->coordinate[i]))
			return malformed(r, "_coordinate_on_dim outside of it");
	}
	return 0;
}

static int names_take(struct ck_rank_reader *r, const struct ck_pv *mesh,
		      struct ck_rank_mesh *m)
{
	struct ck_pv v;

	if ((!ck_pv_get(mesh, "mesh_dim_names", &v) &&
	     !ck_pv_get(mesh, "_mesh_dim_names", &v)) ||
	    v.tag == CK_PV_NONE)
		return 0;
	if (!ck_pv_is_sequence(&v) || ck_pv_count(&v) != m->ndim)
		return malformed(r, "names of another number of dimensions");
	for (uint32_t i = 0; i < m->ndim; i++) {
		struct ck_pv name = ck_pv_at(&v, i);

		if (!ck_pv_str(&name, &m->names[i]))
			return malformed(r, "a name of a dimension");
	}
	return 0;
}

/* Finds the rank at the coordinate in the rank map of a root mesh. */
static int map_rank(struct ck_rank_reader *r, const struct ck_pv *mesh,
		    const struct ck_pv *layout, const struct ck_rank_mesh *m,
		    uint64_t *rank)
{
	struct ck_pv map, v;
	uint64_t at = 0;

	if (!ck_pv_get(mesh, "_flatten_rank_map", &map))
		return 0;
	for (uint32_t i = 0; i < m->ndim; i++) {
		struct axis a;

		if (!axis_at(r, layout, i, &a) ||
		    !axis_place(&a, m->coordinate[i], &at))
			return malformed(r, "a stride of its _layout");
	}
	if (at >= ck_pv_count(&map))
		return ck_differs(r->d, EBADMSG,
				  ck_shown("more than %" PRIu64, at),
				  ck_shown("%u", ck_pv_count(&map)),
				  "malformed DeviceMesh: _flatten_rank_map");
	v = ck_pv_at(&map, (uint32_t)at);
	if (!number(&v, CK_RANK_MAX, rank))
		return malformed(r, "a rank in its _flatten_rank_map");
	return 0;
}

static bool attributes_of(const struct ck_rank_reader *r, const struct ck_pv *v,
			  struct ck_pv *out)
{
	struct ck_str class;

	return ck_rank_object(r, v, &class, out) &&
	       ck_str_is(class, "DeviceMesh");
}

static int before_layouts(struct ck_rank_reader *r, const struct ck_pv *mesh,
			  const struct ck_pv *tensor, struct ck_rank_mesh *m)
{
	struct ck_pv list = { .tag = CK_PV_NONE }, parent;
	struct table t;
	int rc = table_take(r, tensor, &t);

	if (rc == 0)
		rc = table_sizes(r, &t, m);
	if (rc == 0)
		rc = count_ranks(r, m);
	if (rc == 0)
		rc = coordinate_take(r, mesh, m);
	if (rc || m->outside)
		return rc;
	(void)ck_pv_get(mesh, "_flatten_mesh_list", &list);
	if (ck_pv_get(mesh, "_parent_mesh", &parent) &&
	    attributes_of(r, &parent, &parent) &&
	    ck_pv_get(&parent, "_flatten_mesh_list", &parent))
		m->answer.world = ck_max(m->answer.world, ck_pv_count(&parent));
	return table_rank(r, &t, &list, m, &m->answer.rank);
}

static int layout_take(struct ck_rank_reader *r, const struct ck_pv *mesh,
		       struct ck_pv *layout, struct ck_rank_mesh *m)
{
	struct ck_str class;
	struct ck_pv map;
	int rc;

	if (!ck_pv_get(mesh, "_layout", layout) ||
	    !ck_rank_object(r, layout, &class, layout))
		return malformed(r, "it has neither mesh nor _layout");
	if (ck_pv_get(mesh, "_flatten_rank_map", &map))
		m->answer.world = ck_pv_count(&map);
	rc = layout_sizes(r, layout, m);
	if (rc == 0)
		rc = count_ranks(r, m);
	return rc ? rc : coordinate_take(r, mesh, m);
}

/* Finds the rank of a root mesh in its map; that of a slice in the map of its root mesh. */
static int root_rank(struct ck_rank_reader *r, const struct ck_pv *mesh,
		     const struct ck_pv *layout, struct ck_rank_mesh *m)
{
	struct ck_rank_mesh root = { .answer = { CK_NO_RANK, 0, 0 } };
	struct ck_pv v, attributes, of;
	int rc;

	if (!ck_pv_get(mesh, "_root_mesh", &v) || v.tag == CK_PV_NONE)
		return m->outside
			       ? 0
			       : map_rank(r, mesh, layout, m, &m->answer.rank);
	if (!attributes_of(r, &v, &attributes))
		return malformed(r, "its _root_mesh is no DeviceMesh");
	rc = layout_take(r, &attributes, &of, &root);
	if (rc == 0 && !root.outside)
		rc = map_rank(r, &attributes, &of, &root, &root.answer.rank);
	if (root.answer.rank != CK_NO_RANK) {
		root.answer.world = ck_max(root.answer.world, m->answer.world);
		m->answer = root.answer;
	}
	return rc;
}

static int with_layout(struct ck_rank_reader *r, const struct ck_pv *mesh,
		       struct ck_rank_mesh *m)
{
	struct ck_pv layout, v;
	int rc = layout_take(r, mesh, &layout, m);

	if (rc)
		return rc;
	if (!ck_pv_get(mesh, "_rank", &v) || v.tag == CK_PV_NONE)
		return root_rank(r, mesh, &layout, m);
	if (!number(&v, CK_RANK_MAX, &m->answer.rank))
		return malformed(r, "its _rank is none");
	return 0;
}

static int all_take(struct ck_rank_reader *r, const struct ck_pv *v,
		    struct ck_rank_mesh *out)
{
	struct ck_pv mesh, tensor;
	int rc;

	*out = (struct ck_rank_mesh){ .answer = { CK_NO_RANK, 0, 0 } };
	if (!attributes_of(r, v, &mesh))
		return malformed(r, "no such object");
	if (ck_pv_get(&mesh, "mesh", &tensor))
		rc = before_layouts(r, &mesh, &tensor, out);
	else
		rc = with_layout(r, &mesh, out);
	return rc ? rc : names_take(r, &mesh, out);
}

/* Caches a mesh for the next value. If memory is short, that value reads it again. */
static void remember(const struct ck_rank_reader *r, struct ck_rank_seen *seen,
		     const struct ck_pv *v, const struct ck_rank_mesh *mesh)
{
	struct ck_rank_mesh *copy = NULL;

	if (ck_pickle_spend(r->p, sizeof(*copy)))
		copy = ck_arena_alloc(r->arena, sizeof(*copy));
	if (!copy)
		return;
	*copy = *mesh;
	seen->value = ck_pv_any_call(v);
	seen->mesh = copy;
}

int ck_rank_mesh_read(struct ck_rank_reader *r, const struct ck_pv *v,
		      struct ck_rank_mesh *out)
{
	struct ck_rank_seen *seen = r->storages ? r->storages->seen : NULL;
	int rc;

	if (seen && seen->mesh && seen->value == ck_pv_any_call(v)) {
		*out = *seen->mesh;
		return 0;
	}
	rc = all_take(r, v, out);
	if (rc == 0 && seen)
		remember(r, seen, v, out);
	return rc;
}
