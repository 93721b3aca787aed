/* SPDX-License-Identifier: MIT */
/*
 * catalog_edit: makes catalogs. A format fills the first one. Each later one is
 * made from the previous one and shares all unchanged rows with it. Until it is
 * finished or published, a catalog belongs to one thread. A part of model.
 */
#ifndef CKPTFS_CATALOG_EDIT_H
#define CKPTFS_CATALOG_EDIT_H

#include "ckptfs/catalog.h"

/* --- the first one: add, then finish ------------------------------------------ */

/* The functions below return 0, or: -ENOMEM; -EOVERFLOW if a number exceeds its
 * type. Memory grows with the rows that are added, never with a declared number.
 * Caller keeps `kind`, a constant, and sets meta and dir_mode before
 * ck_catalog_finish(). ck_catalog_put() frees the catalog, also before it is
 * finished. ck_catalog_make(): NULL if out of memory. */
struct ck_catalog *ck_catalog_make(const char *kind);
CK_MUST_USE int ck_catalog_text_add(struct ck_catalog *c, struct ck_str s,
				    struct ck_str *out);
/* Copies the path; ignores `owner`. */
CK_MUST_USE int ck_catalog_file_add(struct ck_catalog *c,
				    const struct ck_data_file *file);
/* Starts a tensor and sets key, dtype and shape; its chunks follow by
 * ck_catalog_chunk_add(). A negative dimension becomes a fault of the tensor. */
CK_MUST_USE int ck_catalog_tensor_add(struct ck_catalog *c, struct ck_str key,
				      struct ck_str dtype, uint32_t ndim,
				      const int64_t *shape);
/* Announces the exact number of chunks of the tensor added last, so that their
 * boxes are allocated once, in half of the memory. */
CK_MUST_USE int ck_catalog_chunks_expect(struct ck_catalog *c, uint32_t n);
/* Records that the tensor added last cannot be served as a whole: err is EIO or
 * EBADMSG, why the reason. */
CK_MUST_USE int ck_catalog_tensor_fault(struct ck_catalog *c, int err,
					const char *why);
/* Records that the shape of the tensor added last was derived from its boxes. */
void ck_catalog_tensor_guessed(struct ck_catalog *c);
/* Sets the kind of the tensor added last (enum ck_tensor_kind), and how it was
 * distributed over the ranks of its job; copies the sharding. Also -EINVAL if the
 * mesh has no dimensions. */
void ck_catalog_tensor_kind(struct ck_catalog *c, uint8_t kind);
CK_MUST_USE int ck_catalog_tensor_sharding(struct ck_catalog *c,
					   const struct ck_sharding *sharding);
/* Makes the tensor added last, with all its chunks, an alias of an earlier tensor.
 * Also -EINVAL if that one has other chunks, another dtype or shape, or is an
 * alias. */
CK_MUST_USE int ck_catalog_tensor_alias(struct ck_catalog *c, uint32_t of);
/* Adds a box to the tensor added last. off, len: ndim each, in elements. */
CK_MUST_USE int ck_catalog_chunk_add(struct ck_catalog *c, const int64_t *off,
				     const int64_t *len,
				     const struct ck_item *chunk);
/* Sets the strides of the chunk added last, a CK_FORM_ELEMENTS: ndim, in bytes. */
CK_MUST_USE int ck_catalog_strides_add(struct ck_catalog *c,
				       const uint64_t *strides);
/* Makes the chunk added last, a CK_FORM_WITHIN, a run of elements of chunk `of`,
 * from `first` on. */
CK_MUST_USE int ck_catalog_within_add(struct ck_catalog *c, uint32_t of,
				      uint64_t first);
/* Adds a replica of the chunk added last, in another file. */
CK_MUST_USE int ck_catalog_replica_add(struct ck_catalog *c,
				       const struct ck_item *item);
CK_MUST_USE int ck_catalog_object_add(struct ck_catalog *c, struct ck_str key,
				      const struct ck_item *item);
/* Sets the pickle of the object added last, a CK_FORM_VALUE, and the items of its n
 * storages; copies both. Also -EINVAL if the object has another form, or the range
 * of a storage overflows. */
CK_MUST_USE int ck_catalog_object_value(struct ck_catalog *c,
					struct ck_str pickle,
					const struct ck_item *storages,
					uint32_t n);

/*
 * Rows of single ranks, which only local/ shows.
 *
 * Starts a tensor as ck_catalog_tensor_add() does, with a role other than WHOLE and
 * with the name of `of`. Its boxes may leave holes.
 */
CK_MUST_USE int ck_catalog_own_add(struct ck_catalog *c, struct ck_entry_id of,
				   uint8_t role, struct ck_str dtype,
				   uint32_t ndim, const int64_t *shape);
/* Changes the role of the tensor added last, which has no chunks yet, to
 * CK_ROLE_OWN: other rows may have its name. why: reason why there is no whole
 * tensor; NULL: no fault. */
CK_MUST_USE int ck_catalog_tensor_unwhole(struct ck_catalog *c,
					  const char *why);
/* local/ shows no chunk of the tensor added last. */
void ck_catalog_tensor_apart(struct ck_catalog *c);
/* Adds rows of the copies in each file, which local/ shows instead of the tensor
 * added last. That tensor must have all its chunks and replicas. No effect if it
 * has a fault, or if it has no replicas and `more` is false. more: the caller adds
 * further such rows. */
