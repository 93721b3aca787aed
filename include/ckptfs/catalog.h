/* SPDX-License-Identifier: MIT */
/*
 * catalog: what is in a checkpoint and where: the hub. Every format fills one,
 * every view reads one.
 */
#ifndef CKPTFS_CATALOG_H
#define CKPTFS_CATALOG_H

#include "ckptfs/listing.h"
#include "ckptfs/rows.h"
#include "ckptfs/tensor.h"

/* What decides who may read something, and its time. */
struct ck_attr {
	struct timespec mtime;
	mode_t mode; /* less what its ACL takes from group and others */
	uid_t uid;
	gid_t gid;
};

/* A data file, as seen when the checkpoint was read. */
struct ck_data_file {
	struct ck_str path;	/* relative, as the checkpoint spells it */
	struct ck_owned *owner; /* private: has the path */
	uint64_t size;
	struct ck_attr attr;
	mode_t closed; /* r bits that directories on the way to it take */
	bool unseen;   /* nobody could look yet: size and attr are not known */
	int err;       /* 0 or positive errno: cannot be used */
	const char *why; /* err in words, not owned; NULL without */
	uint64_t rank;	 /* of the process that saved it; CK_NO_RANK: nothing
			* tells */
};

#define CK_NO_RANK UINT64_MAX
#define CK_NO_FILE UINT32_MAX

/* What an item is, and with it where its elements are. */
enum ck_form {
	CK_FORM_ARCHIVE,  /* of torch.save: a look at its header tells */
	CK_FORM_ELEMENTS, /* from its first byte on, at strides that the catalog
			   * knows, or else in C order without gaps */
	CK_FORM_BLOB,	/* as in safetensors: they are all of it, in C order */
	CK_FORM_VALUE,	/* of an object: a pickle in which it is one value */
	CK_FORM_WITHIN, /* an archive of a longer tensor without shape, of which
			 * they are a run: a look, and the catalog, tell */
};

/* Bytes [fpos, fpos + length) of a data file: one stored box, or another entry. */
struct ck_item {
	uint64_t fpos;	 /* bytes */
	uint64_t length; /* bytes, as transformed */
	uint32_t file; /* number in catalog->files; CK_NO_FILE: nobody has it */
	uint8_t form;  /* enum ck_form */
	uint8_t transform; /* number in catalog->transforms; 0: none. Of archives
			    * only */
	uint8_t change; /* enum ck_change: of CK_FORM_ELEMENTS, and of storages */
	uint8_t err;	/* 0, or the positive errno a read of it answers */
};

/* The elements of a chunk once more, in another file. */
struct ck_replica {
	uint32_t chunk;
	struct ck_item item;
};

/* The strides of a chunk's CK_FORM_ELEMENTS. */
struct ck_strided {
	uint32_t chunk;
	uint64_t strides; /* first of ndim values in catalog->strides */
};

/* The elements of a chunk whose items are CK_FORM_WITHIN: those from `first` on, in C order and
 * one behind the other, of another chunk, which has the same items as CK_FORM_ARCHIVE. */
struct ck_within {
	uint32_t chunk;
	uint32_t of; /* chunk of a tensor of one dimension */
	uint64_t first;
};

/* An entry that is no tensor: one item. */
struct ck_object {
	struct ck_entry entry;
	struct ck_item item;
	/* Of a CK_FORM_VALUE; items: the one above, then those of the storages. */
	struct ck_str pickle;
	const struct ck_item *items;
	uint32_t nitems;
	bool local; /* local/ has it, too, below the rank of its file */
	mode_t mode;
	struct timespec mtime;
};

/* What is lost, of nothing that is shown. */
struct ck_loss {
	struct ck_str name, what; /* of a tensor, or empty; escaped */
	uint32_t file;		  /* CK_NO_FILE: of none */
	int err;
};

/* What the format has to say of the checkpoint. */
struct ck_catalog_note {
	struct ck_str text; /* a line for a person, escaped */
	bool doubt; /* what is shown may not be what is meant: who mounts it is told */
};

/* What is in a checkpoint, at one moment: nobody changes it any more. A commit
 * makes another one, the next generation, which shares with it what stays the
 * same; whoever uses this one holds it. Numbers of rows are the same in all: the
 * row of an entry that was removed stays, is in no listing, and has no key. */
struct ck_catalog {
	const char *kind;    /* "dcp" */
	struct ck_attr meta; /* of .metadata: owner, group, mode, mtime */
	mode_t dir_mode;     /* of the checkpoint's directory */

	/* Read by the functions below: */
	struct ck_rows files;	 /* struct ck_data_file */
	struct ck_rows tensors;	 /* struct ck_tensor */
	struct ck_rows objects;	 /* struct ck_object */
	struct ck_rows chunks;	 /* struct ck_item. A chunk is one stored box:
				  * its offsets and sizes are elements, as
				  * stored (so possibly negative: then the tensor
				  * has a fault) */
	struct ck_rows replicas; /* struct ck_replica, by chunk; those of a
				  * chunk in order */
	uint64_t nbytes; /* of all tensors, each once; UINT64_MAX: or more */
	uint64_t generation; /* how often entries or items were edited */
	uint32_t unseen;     /* of the files */
	bool is_model; /* all that is in it are the parameters of one model */
	bool partly;   /* hosts that are away may have boxes that it lacks */
	/* Of the rows those of what is in local/ only: */
	uint32_t own_tensors, own_chunks, own_objects;
	const struct ck_listing *listing; /* held */

