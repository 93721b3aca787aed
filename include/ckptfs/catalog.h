/* SPDX-License-Identifier: MIT */
/*
 * catalog: the content of a checkpoint and its location: entries (tensors and
 * objects), their items, and data files. Formats fill catalogs, views read them. A
 * published catalog is immutable and reference-counted; a commit publishes the next
 * generation. Any thread may read it.
 */
#ifndef CKPTFS_CATALOG_H
#define CKPTFS_CATALOG_H

#include "base/rows.h"
#include "model/catalog/listing.h"
#include "model/catalog/tensor.h"

/* Access rights and time of a file. */
struct ck_attr {
	struct timespec mtime;
	mode_t mode; /* without the group and other bits that the ACL denies */
	uid_t uid;
	gid_t gid;
};

/* A data file, as recorded when the checkpoint was read. */
struct ck_data_file {
	struct ck_str path;	/* relative, as the checkpoint spells it */
	struct ck_owned *owner; /* private: owner of the path */
	uint64_t size;
	struct ck_attr attr;
	mode_t closed;	 /* r bits that directories on the path deny */
	bool unseen;	 /* not recorded yet: size and attr are unknown */
	int err;	 /* 0, or the positive errno of reads */
	const char *why; /* `err` as text, not owned; NULL if err is 0 */
	uint64_t rank;	 /* that saved it; CK_NO_RANK: unknown */
};

#define CK_NO_RANK UINT64_MAX
#define CK_NO_FILE UINT32_MAX

/* Form of an item: how its elements are found. */
enum ck_form {
	/* archive of torch.save: its header has the location */
	CK_FORM_ARCHIVE,
	/* elements from its first byte on, at strides of the catalog or in C order
	 * without gaps */
	CK_FORM_ELEMENTS,
	CK_FORM_BLOB, /* elements only, in C order, as in safetensors */
	/* of an object: a pickle that contains it as one value */
	CK_FORM_VALUE,
	/* archive of a longer one-dimensional tensor, of which the elements are a run:
	 * its header and the catalog have the location */
	CK_FORM_WITHIN,
};

/* Bytes [fpos, fpos + length) of a data file: one stored box, or one object. */
struct ck_item {
	uint64_t fpos;	 /* offset in the file, in bytes */
	uint64_t length; /* bytes, as stored after transforms */
	uint32_t file; /* index in catalog->files; CK_NO_FILE: no file has it */
	uint8_t form;  /* enum ck_form */
	/* number in catalog->transforms, of archives only; 0: untransformed */
	uint8_t transform;
	/* enum ck_change, of CK_FORM_ELEMENTS and of storages */
	uint8_t change;
	uint8_t err; /* 0, or the positive errno that a read returns */
};

/* Another copy of the elements of a chunk, in another file. */
struct ck_replica {
	uint32_t chunk;
	struct ck_item item;
};

/* The strides of a chunk with CK_FORM_ELEMENTS. */
struct ck_strided {
	uint32_t chunk;
	/* index of the first of ndim values in catalog->strides */
	uint64_t strides;
};

/* Location of the elements of a chunk with CK_FORM_WITHIN: a run of another chunk,
 * from element `first` on, in C order. The other chunk has the same items as
 * CK_FORM_ARCHIVE. */
struct ck_within {
	uint32_t chunk;
	uint32_t of; /* chunk of a one-dimensional tensor */
	uint64_t first;
};

/* An entry that is not a tensor: one item. */
struct ck_object {
	struct ck_entry entry;
	struct ck_item item;
	/* For a CK_FORM_VALUE. items: the item above, then those of its storages. */
	struct ck_str pickle;
	const struct ck_item *items;
	uint32_t nitems;
	bool local; /* local/ shows it too, below the rank of its file */
	mode_t mode;
	struct timespec mtime;
};

/* A loss that is not shown as an entry. */
struct ck_loss {
	struct ck_str name, what; /* name of a tensor, or empty; both escaped */
	uint32_t file;		  /* CK_NO_FILE: not of a file */
	int err;
};

