/* SPDX-License-Identifier: MIT */
/*
 * listing: which entries a catalog has, in the checkpoint's own order, and what
 * they are shown as. A value of its own, since it is the same in all generations
 * of a catalog until an entry is added, renamed or removed. A part of model.
 */
#ifndef CKPTFS_LISTING_H
#define CKPTFS_LISTING_H

#include "ckptfs/rename.h"

struct ck_owned; /* catalog_internal.h */

struct ck_entry_id {
	uint32_t i; /* number of a tensor or object */
	bool is_object;
};

static inline int ck_entry_id_cmp(struct ck_entry_id a, struct ck_entry_id b)
{
	if (a.is_object != b.is_object)
		return a.is_object ? 1 : -1;
	return (a.i > b.i) - (a.i < b.i);
}

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

/* Where an entry is shown, and by which name. */
enum ck_entry_role {
	CK_ROLE_WHOLE, /* in all views, by its own name */
	/* Of what ranks have, which only local/ shows: */
	CK_ROLE_COPY, /* some of what another entry has, as one rank has it */
	CK_ROLE_OWN,  /* there is no whole that it is a part of */
};

/* What tensors and other entries have in common. What it is shown as is in the
 * listing. */
struct ck_entry {
	struct ck_str key; /* the checkpoint's, any bytes */
	/* nparts; none: it has no path. NULL of one part: that is its key, a
	 * text. See ck_entry_part(). */
	const struct ck_path_part *path;
	uint32_t nparts;
	uint32_t number; /* of the row */
	/* private: has key and path of an entry that was added or renamed */
	struct ck_owned *owner;
	uint32_t of; /* see ck_entry_of() */
	bool of_object;
	uint8_t role; /* enum ck_entry_role */
};

/* Not of WHOLE: whose name it has; of an OWN that may be itself. */
static inline struct ck_entry_id ck_entry_of(const struct ck_entry *e)
{
	return (struct ck_entry_id){ e->of, e->of_object };
}

/* Part i of its path, of nparts. */
static inline struct ck_path_part ck_entry_part(const struct ck_entry *e,
						uint32_t i)
{
	return e->path ? e->path[i]
		       : (struct ck_path_part){ .p = e->key.p,
						.len = (uint32_t)e->key.len };
}

/* Texts of an entry; the key belongs to its row. */
struct ck_names {
	struct ck_str key;  /* the checkpoint's, any bytes */
	struct ck_str name; /* shown name (FQN) */
	struct ck_str stem; /* file name without suffix */
};

/* An entry that has another name than its key, or another stem than its name. */
struct ck_other_name {
	uint32_t entry; /* index in entries */
	struct ck_str name, stem;
};

/* An entry that has the name of another one. */
struct ck_same_name {
	struct ck_entry_id of, id;
};

/* Nobody changes it once it is finished. */
struct ck_listing {
	struct ck_entry_id *entries; /* in the checkpoint's own order */
	uint32_t *of_tensor;	     /* by its number: index in entries */
	uint32_t *of_object;
	uint32_t *prefixed; /* entries that keep the prefixes of wrappers, since
			     * without them names would be equal; any order */
	/* Entries that have no name of their own, by the one whose it is. */
	struct ck_same_name *same;
	size_t n, nprefixed, nsame;
	/* Names that the user gives to entries; NULL: there are none. Held. */
	const struct ck_renames *renames;
	uint32_t nrenamed;		/* entries that a line of it names */
	uint32_t nunused, unused_first; /* lines that name no entry; an index */
	/* private */
	struct ck_names *names; /* of each entry, until it is finished */
	/* Name and stem of the others are the key without its first bytes: */
	struct ck_other_name *named; /* by entry */
	size_t nnamed;
	size_t dropped;	   /* so many bytes */
	uint32_t *by_stem; /* hash table: entry index + 1, 0 empty */
	size_t stem_slots, entries_cap, names_cap, same_cap, named_cap;
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
/* It has the name of another entry, which was added or will be. */
CK_MUST_USE int ck_listing_same(struct ck_listing *l, struct ck_entry_id id,
				struct ck_entry_id of);
/* Names, stems, and the table. -EBADMSG: two entries have one key. */
CK_MUST_USE int ck_listing_finish(struct ck_listing *l, struct ck_diag *d);

/* The first of those that have the name of an entry, *n of them. */
const struct ck_same_name *ck_listing_same_of(const struct ck_listing *l,
					      struct ck_entry_id of,
					      uint32_t *n);

/* Counts those who use it. Any thread. */
const struct ck_listing *ck_listing_hold(const struct ck_listing *l);
void ck_listing_put(const struct ck_listing *l); /* NULL is allowed */

#endif
