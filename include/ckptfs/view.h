/* SPDX-License-Identifier: MIT */
/*
 * view: one directory of the root. A view turns a name into an entry and
 * an entry into a slice; there is one source file for each in core/view. Views are
 * pure functions of the catalog, except for generated content. Any thread.
 */
#ifndef CKPTFS_VIEW_H
#define CKPTFS_VIEW_H

#include "ckptfs/model.h"
#include "ckptfs/slice.h"
#include "model/catalog/items.h"
#include "model/spec.h"

struct ck_checkpoint;
struct ck_root;
struct ck_view;
struct ck_weight_map;  /* weight_map.h */
struct ck_place_rules; /* place_rules.h */
struct ck_manifest;    /* report/manifest.h */

/* A directory of a view. */
struct ck_dir {
	const struct ck_view *view;
	const void *state; /* from ck_view.make; or NULL */
	/* The checkpoint. A view sets it for a directory of another checkpoint than
	 * that of the parent directory. */
	struct ck_root *root;
	uint32_t a[2]; /* which directory of the view; private to the view */
	/* Suffix of names of files in it that can be created. NULL: files cannot be
	 * created, and names need not be looked up again for a while. */
	const char *suffix;
	/* Milliseconds for which the kernel may cache a name, or the absence of a
	 * name, in the directory. 0: until a commit. */
	uint32_t names_msec;
};

enum ck_node_type {
	CK_TYPE_FILE,
	CK_TYPE_DIR,
	CK_TYPE_LINK,
};

/* What a name in a directory refers to. */
struct ck_child {
	uint8_t type; /* enum ck_node_type */
	/* index in the directory, unique among its files and directories */
	uint32_t entry;
	/* Of CK_TYPE_DIR. dir.view is NULL if the directory was listed but not
	 * looked up. */
	struct ck_dir dir;
	/* Root of a step that is in use until the tree has given the directory a
	 * number; or NULL. */
	struct ck_root *step;
};

/* The source of owner, mode, time and attributes of a file. */
enum ck_file_kind {
	CK_FILE_KIND_CHECKPOINT,
	CK_FILE_KIND_TENSOR,
	CK_FILE_KIND_BOX,
	CK_FILE_KIND_PART, /* of a tensor: see ck_view.part() */
	CK_FILE_KIND_OBJECT,
	CK_FILE_KIND_MANY,  /* several tensors: see ck_view.many() */
	CK_FILE_KIND_ASIDE, /* a file beside the tensors, such as config.json */
};

/* Attributes of a file or link, at one moment. */
struct ck_file_content {
	uint8_t type;	 /* enum ck_node_type */
	uint8_t topic;	 /* enum ck_file_kind */
	uint8_t accepts; /* enum ck_accepts */
	uint8_t as; /* dtype its elements are shown as, or CK_DTYPE_UNKNOWN */
	/* content is generated on demand: size() computes its size */
	bool made;
	/* content is generated again at each lookup of its name */
	bool live;
	/* of the tensor, of the tensor of a box or part, or of the object */
	uint32_t number;
	uint32_t chunk; /* of CK_FILE_KIND_BOX: index of the chunk */
	/* Of CK_FILE_KIND_MANY, CK_FILE_KIND_PART and CK_FILE_KIND_ASIDE: r bits and
	 * latest time of all sources. */
	mode_t mode;
	struct timespec mtime;
	uint64_t size; /* bytes; 0 if `made` */
	/* Generation in which its bytes were last changed. 0 of files in the
	 * root. */
	uint64_t version;
};

/* Items of a file, as input of ck_catalog_attr(). Of CK_FILE_KIND_MANY all data
 * files; no items if the file is of no entry. */
struct ck_items ck_about_items(const struct ck_catalog *c,
			       const struct ck_file_content *about);

/* An entry that a view of several tensors omits, and the reason. */
struct ck_left_out {
	struct ck_str name; /* shown name, or name in a template */
	const char *why;    /* a constant text */
};

/* The tensors and objects of a file in order, and the entries that its view omits from
 * all files. Valid until put() is called. */
struct ck_many {
	const char *kind;
	const uint32_t *tensors, *objects;
	const struct ck_left_out *left_out;
	uint32_t n, nobjects, nleft_out;
	void (*put)(void *arg);
	void *arg;
};

/* The part of a tensor in a CK_FILE_KIND_PART, and how a mesh holds the tensor. */
struct ck_mesh_part {
	int64_t box[2 * CK_MAX_DIMS]; /* ndim offsets, then ndim sizes */
	struct ck_sharding sharding;  /* its dims are `dims` */
	struct ck_mesh_dim dims[CK_SPEC_DIMS];
};

