/* SPDX-License-Identifier: MIT */
/*
 * model: what a checkpoint is. Element types, the names shown for keys and the
 * catalog (the hub: every format fills one, every view reads one). Pure
 * values: no files, no threads.
 */
#ifndef CKPTFS_MODEL_H
#define CKPTFS_MODEL_H

#include "ckptfs/base.h"
#include <time.h>

/* More dimensions than any tensor that numpy can load. A tensor with more is
 * listed and answers EBADMSG. */
#define CK_MAX_DIMS 64

/* --- dtype -------------------------------------------------------------- */

/* Source of every column: torch's own tables (torch/storage.py,
 * torch/_utils.py) and numpy's format for the header. */
struct ck_dtype {
	const char *name;    /* torch's name without "torch." */
	const char *npy;     /* `descr` of an npy header; NULL: none */
	const char *storage; /* storage class that implies it, NULL: none */
	uint8_t size;	     /* bytes per element; 0: not whole bytes */
	uint8_t unit;	     /* bytes swapped together, one number: half an
			      * element for complex, else size */
	bool is_float;	     /* sign is the top bit of each unit */
	bool is_complex;     /* two units: real, imaginary */
};

/* Row 0 is the unknown dtype: name "unknown", size 0. */
#define CK_DTYPE_UNKNOWN 0
const struct ck_dtype *ck_dtype_at(uint8_t id);
/* 0 (unknown) when there is no such row. */
uint8_t ck_dtype_by_name(struct ck_str name);
uint8_t ck_dtype_by_storage(struct ck_str storage_class);

/* --- names: keys, shown names, stems (the contract's section 2) ---------- */

/* Appends the key without the components that wrappers insert
 * (_fsdp_wrapped_module, _checkpoint_wrapped_module, _orig_mod, _fpw_module;
 * each only when a dot follows). */
void ck_name_unwrap(struct ck_str key, struct ck_buf *out);
/* Appends the file name, without suffix, for a shown name. `nth` is 1, or
 * the n of the `~n` that tells equal long stems apart. */
void ck_name_stem(struct ck_str name, unsigned nth, struct ck_buf *out);
/* Appends the name a stem stands for. -EINVAL for what is no stem, -ENOENT
 * for a shortened one (`%~`): only the catalog knows its name. */
CK_MUST_USE int ck_name_decode(struct ck_str stem, struct ck_buf *out);

/* The rank that a data file of torch.distributed.checkpoint is named after:
 * `__<rank>_...`, a decimal without leading zeros. False: it has none. */
CK_MUST_USE bool ck_name_rank(struct ck_str path, uint64_t *rank);

/* --- catalog -------------------------------------------------------------- */

/* A piece of catalog->text. */
struct ck_text {
	uint32_t pos;
	uint32_t len;
};

/* What decides who may read something, and its time. */
struct ck_attr {
	struct timespec mtime;
	mode_t mode; /* less what its ACL takes from group and others */
	uid_t uid;
	gid_t gid;
};

/* A data file, as seen when the checkpoint was read. */
struct ck_data_file {
	struct ck_text path; /* relative, as the checkpoint spells it */
	uint64_t size;
	struct ck_attr attr;
	mode_t closed; /* r bits that directories on the way to it take, for the
			* owner and group of .metadata */
	bool unseen;   /* nobody could look yet: size and attr are not known */
	int err;       /* 0 or positive errno: cannot be used */
	const char *why; /* err in words, not owned; NULL without */
};

#define CK_NO_FILE UINT32_MAX

/* One stored box. Its offsets and sizes, in elements, are 2 * ndim values of
 * catalog->boxes, as stored (so possibly negative: then the tensor has a
 * fault). Its bytes are one item: [fpos, fpos + length) of a data file. */
struct ck_chunk {
	uint64_t fpos;	 /* bytes */
	uint64_t length; /* bytes, as transformed */
	uint32_t file; /* number in catalog->files; CK_NO_FILE: nobody has it */
	uint16_t transform; /* number in catalog->transforms; 0: none */
	uint16_t err;	    /* 0, or the positive errno a read of it answers */
};

