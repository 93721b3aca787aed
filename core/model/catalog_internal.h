/* SPDX-License-Identifier: MIT */
/*
 * catalog_internal: what the files of the catalog share while it is built.
 */
#ifndef CK_CATALOG_INTERNAL_H
#define CK_CATALOG_INTERNAL_H

#include "ckptfs/catalog_edit.h"
#include "ckptfs/model.h"

/* Facts that were met, so that equal ones are one. Begins as zeros. */
enum { CK_FACTS_MET = 32, CK_FACTS_WAYS = 4 };

struct ck_facts_met {
	const struct ck_tensor_facts *facts[CK_FACTS_MET]; /* held, or NULL */
};

/* A box that is all of a tensor: ndim zeros, and the tensor's shape. Many tensors have
 * the same one. */
enum { CK_WHOLES = 64 };

struct ck_whole {
	const int64_t *box;
	uint32_t ndim;
};

/* Of a model with tensor parallelism neighbours have some few by turns. */
enum { CK_LATEST = 8 };

/* Elements allocated for each array of the catalog. */
struct ck_catalog_caps {
	size_t transforms, globals, strided, within, strides, losses, notes;
	struct ck_facts_met met;
	struct ck_whole wholes[CK_WHOLES]; /* met last, by their sizes */
	struct ck_tensor *last;		   /* that was added */
	int64_t *boxes;			   /* its own */
	uint64_t room;			   /* of boxes, there */
	uint64_t expected;		   /* chunks of it */
	struct ck_listing *listing;	   /* the catalog's */
	/* Those that were added last, the oldest at their counts; NULL, or without
	 * bytes, at first. */
	const struct ck_sharding *shardings[CK_LATEST];
	struct ck_str dtype_names[CK_LATEST]; /* of none that is known */
	unsigned nshardings, ndtype_names;
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

/* The row says this from now on, in memory that it shares with others whose facts were
 * met. -ENOMEM: it says what it did. */
CK_MUST_USE int ck_tensor_facts_set(struct ck_tensor *t,
				    const struct ck_tensor_facts *want,
				    struct ck_facts_met *met);
void ck_tensor_facts_put(const struct ck_tensor_facts *f); /* NULL is allowed */
void ck_facts_met_fini(struct ck_facts_met *met);

/* There are none. */
void ck_catalog_rows_init(struct ck_catalog *c);
/* catalog.c: it is filled, or will never be. */
void ck_catalog_caps_free(struct ck_catalog *c);

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

/* catalog_own.c: an entry that begins has the name of another one. -ENOMEM. */
CK_MUST_USE int ck_catalog_entry_own(struct ck_catalog *c,
				     struct ck_entry_id id,
				     struct ck_entry_id of, uint8_t role,
				     struct ck_entry *e);

/* catalog.c: an entry that begins has this key, which is copied. -ENOMEM. */
CK_MUST_USE int ck_catalog_entry_add(struct ck_catalog *c,
				     struct ck_entry_id id, struct ck_str key,
				     struct ck_entry *e);

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
uint8_t ck_catalog_item_err(const struct ck_catalog *c,
			    const struct ck_item *item);

/* catalog_attr.c: mode and time follow the files of the items. -ENOMEM. */
CK_MUST_USE int ck_catalog_tensor_renew(struct ck_catalog *c, uint32_t tensor,
					struct ck_facts_met *met);
CK_MUST_USE int ck_catalog_object_renew(struct ck_catalog *c, uint32_t object);

/* rename.c: gives entries the names of listing->renames, between unwrapping and stems.
 * -EBADMSG: two would have one name; -ENOMEM. */
CK_MUST_USE int ck_listing_rename(struct ck_listing *l, struct ck_diag *d);
/* Adds a doubt that counts the lines that match no name. -ENOMEM. */
CK_MUST_USE int ck_listing_note_unused(const struct ck_listing *l,
				       struct ck_catalog *c);

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