CK_MUST_USE int ck_catalog_copies_add(struct ck_catalog *c, bool more);
/* Adds an object with the name of `of`. */
CK_MUST_USE int ck_catalog_object_own(struct ck_catalog *c,
				      struct ck_entry_id of, uint8_t role,
				      const struct ck_item *item);
/* Sets whether local/ shows the object added last too. */
void ck_catalog_object_local(struct ck_catalog *c, bool local);
/* Only local/ shows the object added last, where other rows may have its name. */
void ck_catalog_object_unwhole(struct ck_catalog *c);

/* Allocates the path of the entry added last: n parts, which the caller fills.
 * Their texts must be from ck_catalog_text_add(), or parts of the key. NULL if out
 * of memory. */
struct ck_path_part *ck_catalog_path_add(struct ck_catalog *c, uint32_t n);
/* The path of the entry added last is its key as one part; needs no memory. */
void ck_catalog_path_is_key(struct ck_catalog *c);
/* Key of the entry added last, in memory of the catalog. */
struct ck_str ck_catalog_last_key(const struct ck_catalog *c);
/* Sets the map of shown names; NULL: entries are shown by their keys. Must be
 * called before ck_catalog_finish(). Holds a reference. */
void ck_catalog_rename(struct ck_catalog *c, const struct ck_renames *m);
/* The same for the names that are shown; NULL: all. */
void ck_catalog_select(struct ck_catalog *c, const struct ck_selection *s);
/* Records an unknown global; duplicates are ignored. */
CK_MUST_USE int ck_catalog_global_add(struct ck_catalog *c, struct ck_str name);
/* Copies the texts. */
CK_MUST_USE int ck_catalog_loss_add(struct ck_catalog *c,
				    const struct ck_loss *loss);
CK_MUST_USE int ck_catalog_note_add(struct ck_catalog *c, const char *line);
/* The same for a doubt, see ck_catalog_note. */
CK_MUST_USE int ck_catalog_doubt_add(struct ck_catalog *c, const char *line);
/* Sets *number to that of a list of transform descriptors, joined by ','. Equal
 * lists have the same number; the empty list is 0. */
CK_MUST_USE int ck_catalog_transform_add(struct ck_catalog *c,
					 struct ck_str descriptors,
					 uint8_t *number);
/* Finishes the catalog: computes names, stems, order, sizes, modes, and the faults
 * that need no item: boxes outside or overlapping, sizes that overflow, holes,
 * missing files, items outside their file, items of one tensor that share bytes.
 * Returns 0, or: -ENOMEM; -EBADMSG if two entries have the same key, or the map
 * gives them the same name. */
CK_MUST_USE int ck_catalog_finish(struct ck_catalog *c, struct ck_diag *d);

/* --- the next one --------------------------------------------------------------- */

/* Copies a catalog for editing; the result has one reference. Until it is
 * published, the functions below and ck_catalog_file_add() may change it. NULL if
 * out of memory. */
struct ck_catalog *ck_catalog_next(const struct ck_catalog *of);

enum ck_edit_kind {
	CK_EDIT_PLACE,	/* replace the item of a chunk */
	CK_EDIT_ADD,	/* add an entry behind all others */
	CK_EDIT_RENAME, /* change key and path of an entry */
	CK_EDIT_REMOVE, /* remove an entry; its number is not used again */
};

/* An entry to add, or a new key and path of a tensor or object. Caller owns all
 * memory; it is copied. */
struct ck_new_entry {
	struct ck_str key;
	const struct ck_path_part *path; /* nparts; no parts: it has no path */
	uint32_t nparts;
	/* For a tensor that is added: */
	uint8_t dtype; /* ck_dtype_at() */
	uint32_t ndim, nchunks;
	const int64_t *shape; /* ndim */
	/* for each chunk ndim offsets and ndim sizes */
	const int64_t *boxes;
	const struct ck_item *items; /* of each chunk */
};

struct ck_edit {
	enum ck_edit_kind kind;
	bool is_object;	 /* object, not tensor; not used by PLACE */
	uint32_t number; /* chunk (PLACE), tensor or object (RENAME, REMOVE) */
	struct ck_item item;		/* for PLACE, and for an added object */
	const struct ck_new_entry *new; /* for ADD and RENAME */
};

/*
 * Applies edits in order; PLACE edits of one tensor must be adjacent.
 *
 * Keys are compared after all edits, so that two keys may be swapped. Files of new
 * items must be added before. ADD checks items against these files; PLACE does not
 * check them. A tensor with edited items gets a new version, the generation of this
 * catalog; it is no longer an alias and has no aliases, and replicas of the edited
 * chunks are dropped. An added entry gets the next number of its kind. ADD, RENAME
 * and REMOVE make a new listing, in which names and stems of other entries may
 * change.
 *
 * Returns 0, or: -ENOMEM; -EINVAL if shape or boxes of a tensor are wrong, an edit
 * is of a tensor that local/ shows in part, or an item has CK_FORM_ELEMENTS;
 * -EEXIST if two entries have the same key; -ENOENT if there is no such entry;
 * -EOVERFLOW. After an error the caller must put the catalog.
 */
CK_MUST_USE int ck_catalog_edit(struct ck_catalog *next,
				const struct ck_edit *edits, uint32_t n,
				struct ck_diag *d);
/* Replaces the row of a data file, except its path. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_catalog_file_set(struct ck_catalog *next, uint32_t file,
				    const struct ck_data_file *known);
/* Recomputes modes and times of all entries after the access rights of .metadata,
 * the directory or a file changed. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_catalog_access_renew(struct ck_catalog *next);

#endif
