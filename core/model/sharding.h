/* SPDX-License-Identifier: MIT */
/*
 * sharding: how a job distributed a tensor over its ranks: the dimensions of its
 * device mesh, and their effect on the tensor, in terms of torch.distributed.tensor
 * (DTensorSpec: device_mesh, placements). Of a checkpoint it is only shown: its boxes
 * are stored, and never computed from this. Pure values. A part of model.
 */
#ifndef CKPTFS_SHARDING_H
#define CKPTFS_SHARDING_H

#include "ckptfs/base.h"

/* Kind of a tensor in the checkpoint. */
enum ck_tensor_kind {
	CK_KIND_TENSOR, /* plain; all tensors of formats without kinds */
	CK_KIND_DTENSOR,
	CK_KIND_SHARDED_TENSOR,
	/* of FSDP1: the concatenated parameters of a module */
	CK_KIND_FLAT_PARAM,
};

/* Name of a kind for attributes and reports: "tensor", "dtensor". */
const char *ck_tensor_kind_name(uint8_t kind);

enum ck_placement_type {
	CK_PLACE_REPLICATE,
	CK_PLACE_SHARD,
	CK_PLACE_STRIDED, /* _StridedShard */
	/* each rank has a summand: there is no whole tensor */
	CK_PLACE_PARTIAL,
};

/* Effect of one dimension of the mesh. */
struct ck_placement {
	uint8_t type;
	/* dimension of the tensor that SHARD and STRIDED split */
	uint32_t dim;
	uint64_t split; /* split_factor of STRIDED */
};

struct ck_mesh_dim {
	struct ck_str name; /* empty: no name */
	uint64_t size;	    /* ranks */
	struct ck_placement placement;
};

struct ck_sharding {
	uint32_t ndim;
	const struct ck_mesh_dim *dims; /* ndim */
};

/* Appends R, S(0), SS(0,2) or P. */
void ck_placement_print(struct ck_buf *out, const struct ck_placement *p);

/* True if each dimension of the mesh has a name, and no two have the same. */
bool ck_sharding_has_names(const struct ck_sharding *s);
/* True if two shardings are equal by value. */
bool ck_sharding_is_same(const struct ck_sharding *a,
			 const struct ck_sharding *b);
/* Copies into an arena. NULL if out of memory. */
const struct ck_sharding *ck_sharding_copy(struct ck_arena *arena,
					   const struct ck_sharding *from);

#endif