/* Names common to tensors and other entries. */
struct ck_names {
	struct ck_text key;  /* the checkpoint's, any bytes */
	struct ck_text name; /* shown name (FQN) */
	struct ck_text stem; /* file name without suffix */
};

struct ck_tensor {
	struct ck_names names;
	struct ck_text dtype_name; /* as stored, without "torch." */
	struct ck_text fault;	   /* why err is set */
	uint64_t shape;		   /* first of ndim values in catalog->shapes */
	uint64_t boxes; /* first value in catalog->boxes: chunk i's are at
			  * boxes + i * 2 * ndim */
	uint32_t chunk; /* first chunk */
	uint32_t nchunks;
	uint32_t ndim;
	uint8_t dtype; /* ck_dtype_at() */
	uint8_t holes; /* 1: some elements are in no box */
	uint16_t err;  /* 0, or why it cannot be served as a whole: EIO at
			  * open (its boxes lie), EBADMSG at read (its dtype) */
	mode_t mode; /* r bits that its files, .metadata and directory share */
	uint64_t nbytes; /* of all elements; 0 if they cannot be counted */
	struct timespec mtime; /* newest of its files */
	uint64_t version;      /* grows when its items change */
};

/* An entry that is no tensor: one item. */
struct ck_object {
	struct ck_names names;
	struct ck_chunk item;
	mode_t mode;
	struct timespec mtime;
};

/* Entries in the checkpoint's own order. */
struct ck_entry_id {
	uint32_t i; /* index in tensors or objects */
	bool is_object;
};

/* A step to an entry in the nested state dict: a ck_text; for a list, its
 * position in decimal. */
struct ck_path_part {
	uint32_t pos, len : 31, is_index : 1;
};

/* Immutable after ck_catalog_finish(), but for what commits change: see
 * ck_catalog_reserve(). */
struct ck_catalog {
	const char *kind;    /* "dcp" */
	struct ck_attr meta; /* of .metadata: owner, group, mode, mtime */
	mode_t dir_mode;     /* of the checkpoint's directory */

	char *text; /* all strings */
	struct ck_data_file *files;
	struct ck_tensor *tensors;
	struct ck_object *objects;
	struct ck_entry_id *entries;
	uint32_t *paths; /* entry i's parts: [paths[i], paths[i + 1]) */
	struct ck_path_part *parts;
	struct ck_chunk *chunks;
	int64_t *shapes;
	int64_t *boxes;
	uint32_t *order;	    /* for each tensor, its chunks' indices
				    * (0-based in the tensor) sorted by offsets */
	struct ck_text *transforms; /* [0] unused; descriptors joined by ',' */
	struct ck_text *globals;    /* unknown globals met, "module.name" */
	uint32_t *by_stem;	    /* hash table: entry index + 1, 0 empty */
	uint32_t *prefixed; /* entries that keep the prefixes of wrappers, since
			     * without them names would be equal; any order */
	size_t text_len, nfiles, ntensors, nobjects, nentries, nparts, nchunks,
		nshapes, nboxes, ntransforms, nglobals, stem_slots, nprefixed;
	uint64_t nbytes; /* of all tensors, each once */
	/* private */
	uint64_t hash_seed;	      /* of by_stem: random */
	struct ck_catalog_caps *caps; /* while being built */
};

/* Building: add, then finish. Each returns 0 or -ENOMEM (-EOVERFLOW past the
 * index types). Memory grows with what was added, never with a declared
 * number. `kind` is not copied; meta and dir_mode are set by the caller
 * before finish, the chunks of the catalog may be changed until then. */
struct ck_catalog *ck_catalog_make(const char *kind);
void ck_catalog_free(struct ck_catalog *c);
CK_MUST_USE int ck_catalog_text_add(struct ck_catalog *c, struct ck_str s,
				    struct ck_text *out);
CK_MUST_USE int ck_catalog_file_add(struct ck_catalog *c,
				    const struct ck_data_file *file);
/* Starts a tensor; its chunks follow by ck_catalog_chunk_add(). Sets key,
 * dtype, shape; a dimension below 0 becomes its fault. */
CK_MUST_USE int ck_catalog_tensor_add(struct ck_catalog *c, struct ck_str key,
				      struct ck_str dtype, uint32_t ndim,
				      const int64_t *shape);
