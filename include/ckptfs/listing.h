/* SPDX-License-Identifier: MIT */
/*
 * listing: which entries a catalog has, in the checkpoint's own order, and what
 * they are shown as. A value of its own, since it is the same in all generations
 * of a catalog until an entry is added, renamed or removed. A part of model.
 */
#ifndef CKPTFS_LISTING_H
#define CKPTFS_LISTING_H

#include "ckptfs/base.h"

struct ck_entry_id {
	uint32_t i; /* number of a tensor or object */
	bool is_object;
};

/* What a step in the nested state dict is: a position in a list, or the key of a
 * dict, by its type in Python. */
enum ck_path_type {
	CK_PATH_STR,
	CK_PATH_INDEX, /* the position */
	CK_PATH_INT,
	CK_PATH_FLOAT,
	CK_PATH_BOOL,
	CK_PATH_NONE,
	CK_PATH_OTHER,
};

/* A step to an entry in the nested state dict, as text: a position or number in
 * decimal, True, None, or the JSON of a key that is of another type. */
struct ck_path_part {
	const char *p;
	uint32_t len;
	uint8_t type; /* enum ck_path_type */
};

static inline struct ck_str ck_part_text(const struct ck_path_part *part)
{
	return (struct ck_str){ part->p, part->len };
}

/* Texts of an entry; the key belongs to its row. */
struct ck_names {
	struct ck_str key;  /* the checkpoint's, any bytes */
	struct ck_str name; /* shown name (FQN) */
	struct ck_str stem; /* file name without suffix */
};

/* Nobody changes it once it is finished. */
struct ck_listing {
	struct ck_entry_id *entries; /* in the checkpoint's own order */
	struct ck_names *names;	     /* of each entry */
	uint32_t *of_tensor;	     /* by its number: index in entries */
	uint32_t *of_object;
	uint32_t *prefixed; /* entries that keep the prefixes of wrappers, since
			     * without them names would be equal; any order */
	size_t n, nprefixed;
	/* private */
	uint32_t *by_stem; /* hash table: entry index + 1, 0 empty */
	size_t stem_slots, entries_cap, names_cap;
	uint64_t hash_seed;   /* of by_stem: random */
	struct ck_arena text; /* of names and stems that are no part of a key */
	uint32_t refs;	      /* atomic */
};

/* Filling: make, add in order, finish. NULL, -ENOMEM: out of memory; -EOVERFLOW:
 * more entries than can be numbered. */
struct ck_listing *ck_listing_make(void);
/* The key stays where it is as long as the listing. */
CK_MUST_USE int ck_listing_add(struct ck_listing *l, struct ck_entry_id id,
			       struct ck_str key);
/* Names, stems, and the table. -EBADMSG: two entries have one key. */
CK_MUST_USE int ck_listing_finish(struct ck_listing *l, struct ck_diag *d);

/* Counts those who use it. Any thread. */
const struct ck_listing *ck_listing_hold(const struct ck_listing *l);
void ck_listing_put(const struct ck_listing *l); /* NULL is allowed */

/* Entry whose stem this is, as index in entries; -1 if there is none. */
int64_t ck_listing_find(const struct ck_listing *l, struct ck_str stem);

#endif
