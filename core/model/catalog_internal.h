/* SPDX-License-Identifier: MIT */
/*
 * catalog_internal: what the files of the catalog share while it is built.
 */
#ifndef CK_MODEL_CATALOG_INTERNAL_H
#define CK_MODEL_CATALOG_INTERNAL_H

#include "ckptfs/catalog_edit.h"
#include "ckptfs/model.h"

/* Elements allocated for each array of the catalog. */
struct ck_catalog_caps {
	size_t transforms, globals, strided, strides;
	struct ck_tensor *last;		    /* that was added */
	int64_t *boxes;			    /* its own */
	uint64_t room;			    /* of boxes, there */
	struct ck_listing *listing;	    /* the catalog's */
	const struct ck_sharding *sharding; /* that was added last, or NULL */
};

/* --- generation.c: rows ----------------------------------------------------- */

/* Bytes that rows own together. */
struct ck_owned {
	uint32_t refs; /* atomic */
	_Alignas(8) char bytes[];
};

/* Of zeros, with one reference; NULL: out of memory. */
struct ck_owned *ck_owned_make(size_t bytes);
void ck_owned_hold(struct ck_owned *o); /* NULL is allowed */

/* There are none. */
void ck_catalog_rows_init(struct ck_catalog *c);

/* Rows to be changed. NULL: out of memory, which cannot be before others share
 * them, as while a catalog is filled. */
static inline struct ck_data_file *ck_catalog_own_file(struct ck_catalog *c,
						       uint32_t i)
{
	return ck_rows_edit(&c->files, i);
}

static inline struct ck_tensor *ck_catalog_own_tensor(struct ck_catalog *c,
						      uint32_t i)
{
	return ck_rows_edit(&c->tensors, i);
}

static inline struct ck_object *ck_catalog_own_object(struct ck_catalog *c,
						      uint32_t i)
{
	return ck_rows_edit(&c->objects, i);
}

static inline struct ck_item *ck_catalog_own_item(struct ck_catalog *c,
						  uint32_t chunk)
{
	return ck_rows_edit(&c->chunks, chunk);
}

static inline struct ck_replica *ck_catalog_own_replica(struct ck_catalog *c,
							uint32_t i)
{
	return ck_rows_edit(&c->replicas, i);
}

/* --- what finishing and edits do -------------------------------------------- */

/* catalog_check.c: sizes, order and faults of tensors and items. */
CK_MUST_USE int ck_catalog_check(struct ck_catalog *c);
/* The same of one tensor that was added: its order goes to `order`, nchunks. A
 * fault of the tensor is -EINVAL. */
CK_MUST_USE int ck_catalog_check_added(struct ck_catalog *c, uint32_t tensor,
				       uint32_t *order, struct ck_diag *d);
/* Bytes of a tensor that is no alias. More than can be counted is UINT64_MAX, and
 * stays so. */
void ck_catalog_bytes_add(struct ck_catalog *c, uint64_t nbytes);
/* ENODATA and the like of an entry's item, from what is known of its file. */
uint16_t ck_catalog_item_err(const struct ck_catalog *c,
			     const struct ck_item *item);

/* catalog_attr.c: mode and time follow the files of the items. -ENOMEM. */
CK_MUST_USE int ck_catalog_tensor_renew(struct ck_catalog *c, uint32_t tensor);
CK_MUST_USE int ck_catalog_object_renew(struct ck_catalog *c, uint32_t object);

/* catalog_items.c: a chunk's item was replaced: its replicas have what was
 * before. -ENOMEM. */
CK_MUST_USE int ck_catalog_replicas_drop(struct ck_catalog *c, uint32_t chunk);
/* Whether an item that needs no look is as long as box i of a
 * tensor without fault wants. */
CK_MUST_USE bool ck_catalog_item_fits(const struct ck_catalog *c,
				      const struct ck_tensor *t, uint32_t i,
				      const struct ck_item *item);

/* tiling.c: are boxes disjoint? */

/* Scratch for the boxes of one tensor after another. */
struct ck_tiling {
	/* set by the caller */
	const int64_t *boxes; /* 2 * ndim for each: offsets, sizes */
	uint32_t ndim;
	uint32_t n;	 /* boxes to look at */
	uint32_t *index; /* which; owned; reordered */
	uint64_t budget; /* steps that may still be done; reduced */
	/* a pair that overlaps */
	uint32_t a, b;
	/* private */
	uint32_t *spare;
	struct ck_tiling_range *stack;
};

enum ck_tiling_result {
	CK_TILING_DISJOINT,
	CK_TILING_OVERLAP,   /* a and b do */
	CK_TILING_IRREGULAR, /* out of budget: not known */
};

/* For at most `max` boxes at a time. */
CK_MUST_USE int ck_tiling_init(struct ck_tiling *t, uint32_t max);
void ck_tiling_fini(struct ck_tiling *t);
/* Sorts index by offsets, keeping the order of equal ones. Any values. */
void ck_tiling_sort(struct ck_tiling *t);
/* Do any two of the boxes share an element? All must be inside one tensor
 * and have a positive volume. */
enum ck_tiling_result ck_tiling_check(struct ck_tiling *t);

#endif
