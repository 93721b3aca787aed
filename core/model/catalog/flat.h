/* SPDX-License-Identifier: MIT */
/*
 * flat: tensors whose elements are a range of a longer one-dimensional tensor, as
 * the parameters of FSDP1 in a flat parameter. A stored shard has elements [begin,
 * end) of the flat tensor, so it has a run of elements of each parameter, which may
 * begin and end within a row. Such a run is at most 2 * ndim - 1 boxes of the shape
 * of the parameter, each contiguous. Each box becomes a chunk of its own, so that
 * other modules need not know runs. A part of model.
 */
#ifndef CKPTFS_FLAT_H
#define CKPTFS_FLAT_H

#include "catalog_edit.h"

/* --- boxes of a run --------------------------------------------------------------- */

/* Elements [first, first + count) of a tensor in C order, inside the tensor.
 * ck_run_next() removes boxes from its front. */
struct ck_flat_run {
	uint32_t ndim;
	const int64_t *shape;
	uint64_t first, count;
};

/* Removes the next box: ndim offsets and sizes, in elements. Returns its number of
 * elements; 0 if the run is empty. */
uint64_t ck_run_next(struct ck_flat_run *run, int64_t *off, int64_t *len);

/* --- shards of a flat tensor -------------------------------------------------------- */

/* A stored shard: elements [begin, begin + count) of a flat tensor, contiguous in
 * an item. */
struct ck_flat_shard {
	uint64_t begin, count;
	struct ck_item item;
	uint32_t chunk; /* of an archive: the chunk with its item */
	/* set by ck_flat_sort(): has the same elements as an earlier shard */
	bool is_replica;
};

/* Sorts shards by `begin`, removes empty ones and updates *n. The first shard of
 * those with the same elements stays first; the others become its replicas. Returns
 * 0, or: -EIO if two overlap otherwise, or the end of one overflows; -ENOMEM. */
CK_MUST_USE int ck_flat_sort(struct ck_flat_shard *shards, uint32_t *n,
			     struct ck_diag *d);

/* Adds a tensor that has the elements from `offset` on of a flat tensor with these
 * sorted shards. Elements in no shard are a hole. The number of elements of the
 * shape plus `offset` must fit in 64 bits. Returns 0, or an error of
 * ck_catalog_tensor_add(). */
CK_MUST_USE int ck_flat_tensor_add(struct ck_catalog *c, struct ck_str key,
				   struct ck_str dtype, uint32_t ndim,
				   const int64_t *shape, uint64_t offset,
				   const struct ck_flat_shard *shards,
				   uint32_t n);

/* --- how FSDP1 cuts -------------------------------------------------------------------- */

/* Number of elements of [offset, offset + count) that a rank has of a flat tensor of numel
 * elements, split among `world` ranks by ck_chunk(), and *first, relative to `offset`. */
uint64_t ck_flat_piece(uint64_t numel, uint64_t world, uint64_t rank,
		       uint64_t offset, uint64_t count, uint64_t *first);

#endif
