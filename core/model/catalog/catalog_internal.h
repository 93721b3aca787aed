/* SPDX-License-Identifier: MIT */
/*
 * catalog_internal: functions that the files of the catalog share. A catalog is changed
 * by one thread only, while it is filled (before ck_catalog_finish()) or edited
 * (ck_catalog_edit()), and before other threads have it. After that it is constant.
 */
#ifndef CK_CATALOG_INTERNAL_H
#define CK_CATALOG_INTERNAL_H

#include "catalog_edit.h"
#include "ckptfs/model.h"

/* A cache of the facts that were added last, so that equal ones are stored once.
 * Zero-initialise. */
enum { CK_FACTS_MET = 32, CK_FACTS_WAYS = 4 };

struct ck_facts_met {
	const struct ck_tensor_facts *facts[CK_FACTS_MET]; /* held, or NULL */
};

/* The box of a whole tensor: ndim zeros, then its shape. Many tensors share one. */
enum { CK_WHOLES = 64 };

struct ck_whole {
	const int64_t *box;
	uint32_t ndim;
};

/* Adjacent tensors of a model with tensor parallelism alternate between a few
 * shardings. */
enum { CK_LATEST = 8 };

/* State of a catalog while it is filled. First: elements allocated for each array. */
struct ck_catalog_caps {
	size_t transforms, globals, strided, within, strides, losses, notes;
	struct ck_facts_met met;
	struct ck_whole wholes[CK_WHOLES]; /* a cache, by hash of the shape */
	struct ck_tensor *last;		   /* the tensor that was added last */
	int64_t *boxes;	   /* memory of its boxes; unset if they are shared */
	uint64_t room;	   /* boxes that fit into `boxes` */
	uint64_t expected; /* chunks that it will have; 0 if unknown */
	struct ck_listing *listing; /* that of the catalog */
	/* Rings of those that were added last; the counts modulo CK_LATEST are the
	 * oldest. NULL, or without bytes, at first. */
	const struct ck_sharding *shardings[CK_LATEST];
	struct ck_str dtype_names[CK_LATEST]; /* of unknown dtypes */
	unsigned nshardings, ndtype_names;
};

/* --- generation.c: rows ----------------------------------------------------- */

/* Bytes that rows own, counted. */
struct ck_owned {
	uint32_t refs; /* atomic */
	_Alignas(8) char bytes[];
};

/* Makes bytes of value 0, with one reference. NULL if memory is exhausted. */
struct ck_owned *ck_owned_make(size_t bytes);
void ck_owned_hold(struct ck_owned *o); /* NULL is allowed */

/* Replaces the facts of a row. The memory is shared with equal facts in `met`, which
 * may be NULL. Returns 0, or: -ENOMEM, and the row is unchanged. */
CK_MUST_USE int ck_tensor_facts_set(struct ck_tensor *t,
				    const struct ck_tensor_facts *want,
				    struct ck_facts_met *met);
void ck_tensor_facts_put(const struct ck_tensor_facts *f); /* NULL is allowed */
/* Drops the references of the cache. */
void ck_facts_met_fini(struct ck_facts_met *met);

/* Initialises the rows of an empty catalog. */
void ck_catalog_rows_init(struct ck_catalog *c);
/* catalog.c: frees c->caps, when the catalog is finished or freed. */
void ck_catalog_caps_free(struct ck_catalog *c);

/* Return a row to be changed; its block is copied if other catalogs share it. NULL if
 * memory is exhausted; never NULL while a catalog is filled, when nothing is shared. */
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

/* catalog_own.c: initialises an entry that is shown under the name of `of`. Returns 0,
 * or: -ENOMEM. */
CK_MUST_USE int ck_catalog_entry_own(struct ck_catalog *c,
				     struct ck_entry_id id,
				     struct ck_entry_id of, uint8_t role,
				     struct ck_entry *e);

/* catalog.c: gives a new entry a key, which is copied, and lists it. Returns 0, or:
 * -ENOMEM; -EOVERFLOW. */
CK_MUST_USE int ck_catalog_entry_add(struct ck_catalog *c,
				     struct ck_entry_id id, struct ck_str key,
				     struct ck_entry *e);

/* catalog.c: sets why a tensor cannot be read, or has no whole. `why` is copied. Returns
 * 0, or: -ENOMEM; -EOVERFLOW. */
