/* SPDX-License-Identifier: MIT */
/*
 * listing: the entries of a catalog in the order of the checkpoint, with their
 * shown names. All generations of a catalog share one listing until an entry is
 * added, renamed or removed. Immutable once finished, and reference-counted. A part
 * of model.
 */
#ifndef CKPTFS_LISTING_H
#define CKPTFS_LISTING_H

#include "rename.h"
#include "selection.h"

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

/* Type of one step of the path of an entry in the nested state dict: a list index,
 * or the Python type of a dict key. */
enum ck_path_type {
	CK_PATH_STR,
	CK_PATH_INDEX, /* an index in a list */
	CK_PATH_INT,
	CK_PATH_FLOAT,
	CK_PATH_BOOL,
	CK_PATH_NONE,
	CK_PATH_OTHER,
};

/* One step of a path as text: a decimal index or number, True, None, or the JSON of
 * a key of another type. */
struct ck_path_part {
	const char *p;
	uint32_t len;
	uint8_t type; /* enum ck_path_type */
};

static inline struct ck_str ck_part_text(const struct ck_path_part *part)
{
	return (struct ck_str){ part->p, part->len };
}

/* Where an entry is shown, and by whose name. */
enum ck_entry_role {
	CK_ROLE_WHOLE, /* in all views, by its own name */
	/* Rows of single ranks, which only local/ shows: */
	CK_ROLE_COPY, /* a part of another entry, as one rank has it */
	CK_ROLE_OWN,  /* there is no whole entry of which it is a part */
	/* In no view, because the user did not select its name. Its bytes are in
	 * use, and a commit keeps them. */
	CK_ROLE_HIDDEN,
};

/* Common part of tensors and objects. The shown name is in the listing. */
struct ck_entry {
	struct ck_str key; /* key in the checkpoint; any bytes */
	/* nparts; no parts: it has no path. NULL with one part: the part is the key
	 * as text, see ck_entry_part(). */
	const struct ck_path_part *path;
	uint32_t nparts;
	uint32_t number; /* row number */
	/* private: owner of key and path of an entry that was added or renamed */
	struct ck_owned *owner;
	uint32_t of; /* see ck_entry_of() */
	bool of_object;
	uint8_t role; /* enum ck_entry_role */
};

/* Entry whose name a row has that is not CK_ROLE_WHOLE; may be the row itself for
 * CK_ROLE_OWN. */
static inline struct ck_entry_id ck_entry_of(const struct ck_entry *e)
{
	return (struct ck_entry_id){ e->of, e->of_object };
}

/* True if an entry was not removed, and its name is selected. */
static inline bool ck_entry_is_there(const struct ck_entry *e)
{
	return e->key.p && e->role != CK_ROLE_HIDDEN;
}

/* Part i of the path, below nparts. */
static inline struct ck_path_part ck_entry_part(const struct ck_entry *e,
						uint32_t i)
{
	return e->path ? e->path[i]
		       : (struct ck_path_part){ .p = e->key.p,
						.len = (uint32_t)e->key.len };
}

/* Names of an entry; the key is in its row. */
struct ck_names {
	struct ck_str key;  /* key in the checkpoint; any bytes */
	struct ck_str name; /* shown name (FQN) */
	struct ck_str stem; /* file name without suffix */
};

/* An entry whose name differs from its key, or whose stem differs from its name. */
struct ck_other_name {
	uint32_t entry; /* index in entries */
	struct ck_str name, stem;
};

/* An entry that has the name of another entry. */
struct ck_same_name {
	struct ck_entry_id of, id;
};

/* Immutable once finished. */
struct ck_listing {
	/* in the order of the checkpoint; nhidden entries that are not selected
	 * follow the n others */
	struct ck_entry_id *entries;
	uint32_t *of_tensor; /* index in entries, by number */
	uint32_t *of_object;
	/* entries that keep prefixes of wrappers, since their names would collide
	 * without; in any order */
	uint32_t *prefixed;
	/* Entries without a name of their own, sorted by the entry whose name they
	 * have. */
	struct ck_same_name *same;
	size_t n, nhidden, nprefixed, nsame;
	/* Map of names from the user; NULL: no map. Holds a reference. */
	const struct ck_renames *renames;
	uint32_t nrenamed; /* entries that the map renames */
	/* lines of the map that match no entry, and the index of the first */
	uint32_t nunused, unused_first;
	/* Names that are shown; NULL: all. Holds a reference. */
	const struct ck_selection *selection;
	/* patterns of the selection that match no name, and the first of them */
	size_t nunmatched, unmatched_first;
	/* Private. Names of each entry, until finished: */
	struct ck_names *names;
	/* Entries not in `named` have the key without its first `dropped` bytes as
	 * name and stem. */
	struct ck_other_name *named; /* sorted by entry */
	size_t nnamed;
	size_t dropped;
	uint32_t *by_stem; /* hash table: entry index + 1, 0 empty */
	size_t stem_slots, entries_cap, names_cap, same_cap, named_cap;
	uint64_t hash_seed;   /* of by_stem: random */
	struct ck_arena text; /* names and stems that are not part of a key */
	uint32_t refs;	      /* atomic */
};

/* Fill a listing: make, add in order, finish. They return 0, or: -ENOMEM, NULL if
 * out of memory; -EOVERFLOW if there are too many entries. */
struct ck_listing *ck_listing_make(void);
/* Caller owns the key, which must outlive the listing. */
CK_MUST_USE int ck_listing_add(struct ck_listing *l, struct ck_entry_id id,
			       struct ck_str key);
/* Gives an entry the name of another one, which was added or will be. */
CK_MUST_USE int ck_listing_same(struct ck_listing *l, struct ck_entry_id id,
				struct ck_entry_id of);
/* Computes names, stems and the table. Returns 0, or: -EBADMSG if two entries have
 * the same key, or the same name after renames; -ENOMEM. */
CK_MUST_USE int ck_listing_finish(struct ck_listing *l, struct ck_diag *d);

/* Finds the *n entries that have the name of an entry; returns the first. */
const struct ck_same_name *ck_listing_same_of(const struct ck_listing *l,
					      struct ck_entry_id of,
					      uint32_t *n);

/* Acquire and release a reference. Any thread. */
const struct ck_listing *ck_listing_hold(const struct ck_listing *l);
void ck_listing_put(const struct ck_listing *l); /* NULL is allowed */

#endif
