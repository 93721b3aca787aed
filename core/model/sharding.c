/* SPDX-License-Identifier: MIT */
/* sharding: kinds of tensors, and how a tensor is distributed over a mesh of ranks:
 * printing, comparison, copies. A sharding is a constant value; any thread. */
#include "sharding.h"

#include <inttypes.h>

const char *ck_tensor_kind_name(uint8_t kind)
{
	static const char *const names[] = {
		[CK_KIND_TENSOR] = "tensor",
		[CK_KIND_DTENSOR] = "dtensor",
		[CK_KIND_SHARDED_TENSOR] = "sharded_tensor",
		[CK_KIND_FLAT_PARAM] = "flat_param",
	};

	return kind < sizeof(names) / sizeof(*names) ? names[kind] : "unknown";
}

void ck_placement_print(struct ck_buf *out, const struct ck_placement *p)
{
	switch (p->type) {
	case CK_PLACE_REPLICATE: ck_buf_text(out, "R"); break;
	case CK_PLACE_SHARD:
		ck_buf_printf(out, "S(%" PRIu32 ")", p->dim);
		break;
	case CK_PLACE_STRIDED:
		ck_buf_printf(out, "SS(%" PRIu32 ",%" PRIu64 ")", p->dim,
			      p->split);
		break;
	default: ck_buf_text(out, "P"); break;
	}
}

static bool is_same_dim(const struct ck_mesh_dim *a,
			const struct ck_mesh_dim *b)
{
	return ck_str_eq(a->name, b->name) && a->size == b->size &&
	       a->placement.type == b->placement.type &&
	       a->placement.dim == b->placement.dim &&
	       a->placement.split == b->placement.split;
}

bool ck_sharding_is_same(const struct ck_sharding *a,
			 const struct ck_sharding *b)
{
	bool same = a->ndim == b->ndim;

	for (uint32_t i = 0; same && i < a->ndim; i++)
		same = is_same_dim(&a->dims[i], &b->dims[i]);
	return same;
}

bool ck_sharding_has_names(const struct ck_sharding *s)
{
	for (uint32_t i = 0; i < s->ndim; i++) {
		if (s->dims[i].name.len == 0)
			return false;
		for (uint32_t k = 0; k < i; k++)
			if (ck_str_eq(s->dims[i].name, s->dims[k].name))
				return false;
	}
	return s->ndim > 0;
}

const struct ck_sharding *ck_sharding_copy(struct ck_arena *arena,
					   const struct ck_sharding *from)
{
	struct ck_sharding *to = ck_arena_alloc(arena, sizeof(*to));
	struct ck_mesh_dim *dims = ck_arena_alloc(arena,
						  from->ndim * sizeof(*dims));

	if (!to || !dims)
		return NULL;
	for (uint32_t i = 0; i < from->ndim; i++) {
		dims[i] = from->dims[i];
		dims[i].name = ck_arena_copy(arena, from->dims[i].name);
		if (!dims[i].name.p)
			return NULL;
	}
	*to = (struct ck_sharding){ .ndim = from->ndim, .dims = dims };
	return to;
}
