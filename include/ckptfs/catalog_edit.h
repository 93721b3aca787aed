/* SPDX-License-Identifier: MIT */
/*
 * catalog_edit: how a catalog comes to be. A format fills the first one; each
 * later one is made of the one before, with which it shares all that stays the
 * same. Until it is finished, or given to others, a catalog belongs to one
 * thread. A part of model.
 */
#ifndef CKPTFS_CATALOG_EDIT_H
#define CKPTFS_CATALOG_EDIT_H

#include "ckptfs/catalog.h"

/* --- the first one: add, then finish ------------------------------------------ */

/* Each returns 0 or -ENOMEM (-EOVERFLOW past the index types). Memory grows with
 * what was added, never with a declared number. `kind` is not copied; meta and
 * dir_mode are set by the caller before finish. ck_catalog_put() ends it, also
 * before that. */
struct ck_catalog *ck_catalog_make(const char *kind);
CK_MUST_USE int ck_catalog_text_add(struct ck_catalog *c, struct ck_str s,
				    struct ck_str *out);
/* Its path is copied; `owner` does not matter. */
CK_MUST_USE int ck_catalog_file_add(struct ck_catalog *c,
				    const struct ck_data_file *file);
/* Starts a tensor; its chunks follow by ck_catalog_chunk_add(). Sets key,
 * dtype, shape; a dimension below 0 becomes its fault. */
CK_MUST_USE int ck_catalog_tensor_add(struct ck_catalog *c, struct ck_str key,
				      struct ck_str dtype, uint32_t ndim,
				      const int64_t *shape);
/* So many chunks of the tensor added last follow, which the caller has counted: their
 * boxes get room at once, which is half of what they take otherwise. */
CK_MUST_USE int ck_catalog_chunks_expect(struct ck_catalog *c, uint32_t n);
/* The tensor added last cannot be served as a whole: err (EIO, EBADMSG), why. */
CK_MUST_USE int ck_catalog_tensor_fault(struct ck_catalog *c, int err,
					const char *why);
/* The shape of the tensor added last is what its boxes need: nothing else says it. */
void ck_catalog_tensor_guessed(struct ck_catalog *c);
/* What the tensor added last is (enum ck_tensor_kind), and how a job had it on its
 * ranks; copied. -EINVAL: a mesh without dimensions. */
void ck_catalog_tensor_kind(struct ck_catalog *c, uint8_t kind);
CK_MUST_USE int ck_catalog_tensor_sharding(struct ck_catalog *c,
					   const struct ck_sharding *sharding);
/* The tensor added last, with all its chunks, has the bytes of one that was added
 * before. -EINVAL: that one has other chunks, another dtype or shape, or this is an
 * alias already. */
CK_MUST_USE int ck_catalog_tensor_alias(struct ck_catalog *c, uint32_t of);
/* Adds a box to the tensor added last. off, len: ndim of that tensor. */
CK_MUST_USE int ck_catalog_chunk_add(struct ck_catalog *c, const int64_t *off,
				     const int64_t *len,
				     const struct ck_item *chunk);
/* The chunk added last, a CK_FORM_ELEMENTS, has its elements at these strides:
 * ndim, bytes. */
CK_MUST_USE int ck_catalog_strides_add(struct ck_catalog *c,
				       const uint64_t *strides);
/* The chunk added last, a CK_FORM_WITHIN, is elements of another chunk, from `first` on. */
CK_MUST_USE int ck_catalog_within_add(struct ck_catalog *c, uint32_t of,
				      uint64_t first);
/* The chunk added last has its elements in another file, too. */
CK_MUST_USE int ck_catalog_replica_add(struct ck_catalog *c,
				       const struct ck_item *item);
CK_MUST_USE int ck_catalog_object_add(struct ck_catalog *c, struct ck_str key,
				      const struct ck_item *item);
/* The object added last, a CK_FORM_VALUE, is this pickle; copied, and so are the items
 * of its n storages. -EINVAL: it is of another form, or a storage ends nowhere. */
CK_MUST_USE int ck_catalog_object_value(struct ck_catalog *c,
					struct ck_str pickle,
					const struct ck_item *storages,
					uint32_t n);

/* What single ranks have, which only local/ shows. */

/* Starts a tensor as ck_catalog_tensor_add() does, of a role that is not WHOLE, and with
 * the name of `of`. Its boxes may leave holes. */
CK_MUST_USE int ck_catalog_own_add(struct ck_catalog *c, struct ck_entry_id of,
				   uint8_t role, struct ck_str dtype,
				   uint32_t ndim, const int64_t *shape);
/* The tensor added last, which has no chunks yet, is such a one itself (CK_ROLE_OWN), and
 * others may have its name. why: there is no whole one; NULL: nothing is wrong with that. */
CK_MUST_USE int ck_catalog_tensor_unwhole(struct ck_catalog *c,
					  const char *why);
/* local/ has no chunk of the tensor added last. */
void ck_catalog_tensor_apart(struct ck_catalog *c);
/* The tensor added last has all its chunks and replicas: if it has any of these, local/
 * shows what each file has, and nothing in place of it. more: the caller adds such, too. */
