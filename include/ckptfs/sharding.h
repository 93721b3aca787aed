/* SPDX-License-Identifier: MIT */
/*
 * sharding: how a job had a tensor on its ranks: the dimensions of its device mesh
 * and what each of them does to the tensor, in the words of torch.distributed.tensor
 * (DTensorSpec: device_mesh, placements). Which boxes came of it is stored with the
 * boxes; nothing is computed from this. A part of model.
 */
#ifndef CKPTFS_SHARDING_H
#define CKPTFS_SHARDING_H

#include "ckptfs/base.h"

/* What a tensor is in the checkpoint. */
enum ck_tensor_kind {
	CK_KIND_TENSOR, /* a plain one; all of formats that do not say more */
	CK_KIND_DTENSOR,
	CK_KIND_SHARDED_TENSOR,
	CK_KIND_FLAT_PARAM, /* FSDP1's: the parameters of a module behind each other */
};

/* "tensor", "dtensor", ... as attributes and reports have it. */
const char *ck_tensor_kind_name(uint8_t kind);

enum ck_placement_type {
	CK_PLACE_REPLICATE,
	CK_PLACE_SHARD,
	CK_PLACE_STRIDED, /* _StridedShard */
	CK_PLACE_PARTIAL, /* each rank has a summand: no tensor can be made of it */
};

/* What one dimension of the mesh does. */
struct ck_placement {
	uint8_t type;
	uint32_t dim;	/* of the tensor, that SHARD and STRIDED cut */
	uint64_t split; /* split_factor of STRIDED */
};

struct ck_mesh_dim {
	struct ck_str name; /* empty: it has none */
	uint64_t size;	    /* ranks */
	struct ck_placement placement;
};

struct ck_sharding {
	uint32_t ndim;
	const struct ck_mesh_dim *dims; /* ndim */
};

/* Appends R, S(0), SS(0,2) or P. */
void ck_placement_print(struct ck_buf *out, const struct ck_placement *p);

/* The same dimensions, by value? */
bool ck_sharding_is_same(const struct ck_sharding *a,
			 const struct ck_sharding *b);
/* A copy in an arena. NULL: out of memory. */
const struct ck_sharding *ck_sharding_copy(struct ck_arena *arena,
					   const struct ck_sharding *from);

#endif
