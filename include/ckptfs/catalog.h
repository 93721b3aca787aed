/* SPDX-License-Identifier: MIT */
/*
 * catalog: what is in a checkpoint and where: the hub. Every format fills one,
 * every view reads one.
 */
#ifndef CKPTFS_CATALOG_H
#define CKPTFS_CATALOG_H

#include "ckptfs/listing.h"
#include "ckptfs/rows.h"
#include "ckptfs/sharding.h"
#include <time.h>

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
	mode_t closed; /* r bits that directories on the way to it take, for the
			* owner and group of .metadata */
	bool unseen;   /* nobody could look yet: size and attr are not known */
	int err;       /* 0 or positive errno: cannot be used */
	const char *why; /* err in words, not owned; NULL without */
	uint64_t rank;	 /* of the process that saved it; CK_NO_RANK: nothing
			* tells */
};

#define CK_NO_RANK   UINT64_MAX
#define CK_NO_FILE   UINT32_MAX
#define CK_NO_TENSOR UINT32_MAX

/* What an item is, and with it where its elements are. */
enum ck_form {
	CK_FORM_ARCHIVE,  /* of torch.save: a look at its header tells */
	CK_FORM_ELEMENTS, /* from its first byte on, at strides that the catalog
			   * knows, or else in C order without gaps */
	CK_FORM_BLOB, /* as in safetensors: they are all of it, in C order */
};

/* Bytes of a data file that hold one stored box, or another entry: [fpos,
 * fpos + length). */
struct ck_item {
	uint64_t fpos;	 /* bytes */
	uint64_t length; /* bytes, as transformed */
	uint32_t file; /* number in catalog->files; CK_NO_FILE: nobody has it */
	uint8_t form;  /* enum ck_form */
	uint8_t transform; /* number in catalog->transforms; 0: none. Of archives
			    * only */
	uint16_t err;	   /* 0, or the positive errno a read of it answers */
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

/* What tensors and other entries have in common. What it is shown as is in the
 * listing. */
struct ck_entry {
	struct ck_str key;		 /* the checkpoint's, any bytes */
	const struct ck_path_part *path; /* nparts; none: it has no path */
	uint32_t nparts;
	uint32_t number; /* of the row */
	/* private: has key and path of an entry that was added or renamed */
	struct ck_owned *owner;
};

struct ck_tensor {
	struct ck_entry entry;
	struct ck_str dtype_name; /* as stored, without "torch." */
	struct ck_str fault;	  /* why err is set */
	const int64_t *shape;	  /* ndim */
	const int64_t *boxes;	  /* for each chunk 2 * ndim: offsets, sizes */
	const uint32_t *order;	  /* its chunks, from 0, sorted by offsets */
	uint32_t chunk;		  /* first chunk */
	uint32_t nchunks;
	uint32_t ndim;
	uint32_t naliases; /* tensors that are aliases of it */
	uint32_t alias_of; /* the first tensor with the same bytes, dtype and
			    * shape; CK_NO_TENSOR: it is that one itself */
	uint8_t dtype;	   /* ck_dtype_at() */
	uint8_t kind;	   /* enum ck_tensor_kind */
	uint8_t holes;	   /* 1: some elements are in no box */
	uint16_t err;	   /* 0, or why it cannot be served as a whole: EIO at
			  * open (its boxes lie), EBADMSG at read (its dtype) */
	mode_t mode; /* r bits that its files, .metadata and directory share */
	const struct ck_sharding *sharding; /* NULL: nothing tells */
	uint64_t nbytes; /* of all elements; 0 if they cannot be counted */
	struct timespec mtime; /* newest of its files */
	uint64_t version; /* the generation in which its items were changed */
	/* private: has what the row of a tensor that was added points to, but for
	 * key and path */
	struct ck_owned *owner;
};

/* An entry that is no tensor: one item. */
struct ck_object {
	struct ck_entry entry;
	struct ck_item item;
	mode_t mode;
	struct timespec mtime;
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

	const struct ck_listing *listing; /* held */

	/* The same in all generations, and shared by them: */
	struct ck_arena text; /* all strings but paths of files and what is in
			       * the listing */
	struct ck_strided *strided; /* by chunk */
	uint64_t *strides;	    /* bytes */
	struct ck_str *transforms;  /* [0] unused; descriptors joined by ',' */
	struct ck_str *globals;	    /* unknown globals met, "module.name" */
	size_t ntransforms, nglobals, nstrided, nstrides;
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

static inline bool ck_object_is_there(const struct ck_catalog *c, uint64_t i)
{
	return i < c->objects.n &&
	       ck_catalog_object(c, (uint32_t)i)->entry.key.p;
}

/* Of what is in the listing: a row that was removed has none. */
static inline const struct ck_names *ck_tensor_names(const struct ck_catalog *c,
						     uint32_t tensor)
{
	return &c->listing->names[c->listing->of_tensor[tensor]];
}

static inline const struct ck_names *ck_object_names(const struct ck_catalog *c,
						     uint32_t object)
{
	return &c->listing->names[c->listing->of_object[object]];
}

static inline const struct ck_names *ck_catalog_names(
	const struct ck_catalog *c, struct ck_entry_id e)
{
	return e.is_object ? ck_object_names(c, e.i) : ck_tensor_names(c, e.i);
}

/* What a layout of the tensor points to stays as long as this is held. Put it
 * back. NULL: it stays as long as any catalog of the checkpoint. */
struct ck_owned *ck_tensor_hold(const struct ck_tensor *t);
void ck_owned_put(struct ck_owned *o); /* NULL is allowed */

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

/* offsets of chunk i of t; its sizes are ndim further on. */
static inline const int64_t *ck_tensor_box(const struct ck_tensor *t,
					   uint32_t i)
{
	return t->boxes + (uint64_t)i * 2 * t->ndim;
}

/* "[4,3]": the spelling of attributes and reports. */
void ck_dims_print(struct ck_buf *out, const int64_t *dims, uint32_t ndim);
/* The catalog as text, one line for each thing; grammar in
 * core/model/catalog_dump.c. */
void ck_catalog_dump(const struct ck_catalog *c, struct ck_buf *out);

#endif
