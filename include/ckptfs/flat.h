/* SPDX-License-Identifier: MIT */
/*
 * flat: tensors whose elements are a part of a longer one without shape, as the parameters
 * of FSDP1 are of its flat parameters. Who has elements [begin, end) of the long one has a
 * run of elements of a tensor in it, which may begin and end anywhere in its rows. As
 * boxes of the tensor's own shape that is 2 * ndim - 1 at most, and the elements of each
 * lie behind each other: each is an item of its own, and nobody else needs to know of
 * runs. A part of model.
 */
#ifndef CKPTFS_FLAT_H
#define CKPTFS_FLAT_H

#include "ckptfs/catalog_edit.h"

/* --- boxes of a run --------------------------------------------------------------- */

/* Elements [first, first + count) of a tensor, in C order; all of them are inside it. What
 * is left of them: each box that is taken goes off its beginning. */
struct ck_flat_run {
	uint32_t ndim;
	const int64_t *shape;
	uint64_t first, count;
};

/* Takes the next box: ndim offsets and sizes. How many elements it has; 0: none is
 * left. */
uint64_t ck_run_next(struct ck_flat_run *run, int64_t *off, int64_t *len);

/* --- shards of a flat tensor -------------------------------------------------------- */

/* Elements [begin, begin + count) of a flat tensor, which are all those of an item, one behind
 * the other; of an archive of that shape. */
struct ck_flat_shard {
	uint64_t begin, count;
	struct ck_item item;
	uint32_t chunk;	 /* of an archive: the chunk that has it */
	bool is_replica; /* set by ck_flat_sort(): the same elements as before */
};

/* Puts shards in order, and drops those without elements: there are *n of them then. Of
 * several with the same elements the first stays the first, and the others are its
 * replicas. -EIO: two overlap otherwise, or one ends nowhere; -ENOMEM. */
CK_MUST_USE int ck_flat_sort(struct ck_flat_shard *shards, uint32_t *n,
			     struct ck_diag *d);

/* Adds a tensor that is the elements from `offset` on of a flat one, of which these are
 * the shards, in order. What is in no shard is a hole. The shape's elements, with those
 * before them, can be counted. Errors of ck_catalog_tensor_add(). */
CK_MUST_USE int ck_flat_tensor_add(struct ck_catalog *c, struct ck_str key,
				   struct ck_str dtype, uint32_t ndim,
				   const int64_t *shape, uint64_t offset,
				   const struct ck_flat_shard *shards,
				   uint32_t n);

/* --- how FSDP1 cuts -------------------------------------------------------------------- */

/* What a rank has of a flat tensor of so many elements that `world` ranks share: how
 * many, and *begin; of a rank that has nothing that is numel. */
uint64_t ck_flat_chunk(uint64_t numel, uint64_t world, uint64_t rank,
		       uint64_t *begin);
/* What the rank has of elements [offset, offset + count) of it: how many, and *first,
 * counted from offset. */
uint64_t ck_flat_piece(uint64_t numel, uint64_t world, uint64_t rank,
		       uint64_t offset, uint64_t count, uint64_t *first);

#endif