	/* The same in all generations, and shared by them: */
	struct ck_arena text; /* all strings but paths of files and what is in
			       * the listing */
	struct ck_strided *strided; /* by chunk */
	struct ck_within *within;   /* by chunk */
	uint64_t *strides;	    /* bytes */
	struct ck_str *transforms;  /* [0] unused; descriptors joined by ',' */
	struct ck_str *globals;	    /* unknown globals met, "module.name" */
	struct ck_loss *losses;
	struct ck_catalog_note *notes;
	size_t ntransforms, nglobals, nstrided, nwithin, nstrides, nlosses,
		nnotes;
	/* private */
	uint32_t *sharing;	      /* atomic: generations that have these */
	struct ck_catalog_caps *caps; /* while it is filled, else NULL */
	uint32_t refs; /* atomic; last, since the next one does not copy it */
};

/* Counts those who use a catalog. Any thread. NULL is allowed. */
const struct ck_catalog *ck_catalog_hold(const struct ck_catalog *c);
void ck_catalog_put(const struct ck_catalog *c);

static inline void ck_catalog_cleanup(const struct ck_catalog **c)
{
	ck_catalog_put(*c);
}

/* ck_auto_catalog *c = ...: put back at the end of the block. */
#define ck_auto_catalog                                                        \
	__attribute__((cleanup(ck_catalog_cleanup))) const struct ck_catalog

/* Row i, below the number that there are. Good as long as the catalog is. */
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

enum { CK_ITEM_BITS = 6 }; /* of the blocks of items, see rows.h */

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

/* Has the tensor a row, and was not removed? */
static inline bool ck_tensor_is_there(const struct ck_catalog *c, uint64_t i)
{
	return i < c->tensors.n &&
	       ck_catalog_tensor(c, (uint32_t)i)->entry.key.p;
}

/* And is shown as a whole? */
static inline bool ck_tensor_is_whole(const struct ck_catalog *c, uint64_t i)
{
	return ck_tensor_is_there(c, i) &&
	       ck_catalog_tensor(c, (uint32_t)i)->entry.role == CK_ROLE_WHOLE;
}

static inline bool ck_object_is_there(const struct ck_catalog *c, uint64_t i)
{
	return i < c->objects.n &&
	       ck_catalog_object(c, (uint32_t)i)->entry.key.p;
}

/* Of an entry of the listing, by its index there. */
struct ck_names ck_entry_names(const struct ck_catalog *c, size_t entry);
/* The entry whose stem this is, as index in the listing; -1: there is none. */
int64_t ck_catalog_find(const struct ck_catalog *c, struct ck_str stem);

/* Of entries that are there. */
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

/* The chunks of a tensor without fault that share elements with a window of it:
 * ndim offsets, ndim sizes, inside the tensor. *chunks: their numbers in the
 * tensor, sorted by offsets; free() it. covered: they have all of the window.
 * -ENOMEM. */
CK_MUST_USE int ck_tensor_window(const struct ck_tensor *t,
				 const uint64_t *window, uint32_t **chunks,
				 uint32_t *n, bool *covered);

/* The strides of a chunk, ndim; NULL: elements are in C order without gaps. Not
 * of archives, which say it themselves. */
const uint64_t *ck_catalog_strides(const struct ck_catalog *c, uint32_t chunk);
/* Where the elements of a chunk are in its archive; NULL: they are all that it has. */
const struct ck_within *ck_catalog_within(const struct ck_catalog *c,
					  uint32_t chunk);
/* The first of the replicas of the chunks [chunk, chunk + n), *count of them. */
uint32_t ck_catalog_replicas(const struct ck_catalog *c, uint32_t chunk,
			     uint32_t n, uint32_t *count);

/* Has a box of these sizes no elements? */
CK_MUST_USE bool ck_dims_have_zero(const int64_t *dims, uint32_t ndim);
/* Boxes are sorted by their offsets, in `order`: how many of them do not begin
 * behind an element, whose index is `last`. boxes: as ck_layout.boxes. */
uint32_t ck_boxes_before(const int64_t *boxes, uint32_t ndim,
			 const uint32_t *order, uint32_t n,
			 const int64_t *last);

/* Index of the tensor that a chunk of the catalog belongs to. */
uint32_t ck_catalog_tensor_of(const struct ck_catalog *c, uint32_t chunk);

/* "[4,3]": the spelling of attributes and reports. */
void ck_dims_print(struct ck_buf *out, const int64_t *dims, uint32_t ndim);
/* The catalog as text, one line for each thing; grammar in
 * core/model/catalog_dump.c. */
void ck_catalog_dump(const struct ck_catalog *c, struct ck_buf *out);

#endif