/* A remark of the format about the checkpoint. */
struct ck_catalog_note {
	struct ck_str text; /* a line for users, escaped */
	/* the interpretation is uncertain: also logged at the mount */
	bool doubt;
};

/* The content of a checkpoint. Immutable once published. A commit makes the next
 * generation, which shares all unchanged rows. Users hold a reference. Row numbers are
 * equal in all generations: the row of a removed entry stays, without key and without
 * listing entry. */
struct ck_catalog {
	const char *kind;    /* name of the format, such as "dcp" */
	struct ck_attr meta; /* of .metadata: owner, group, mode and mtime */
	mode_t dir_mode;     /* of the checkpoint's directory */

	/* Accessed by the functions below: */
	struct ck_rows files;	/* struct ck_data_file */
	struct ck_rows tensors; /* struct ck_tensor */
	struct ck_rows objects; /* struct ck_object */
	/* struct ck_item. A chunk is one stored box. Its offsets and sizes are elements,
	 * as stored; if they are negative the tensor has a fault. */
	struct ck_rows chunks;
	struct ck_rows replicas; /* struct ck_replica, sorted by chunk */
	/* bytes of all tensors, aliases not counted; UINT64_MAX: that or more */
	uint64_t nbytes;
	uint64_t generation; /* number of edits of entries or items */
	uint32_t unseen;     /* number of files with `unseen` */
	/* Rows of tensors and losses in files beside it: */
	uint32_t beside, nbeside, beside_loss, nbeside_losses;
	bool is_model; /* all others are parameters of one model */
	/* some host was down at the mount: its boxes may be missing */
	bool partly;
	uint32_t own_tensors, own_chunks, own_objects; /* only in local/ */
	uint32_t hidden_tensors, hidden_chunks, hidden_objects; /* not own */
	const struct ck_listing *listing; /* holds a reference */
	/* Equal in all generations, and shared by them: text: all strings except
	 * paths of files and those of the listing */
	struct ck_arena text;
	struct ck_strided *strided; /* by chunk */
	struct ck_within *within;   /* by chunk */
	uint64_t *strides;	    /* strides in bytes */
	/* [0] unused; each is descriptors joined by ',' */
	struct ck_str *transforms;
	struct ck_str *globals; /* unknown globals, as "module.name" */
	struct ck_loss *losses;
	struct ck_catalog_note *notes;
	size_t ntransforms, nglobals, nstrided, nwithin, nstrides, nlosses,
		nnotes;
	/* Private: */
	/* atomic: number of generations that share these */
	uint32_t *sharing;
	/* while the catalog is filled; else NULL */
	struct ck_catalog_caps *caps;
	/* Atomic. Last, since ck_catalog_next() does not copy it. */
	uint32_t refs;
};

/* Acquire and release a reference. NULL is allowed. */
const struct ck_catalog *ck_catalog_hold(const struct ck_catalog *c);
void ck_catalog_put(const struct ck_catalog *c);

static inline void ck_catalog_cleanup(const struct ck_catalog **c)
{
	ck_catalog_put(*c);
}

/* ck_auto_catalog *c = ...: released at the end of the block. */
#define ck_auto_catalog                                                        \
	__attribute__((cleanup(ck_catalog_cleanup))) const struct ck_catalog

/* Row i, which must exist. Valid as long as the catalog. */
static inline const struct ck_data_file *ck_catalog_file(
	const struct ck_catalog *c, uint32_t i)
{
	return ck_rows_at(&c->files, i);
}

static inline const struct ck_tensor *ck_catalog_tensor(
	const struct ck_catalog *c, uint32_t i)
{
	return ck_rows_at(&c->tensors, i);
}

static inline const struct ck_object *ck_catalog_object(
	const struct ck_catalog *c, uint32_t i)
{
	return ck_rows_at(&c->objects, i);
}

/* log2 of the rows in a block of items, see rows.h */
enum { CK_ITEM_BITS = 6 };

static inline const struct ck_item *ck_catalog_item(const struct ck_catalog *c,
						    uint32_t chunk)
{
	return ck_rows_at_of(&c->chunks, chunk, CK_ITEM_BITS,
			     sizeof(struct ck_item));
}

