/* SPDX-License-Identifier: MIT */
/*
 * tensor: the row of a tensor in a catalog. A part of model.
 */
#ifndef CKPTFS_TENSOR_H
#define CKPTFS_TENSOR_H

#include "listing.h"
#include "model/sharding.h"
#include <sys/types.h>
#include <time.h>

#define CK_NO_TENSOR UINT32_MAX

/* What many tensors have in common. It is constant once a row points to it. */
struct ck_tensor_facts {
	mode_t mode; /* r bits that its files, .metadata and directory share */
	struct ck_str dtype_name; /* as stored, without "torch." */
	struct timespec mtime;	  /* newest of its files */
	uint64_t version; /* the generation in which its items were changed */
	const struct ck_sharding *sharding; /* NULL: nothing tells */
	const uint32_t *order; /* its chunks, from 0, sorted by offsets */
	/* private: has what the row of a tensor that was added points to, but for
	 * key and path */
	struct ck_owned *owner;
};

/* There may be millions of them: what few have is elsewhere. */
struct ck_tensor {
	struct ck_entry entry;
	const char *fault; /* see ck_tensor_fault() */
	const struct ck_tensor_facts *facts;
	const int64_t *shape; /* ndim */
	const int64_t *boxes; /* for each chunk 2 * ndim: offsets, sizes */
	uint64_t nbytes;      /* of all elements; 0 if they cannot be counted */
	uint32_t chunk;	      /* first chunk */
	uint32_t nchunks;
	uint32_t ndim;
	uint32_t alias;	 /* see ck_tensor_alias_of(), ck_tensor_naliases() */
	uint16_t err;	 /* 0, or why it cannot be served as a whole: EIO at
			 * open (its boxes lie), EBADMSG at read (its dtype) */
	uint8_t dtype;	 /* ck_dtype_at() */
	uint8_t kind;	 /* enum ck_tensor_kind */
	uint8_t holes;	 /* 1: some elements are in no box */
	uint8_t guessed; /* 1: its shape is what its boxes need */
	uint8_t apart; /* 1: local/ has none of its boxes, but COPYs, if any */
	uint8_t is_alias;
};

/* Why err is set, or why there is no whole tensor; may be empty. */
static inline struct ck_str ck_tensor_fault(const struct ck_tensor *t)
{
	return ck_str_from(t->fault ? t->fault : "");
}

/* True if two tensors, of one catalog or of two, have the same dtype and shape. */
static inline bool ck_tensor_is_alike(const struct ck_tensor *a,
				      const struct ck_tensor *b)
{
	return ck_str_eq(a->facts->dtype_name, b->facts->dtype_name) &&
	       a->ndim == b->ndim &&
	       (a->ndim == 0 ||
		memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) == 0);
}

/* The first tensor with the same bytes, dtype and shape; CK_NO_TENSOR: it is that one
 * itself. */
static inline uint32_t ck_tensor_alias_of(const struct ck_tensor *t)
{
	return t->is_alias ? t->alias : CK_NO_TENSOR;
}

/* Tensors that are aliases of it. */
static inline uint32_t ck_tensor_naliases(const struct ck_tensor *t)
{
	return t->is_alias ? 0 : t->alias;
}

/* What a layout of the tensor points to stays as long as this is held. Put it
 * back. NULL: it stays as long as any catalog of the checkpoint. */
struct ck_owned *ck_tensor_hold(const struct ck_tensor *t);
void ck_owned_put(struct ck_owned *o); /* NULL is allowed */

/* offsets of chunk i of t; its sizes are ndim further on. */
static inline const int64_t *ck_tensor_box(const struct ck_tensor *t,
					   uint32_t i)
{
	return t->boxes + (uint64_t)i * 2 * t->ndim;
}

#endif