/* Small files beside the tensors that describe how a model is used: configuration,
 * tokenizer, code. Has its own lock; any thread. */
struct ck_aside {
	/* Sets *n to the number of files. The first call lists the directory.
	 * Returns 0 or a transient error. */
	int (*count)(struct ck_aside *a, uint32_t *n);
	/* Name of file i, valid as long as `a`. */
	const char *(*name)(struct ck_aside *a, uint32_t i);
	/* Sets size, mode and time of file i, as shown in this checkpoint. */
	void (*stat)(struct ck_aside *a, const struct ck_catalog *c, uint32_t i,
		     struct ck_file_content *out);
	/* Returns 0, or: -ESTALE if the file was replaced; -ENOMEM; errors of
	 * open(2). Caller must call ck_slice_free(). */
	int (*slice)(struct ck_aside *a, uint32_t i, struct ck_slice **out);
};

/* Options of views. Constant, owned by the caller. */
struct ck_view_options {
	char *views; /* shown directories, with `+` between; NULL: all. Owned */
	/* Prefix that hf/ removes from names, and without which it omits them. "":
	 * no prefix; NULL: hf/ chooses it. Owned */
	char *root;
	uint64_t hf_shard_size; /* bytes per file in hf/; 0: one file */
	/* Paths, or NULL: of a directory, and of two files. Owned */
	char *hf_template, *placements, *manifest;
	char *ranks; /* see rank_list.h; NULL: all. Owned */
	bool strict; /* differences to the manifest refuse the mount */
	/* Content of these files and directories, owned by the caller that opened
	 * them; or NULL. weight_map: the index of the directory. */
	struct ck_place_rules *rules;
	struct ck_manifest *expected;
	struct ck_aside *aside;
	const struct ck_weight_map *weight_map;
	/* Receives the lines that ck_view_note() logs; or NULL. */
	void (*note)(const char *line);
};

/* Messages: hf/ has no configuration, and the remedy. */
#define CK_NO_CONFIG "no config.json, which transformers and vLLM need"
#define CK_USE_TEMPLATE                                                        \
	"-o hf_template=DIR takes it from a directory of the model"
/* Logs a line for the user: an option without effect, a directory that is absent. */
void ck_view_note(const struct ck_view_options *o, const char *line);
void ck_view_options_fini(struct ck_view_options *o);
/* True if a directory of this name is shown. */
CK_MUST_USE bool ck_view_is_wanted(const struct ck_view_options *o,
				   const char *top);
/* Returns 0, or -EINVAL if `views` has the name of no view. */
CK_MUST_USE int ck_view_options_check(const struct ck_view_options *o,
				      struct ck_diag *d);

/* Access to the objects of a checkpoint. The functions may block on local files. They
 * return 0, or an error, which is logged; and set *transient if it is so, as -EREMOTE:
 * remote ranges must be fetched first. */
struct ck_object_access {
	struct ck_checkpoint *cp;
	/* Sets *out to the slice of objects/<stem>.pt; caller must call ck_slice_free(). */
	int (*record)(struct ck_checkpoint *cp, uint32_t object,
		      struct ck_slice **out, bool *transient);
	/* Appends the value as one line of JSON, or nothing on error. */
	int (*json)(struct ck_checkpoint *cp, uint32_t object,
		    struct ck_buf *out, bool *transient);
	/* Appends the pickle, as stored. Sets d->transient. */
	int (*pickle)(struct ck_checkpoint *cp, uint32_t object,
		      struct ck_buf *out, struct ck_diag *d);
};

/* Input of ck_view.make. */
struct ck_view_source {
	const struct ck_catalog *catalog;
	const struct ck_view_options *options; /* of the view; never NULL */
	struct ck_aside *aside; /* files of the checkpoint or a template */
	struct ck_root *root;
	struct ck_object_access objects;
};

/* A view: a directory in the root with everything beneath. Pure functions of the
 * catalog and the ck_dir, except for generated content. Any thread may call them.
 * Unless stated otherwise they return 0 or a negative errno. */