static inline const struct ck_replica *ck_catalog_replica(
	const struct ck_catalog *c, uint32_t i)
{
	return ck_rows_at(&c->replicas, i);
}

/* True if the tensor has a row, and ck_entry_is_there(). */
static inline bool ck_tensor_is_there(const struct ck_catalog *c, uint64_t i)
{
	return i < c->tensors.n &&
	       ck_entry_is_there(&ck_catalog_tensor(c, (uint32_t)i)->entry);
}

/* It is also shown as a whole. */
static inline bool ck_tensor_is_whole(const struct ck_catalog *c, uint64_t i)
{
	return ck_tensor_is_there(c, i) &&
	       ck_catalog_tensor(c, (uint32_t)i)->entry.role == CK_ROLE_WHOLE;
}

static inline bool ck_object_is_there(const struct ck_catalog *c, uint64_t i)
{
	return i < c->objects.n &&
	       ck_entry_is_there(&ck_catalog_object(c, (uint32_t)i)->entry);
}

/* Names of an entry, by its index in the listing. */
struct ck_names ck_entry_names(const struct ck_catalog *c, size_t entry);
/* Index in the listing of the entry with this stem; -1 if not found. */
int64_t ck_catalog_find(const struct ck_catalog *c, struct ck_str stem);

/* Names of an entry, which must not have been removed. */
static inline struct ck_names ck_tensor_names(const struct ck_catalog *c,
					      uint32_t tensor)
{
	return ck_entry_names(c, c->listing->of_tensor[tensor]);
}

static inline struct ck_names ck_object_names(const struct ck_catalog *c,
					      uint32_t object)
{
	return ck_entry_names(c, c->listing->of_object[object]);
}

static inline struct ck_names ck_catalog_names(const struct ck_catalog *c,
					       struct ck_entry_id e)
{
	return e.is_object ? ck_object_names(c, e.i) : ck_tensor_names(c, e.i);
}

/* The row of an entry. */
const struct ck_entry *ck_catalog_entry(const struct ck_catalog *c,
					struct ck_entry_id e);

/* Finds the chunks of a tensor without fault that share elements with a window: ndim
 * offsets and ndim sizes, inside the tensor. *chunks: their indexes in the tensor, sorted
 * by offsets; caller frees it with free(). *covered: they contain the whole window.
 * Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_tensor_window(const struct ck_tensor *t,
				 const uint64_t *window, uint32_t **chunks,
				 uint32_t *n, bool *covered);

/* Strides of a chunk, ndim, in bytes; NULL if its elements are in C order without gaps.
 * Archives have their own strides. */
const uint64_t *ck_catalog_strides(const struct ck_catalog *c, uint32_t chunk);
/* Location of the elements of a chunk in its archive; NULL if they are the whole tensor
 * of the archive. */
const struct ck_within *ck_catalog_within(const struct ck_catalog *c,
					  uint32_t chunk);
/* Index of the first replica of the chunks [chunk, chunk + n); *count: number of their
 * replicas. */
uint32_t ck_catalog_replicas(const struct ck_catalog *c, uint32_t chunk,
			     uint32_t n, uint32_t *count);

/* True if a box of these sizes has no elements. */
CK_MUST_USE bool ck_dims_have_zero(const int64_t *dims, uint32_t ndim);
/* Number of boxes that begin at or before the element with index `last`. boxes: as
 * ck_layout.boxes; `order`: their indexes, sorted by offsets. */
uint32_t ck_boxes_before(const int64_t *boxes, uint32_t ndim,
			 const uint32_t *order, uint32_t n,
			 const int64_t *last);

/* Index of the tensor that a chunk of the catalog belongs to. */
uint32_t ck_catalog_tensor_of(const struct ck_catalog *c, uint32_t chunk);

/* Appends sizes as attributes and reports show them: "[4,3]". */
void ck_dims_print(struct ck_buf *out, const int64_t *dims, uint32_t ndim);
/* Appends the catalog as text, one line for each row. core/model/catalog/catalog_dump.c has the
 * grammar. */
void ck_catalog_dump(const struct ck_catalog *c, struct ck_buf *out);

#endif