/* The tensor added last cannot be served as a whole: err (EIO, EBADMSG), why. */
CK_MUST_USE int ck_catalog_tensor_fault(struct ck_catalog *c, int err,
					const char *why);
/* Adds a box to the tensor added last. off, len: ndim of that tensor. */
CK_MUST_USE int ck_catalog_chunk_add(struct ck_catalog *c, const int64_t *off,
				     const int64_t *len,
				     const struct ck_chunk *chunk);
CK_MUST_USE int ck_catalog_object_add(struct ck_catalog *c, struct ck_str key,
				      const struct ck_chunk *item);
/* The next part of the path of the entry added last. */
CK_MUST_USE int ck_catalog_part_add(struct ck_catalog *c, struct ck_text text,
				    bool is_index);
/* An unknown global; the same one may be added again. */
CK_MUST_USE int ck_catalog_global_add(struct ck_catalog *c, struct ck_str name);
/* Descriptors joined by ','; the same ones give the same number, none 0. */
CK_MUST_USE int ck_catalog_transform_add(struct ck_catalog *c,
					 struct ck_str descriptors,
					 uint16_t *number);
/* Names and stems, order, sizes, modes, and the faults that need no item:
 * boxes outside, overlapping, sizes that overflow, holes, missing files,
 * items outside their file, items of one tensor that share bytes.
 * -EBADMSG: two entries have one key. */
CK_MUST_USE int ck_catalog_finish(struct ck_catalog *c, struct ck_diag *d);

/* For a catalog that commits will change: text and files may be added, and the
 * items of tensors changed, while others read what was there before. Once,
 * after finish and before threads. -ENOMEM. */
CK_MUST_USE int ck_catalog_reserve(struct ck_catalog *c);
/* Items of a tensor have changed, or what is known of its files: finds its mode
 * and time again. */
void ck_catalog_tensor_renew(struct ck_catalog *c, uint32_t tensor);
/* Who may read .metadata, the directory or a file has changed: finds modes and
 * times of all entries again. */
void ck_catalog_access_renew(struct ck_catalog *c);

struct ck_str ck_catalog_str(const struct ck_catalog *c, struct ck_text t);
/* Entry whose stem this is, as index in entries; -1 if there is none. */
int64_t ck_catalog_find(const struct ck_catalog *c, struct ck_str stem);
const struct ck_names *ck_catalog_names(const struct ck_catalog *c,
					struct ck_entry_id e);

/* The chunks of a tensor without fault that share elements with a window of it:
 * ndim offsets, ndim sizes, inside the tensor. *chunks: their numbers in the
 * tensor, sorted by offsets; free() it. covered: they have all of the window.
 * -ENOMEM. */
CK_MUST_USE int ck_catalog_window(const struct ck_catalog *c,
				  const struct ck_tensor *t,
				  const uint64_t *window, uint32_t **chunks,
				  uint32_t *n, bool *covered);

/* Index of the tensor that a chunk of the catalog belongs to. */
uint32_t ck_catalog_tensor_of(const struct ck_catalog *c, uint32_t chunk);

static inline const int64_t *ck_catalog_shape(const struct ck_catalog *c,
					      const struct ck_tensor *t)
{
	return c->shapes + t->shape;
}

/* offsets of chunk i of t; its sizes are ndim further on. */
static inline const int64_t *ck_catalog_box(const struct ck_catalog *c,
					    const struct ck_tensor *t,
					    uint32_t i)
{
	return c->boxes + t->boxes + (uint64_t)i * 2 * t->ndim;
}

/* Owner, mode (r bits that .metadata, directory and files share) and newest
 * time of what consists of these items. */
struct ck_attr ck_catalog_attr(const struct ck_catalog *c,
			       const struct ck_chunk *items, uint32_t n);
/* "[4,3]": the spelling of attributes and reports. */
void ck_dims_print(struct ck_buf *out, const int64_t *dims, uint32_t ndim);
/* The catalog as text, one line for each thing; grammar in
 * core/model/catalog_dump.c. */
void ck_catalog_dump(const struct ck_catalog *c, struct ck_buf *out);

#endif