struct ck_view {
	const char *top;    /* name of its directory in the root */
	const char *suffix; /* ck_dir.suffix of that directory; or NULL */
	/* Makes the state of the view, once for all generations of a catalog. The
	 * state has its own lock if it changes. NULL: no state. Returns 0, or
	 * -ENOMEM. */
	int (*make)(const struct ck_view_source *from, const void **state);
	void (*free)(const void *state); /* may be NULL */
	/* Finds a name. next() need not list all names. Returns 0, or: -ENOENT;
	 * -ENOMEM; -ENOSPC; errors of generated content. */
	int (*lookup)(const struct ck_catalog *c, const struct ck_dir *dir,
		      struct ck_str name, struct ck_child *out);
	/* Finds the first entry at position *at or behind it and sets *at to its
	 * position. Positions begin at 0 and are equal in later generations.
	 * Returns 0, or -ENOENT at the end. */
	int (*next)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint64_t *at, struct ck_child *out);
	/* Appends the name of an entry that was found. */
	void (*name)(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_buf *out);
	/* Attributes of an entry that is a file or link. Generates no content.
	 * Returns 0, or -ENOENT if the entry was removed. */
	int (*stat)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_file_content *out);
	/* Sets *size to the bytes of generated content; 0 if it cannot be generated.
	 * Returns 0 or a transient error. NULL: the view generates no content. The tree
	 * generates the JSON of each CK_FILE_KIND_OBJECT, except for objects/. */
	int (*size)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, uint64_t *size);
	/* Sets *out to the slice of a file. Returns 0, or: -ENOENT; -ENOMEM; errors
	 * of opening its data file. Caller must call ck_slice_free(). */
	int (*slice)(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_slice **out);
	/* Lists the tensors of a CK_FILE_KIND_MANY. Returns 0, or: -ENOENT; -ENOMEM.
	 * Caller must call out->put(). NULL: the view has no such files. */
	int (*many)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_many *out);
	/* Computes the part of a CK_FILE_KIND_PART. Returns 0, or: -ENOENT; -ENOMEM.
	 * NULL: the view has no such files. */
	int (*part)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_mesh_part *out);
	/* True if its directory in the root would be empty, and is not shown. NULL:
	 * never. */
	bool (*is_empty)(const struct ck_catalog *c, const void *state);
	/* Logs that a program looked up its empty directory. NULL: not logged. */
	void (*absent)(const struct ck_catalog *c, const void *state);
	/* Appends lines of `status`. NULL: no lines. */
	void (*status)(const struct ck_catalog *c, const void *state,
		       struct ck_buf *out);
	/* Appends a line for the log at the mount. NULL: no line. */
	void (*log)(const struct ck_catalog *c, const void *state,
		    struct ck_buf *out);
	/* Appends the target of a link. NULL: the view has no links. */
	int (*link)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_buf *target);
	/* Number of files and directories in its directory in the root and beneath.
	 * NULL: not counted. */
	uint64_t (*count)(const struct ck_catalog *c, const void *state);
	/* The view shows the whole checkpoint in the form of some client. It is
	 * listed behind the views of single entries. */
	bool is_form;
	/* `ckptfs cp -r` copies its directory only if a path names it. */
	bool is_on_request;
	/* Its files show the time of the checkpoint, which a commit changes. */
	bool is_dated;
};

/* All views, in the order in which they are listed. */
extern const struct ck_view *const ck_views[];
extern const size_t ck_nviews;

/* --- views of one file for each tensor ---------------------------------------- */

struct ck_tensor_view {
	/* Must be first. Entries are numbers of tensors. */
	struct ck_view view;
	const char *suffix; /* suffix of its files, after the stem */
	uint8_t accepts;    /* enum ck_accepts of its files */
	/* True if the view has a file of a tensor, which is whole. */
	bool (*is_shown)(const struct ck_catalog *c, uint64_t tensor);
	/* Bytes of the file of a tensor; 0 if the size of the tensor is unknown
	 * (its err has the reason). */
	uint64_t (*size)(const struct ck_catalog *c, uint32_t tensor);
	/* Sets *out to the slice of the file, without parts if the size is unknown.
	 * Returns 0, or -ENOMEM. Caller must call ck_slice_free(). */
	int (*slice)(const struct ck_catalog *c, uint32_t tensor,
		     struct ck_slice **out);
};

/* full/ and raw/, in the order in which they are listed. */
extern const struct ck_tensor_view *const ck_tensor_views[2];

/* Sets *tensor to the tensor of a file name. Returns 0, or -ENOENT. */
CK_MUST_USE int ck_tensor_view_lookup(const struct ck_tensor_view *v,
				      const struct ck_catalog *c,
				      struct ck_str name, uint32_t *tensor);
/* Appends the file name of a tensor. */
void ck_tensor_view_name(const struct ck_tensor_view *v,
			 const struct ck_catalog *c, uint32_t tensor,
			 struct ck_buf *out);

#endif