CK_MUST_USE int ck_catalog_copies_add(struct ck_catalog *c, bool more);
/* Adds an object with the name of `of`. */
CK_MUST_USE int ck_catalog_object_own(struct ck_catalog *c,
				      struct ck_entry_id of, uint8_t role,
				      const struct ck_item *item);
/* Whether the object added last is in local/, too. */
void ck_catalog_object_local(struct ck_catalog *c, bool local);
/* The object added last is in local/ alone, where others may have its name. */
void ck_catalog_object_unwhole(struct ck_catalog *c);

/* The path of the entry added last: n parts, which the caller fills; their texts
 * are those of ck_catalog_text_add(), or pieces of the key. NULL: out of memory. */
struct ck_path_part *ck_catalog_path_add(struct ck_catalog *c, uint32_t n);
/* The path of the entry added last is its key, as one text: it takes no memory. */
void ck_catalog_path_is_key(struct ck_catalog *c);
/* The key of the entry added last, as the catalog has it. */
struct ck_str ck_catalog_last_key(const struct ck_catalog *c);
/* Entries are shown as this map names them; NULL: as their keys do. Call it before finish. */
void ck_catalog_rename(struct ck_catalog *c, const struct ck_renames *m);
/* An unknown global; the same one may be added again. */
CK_MUST_USE int ck_catalog_global_add(struct ck_catalog *c, struct ck_str name);
/* The texts are copied. */
CK_MUST_USE int ck_catalog_loss_add(struct ck_catalog *c,
				    const struct ck_loss *loss);
CK_MUST_USE int ck_catalog_note_add(struct ck_catalog *c, const char *line);
/* The same of a doubt. */
CK_MUST_USE int ck_catalog_doubt_add(struct ck_catalog *c, const char *line);
/* Descriptors joined by ','; the same ones give the same number, none 0. */
CK_MUST_USE int ck_catalog_transform_add(struct ck_catalog *c,
					 struct ck_str descriptors,
					 uint8_t *number);
/* Names and stems, order, sizes, modes, and the faults that need no item:
 * boxes outside, overlapping, sizes that overflow, holes, missing files,
 * items outside their file, items of one tensor that share bytes.
 * -EBADMSG: two entries have one key, or a map gives them one name. */
CK_MUST_USE int ck_catalog_finish(struct ck_catalog *c, struct ck_diag *d);

/* --- the next one --------------------------------------------------------------- */

/* A catalog that is what `of` is, with one reference; it may be changed by what
 * stands below, and by ck_catalog_file_add(), until others have it. NULL: out of
 * memory. */
struct ck_catalog *ck_catalog_next(const struct ck_catalog *of);

enum ck_edit_kind {
	CK_EDIT_PLACE,	/* a chunk's item is another one */
	CK_EDIT_ADD,	/* an entry, behind all others */
	CK_EDIT_RENAME, /* it has another key and path */
	CK_EDIT_REMOVE, /* it is gone, and its numbers are not used again */
};

/* An entry that is added, or a tensor's or object's new key and path. Nothing of
 * it is kept. */
struct ck_new_entry {
	struct ck_str key;
	const struct ck_path_part *path; /* nparts; none: it has no path */
	uint32_t nparts;
	/* Of a tensor that is added: */
	uint8_t dtype; /* ck_dtype_at() */
	uint32_t ndim, nchunks;
	const int64_t *shape;	     /* ndim */
	const int64_t *boxes;	     /* for each chunk 2 * ndim */
	const struct ck_item *items; /* of each chunk */
};

struct ck_edit {
	enum ck_edit_kind kind;
	bool is_object;	 /* not of PLACE */
	uint32_t number; /* of the chunk; of the tensor or object. Not of ADD */
	struct ck_item item; /* of PLACE; of an object that is added */
	const struct ck_new_entry *new; /* of ADD and RENAME */
};

/* Makes the edits, one after the other; places of one tensor are next to each other.
 * Keys are compared when all are made, so that two may be swapped. The files of new
 * items were added before; items are judged by these when an entry is added, and are
 * what they say that they are when a chunk has another place. A tensor with new places
 * has a new version, the generation that this makes; it is no alias any more, nor has
 * it any; replicas of its chunks are gone. An entry that is added has the next number
 * of its kind. Adding, renaming and removing makes a new listing, of all entries, in
 * which the names and stems of others may be others, too. After an error the catalog
 * can only be put back. -ENOMEM; -EINVAL: a tensor whose shape or boxes are wrong, a
 * place with elements at strides; -EEXIST: a key that another entry has; -ENOENT: no
 * such entry; -EOVERFLOW. */
CK_MUST_USE int ck_catalog_edit(struct ck_catalog *next,
				const struct ck_edit *edits, uint32_t n,
				struct ck_diag *d);
/* What is known of a data file, but for its path. -ENOMEM. */
CK_MUST_USE int ck_catalog_file_set(struct ck_catalog *next, uint32_t file,
				    const struct ck_data_file *known);
/* Who may read .metadata, the directory or a file has changed: finds modes and
 * times of all entries again. -ENOMEM. */
CK_MUST_USE int ck_catalog_access_renew(struct ck_catalog *next);

#endif
