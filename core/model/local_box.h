/* SPDX-License-Identifier: MIT */
/*
 * local_box: the box of a tensor that one rank of a device mesh holds, in terms of
 * torch.distributed.tensor: each dimension of the mesh replicates the tensor, or
 * shards one dimension of it. Pure arithmetic. A part of model.
 */
#ifndef CKPTFS_LOCAL_BOX_H
#define CKPTFS_LOCAL_BOX_H

#include "model/sharding.h"
#include "model/spec.h"

/* Divides n elements as torch.chunk does: chunks of n / parts elements, rounded up;
 * the last ones are short or empty. Returns the length of chunk `number`, and its
 * *begin, which is n if the chunk is empty. parts must not be 0. */
uint64_t ck_chunk(uint64_t n, uint64_t parts, uint64_t number, uint64_t *begin);

/* Sets the dimensions of a mesh, with the default placement of a tensor of ndim
 * dimensions on each: Shard(0), but Replicate for the dimensions of tensor and
 * pipeline parallelism and of replicas, and for tensors without dimensions. */
void ck_spec_dims(const struct ck_spec *spec, uint32_t ndim,
		  struct ck_mesh_dim dims[static CK_SPEC_DIMS]);

/* Sets `box` to ndim offsets and ndim sizes: the local tensor of a rank. Dimensions
 * of tensor parallelism cut first, then the others, both in the order of the mesh.
 * A dimension of size 0 has the size of the whole tensor as its offset. n: of dims,
 * at most CK_SPEC_DIMS; their placements are Replicate and Shard. rank: below the
 * product of their sizes. */
void ck_local_box_of(const struct ck_mesh_dim *dims, uint32_t n, uint32_t rank,
		     const int64_t *shape, uint32_t ndim, int64_t *box);

/* True if the rank is the lowest one that holds its box of a tensor with elements: its
 * coordinates on the dimensions that replicate are 0. */
CK_MUST_USE bool ck_local_box_is_first(const struct ck_mesh_dim *dims,
				       uint32_t n, uint32_t rank);

/* A walk over the boxes with elements of a tensor that has elements, each once, by its
 * lowest rank, in ascending order of ranks. */
struct ck_box_walk {
	/* Of the caller, who sets them: */
	const struct ck_mesh_dim *dims;
	uint32_t n;
	const int64_t *shape;
	uint32_t ndim;
	/* Private: */
	bool ended;
	uint64_t at[CK_SPEC_DIMS], ends[CK_SPEC_DIMS]; /* coordinates */
	uint32_t order[CK_SPEC_DIMS], ncuts; /* dimensions that shard */
};

/* Begins a walk, whose first four fields are set. It never visits more ranks than twice
 * the number of boxes for each dimension that shards. */
void ck_box_walk_begin(struct ck_box_walk *w);
/* Sets the next rank, and its box as ck_local_box_of(). False at the end. */
CK_MUST_USE bool ck_box_walk_next(struct ck_box_walk *w, uint32_t *rank,
				  int64_t *box);

#endif