CK_MUST_USE int ck_catalog_fault_set(struct ck_catalog *c, struct ck_tensor *t,
				     struct ck_str why);

/* --- finishing and editing -------------------------------------------------------- */

/* catalog_check.c: sets sizes, order and faults of all tensors and items. Returns 0,
 * or: -ENOMEM. */
CK_MUST_USE int ck_catalog_check(struct ck_catalog *c);
/* The same for one tensor that an edit added. Its order is written to order[nchunks].
 * Returns 0, or: -EINVAL if the tensor has a fault, d has it; -ENOMEM. */
CK_MUST_USE int ck_catalog_check_added(struct ck_catalog *c, uint32_t tensor,
				       uint32_t *order, struct ck_diag *d);
/* hide.c: adds the bytes of a tensor that is not an alias. The sum saturates at UINT64_MAX. */
void ck_catalog_bytes_add(struct ck_catalog *c, uint64_t nbytes);
/* Returns the positive errno of an item, from the facts about its file; 0 without a
 * fault. */
uint8_t ck_catalog_item_err(const struct ck_catalog *c,
			    const struct ck_item *item);

/* catalog_attr.c: set mode and mtime of a row from the files of its items. Return 0,
 * or: -ENOMEM. */
CK_MUST_USE int ck_catalog_tensor_renew(struct ck_catalog *c, uint32_t tensor,
					struct ck_facts_met *met);
CK_MUST_USE int ck_catalog_object_renew(struct ck_catalog *c, uint32_t object);

/* rename.c: applies listing->renames to the names, after unwrapping and before stems.
 * Returns 0, or: -EBADMSG if two entries would have one name; -ENOMEM. */
CK_MUST_USE int ck_listing_rename(struct ck_listing *l, struct ck_diag *d);
/* Adds a doubt with the number of lines that match no name. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_listing_note_unused(const struct ck_listing *l,
				       struct ck_catalog *c);

/* hide.c: moves the entries that listing->selection does not select behind the others, and
 * counts the patterns that match no name. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_listing_select(struct ck_listing *l);
/* Gives rows CK_ROLE_HIDDEN if the listing hides their names, and drops losses of such
 * names from the first catalog. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_catalog_hide(struct ck_catalog *c);
/* Ends the sharing of a tensor with its aliases, because its bytes change or it is hidden.
 * Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_catalog_part_from_aliases(struct ck_catalog *c,
					     uint32_t tensor);

/* catalog_items.c: marks the replicas of a chunk as lost, when its item was replaced.
 * Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_catalog_replicas_drop(struct ck_catalog *c, uint32_t chunk);
/* True if an item is as long as box i of a tensor needs; also true for an archive,
 * whose header must be read for that. The tensor must be without fault. */
CK_MUST_USE bool ck_catalog_item_fits(const struct ck_catalog *c,
				      const struct ck_tensor *t, uint32_t i,
				      const struct ck_item *item);

/* --- tiling.c: whether boxes are disjoint ----------------------------------------- */

/* Scratch for the boxes of one tensor after another. */
struct ck_tiling {
	/* set by the caller */
	const int64_t *boxes; /* 2 * ndim for each: offsets, sizes */
	uint32_t ndim;
	uint32_t n;	 /* boxes to look at */
	uint32_t *index; /* their numbers; owned; reordered */
	uint64_t budget; /* steps that are left; reduced */
	/* a pair that overlaps */
	uint32_t a, b;
	/* private */
	uint32_t *spare;
	struct ck_tiling_range *stack;
};

enum ck_tiling_result {
	CK_TILING_DISJOINT,
	CK_TILING_OVERLAP,   /* a and b do */
	CK_TILING_IRREGULAR, /* unknown: the budget is spent */
};

/* Allocates memory for at most `max` boxes. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_tiling_init(struct ck_tiling *t, uint32_t max);
void ck_tiling_fini(struct ck_tiling *t);
/* Sorts index by offsets; stable. Boxes may have any values. */
void ck_tiling_sort(struct ck_tiling *t);
/* Checks whether two of the boxes share an element. All must be inside one tensor and
 * have a positive volume. */
enum ck_tiling_result ck_tiling_check(struct ck_tiling *t);

#endif
