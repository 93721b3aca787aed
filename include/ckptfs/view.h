/* SPDX-License-Identifier: MIT */
/*
 * view: what the user sees. One file of core/view for each part of the tree;
 * each is a pure function of the catalog. A view turns a name into an entry
 * and an entry into a slice.
 */
#ifndef CKPTFS_VIEW_H
#define CKPTFS_VIEW_H

#include "ckptfs/items.h"
#include "ckptfs/model.h"
#include "ckptfs/slice.h"

struct ck_root;
struct ck_view;
struct ck_weight_map; /* weight_map.h */

/* A directory, as its view knows it. */
struct ck_dir {
	const struct ck_view *view;
	const void *state; /* what the view made of the checkpoint, or NULL */
	/* Of which checkpoint it is; a view says it of those that are another's
	 * than the directory that they are in. */
	struct ck_root *root;
	uint32_t a[2]; /* which of its directories; the view's own */
	/* What names of its files end in that can be written; NULL: there are
	 * none, and nobody can put others there for a while. */
	const char *suffix;
	/* For how many milliseconds a name in it, or that there is none, may be
	 * taken for known: then it is looked up again. 0: until a commit. */
	uint32_t names_msec;
};

enum ck_node_type {
	CK_TYPE_FILE,
	CK_TYPE_DIR,
	CK_TYPE_LINK,
};

/* What a name in a directory stands for. */
struct ck_child {
	uint8_t type;	/* enum ck_node_type */
	uint32_t entry; /* its number in the directory, which is never that of
			 * another file or directory */
	struct ck_dir
		dir; /* of CK_TYPE_DIR; view is NULL: nobody has looked it up, and
			    * it is only listed */
	/* NULL, or the root of a step that cannot be forgotten before the tree has
	 * given the directory a number. */
	struct ck_root *step;
};

/* Whose owner, mode, time and attributes a file has. */
enum ck_file_kind {
	CK_FILE_KIND_CHECKPOINT,
	CK_FILE_KIND_TENSOR,
	CK_FILE_KIND_BOX,
	CK_FILE_KIND_OBJECT,
	CK_FILE_KIND_MANY,  /* tensors: see ck_view.many() */
	CK_FILE_KIND_ASIDE, /* what belongs to a view, and is of no tensor */
};

/* A file or link, at one moment. */
struct ck_file_content {
	uint8_t type;	 /* enum ck_node_type */
	uint8_t topic;	 /* enum ck_file_kind */
	uint8_t accepts; /* enum ck_accepts */
	bool made;	 /* it is made when it is asked for: size() counts it */
	bool live;	 /* it is another one each time its name is looked up */
	uint32_t
		number; /* of the tensor, of a box's tensor, or of the object */
	uint32_t chunk; /* of CK_FILE_KIND_BOX */
	/* Of CK_FILE_KIND_MANY and CK_FILE_KIND_ASIDE: r bits, and the newest time, of what it
	 * consists of. */
	mode_t mode;
	struct timespec mtime;
	uint64_t size; /* bytes; 0 of what is made */
	uint64_t
		version; /* the generation in which its bytes were changed; 0 of
			   * what lies in the root */
};

/* What of the catalog a file consists of, as ck_catalog_attr() wants it: of many
 * tensors all data files; no items where it is of no entry. */
struct ck_items ck_about_items(const struct ck_catalog *c,
			       const struct ck_file_content *about);

/* An entry that a view of many tensors does not have, and why. */
struct ck_left_out {
	struct ck_str name; /* shown name, or that in a template */
	const char *why;    /* a constant */
};

/* Which tensors a file has, in its order, and what its view has of none. Good until it is
 * put back. */
struct ck_many {
	const char *kind;
	const uint32_t *tensors;
	const struct ck_left_out *left_out;
	uint32_t n, nleft_out;
	void (*put)(void *arg);
	void *arg;
};

/* Small files that lie beside tensors and say how a model is used: configuration,
 * tokenizer, code. Locks itself. */
struct ck_aside {
	/* How many there are: looked for when that is asked for the first time. Errors
	 * of the moment. */
	int (*count)(struct ck_aside *a, uint32_t *n);
	/* Of file i, as long as it lives. */
	const char *(*name)(struct ck_aside *a, uint32_t i);
	/* Size, mode and time, as a file of this checkpoint is shown. */
	void (*stat)(struct ck_aside *a, const struct ck_catalog *c, uint32_t i,
		     struct ck_file_content *out);
	/* -ESTALE: it is another one by now; errors of open(2), -ENOMEM. */
	int (*slice)(struct ck_aside *a, uint32_t i, struct ck_slice **out);
};

/* What is wanted of views. The caller's, constant. */
struct ck_view_options {
	char *views; /* names, with `+` between; NULL: all are shown. Owned */
	/* Of hf/: which names it has: those below this one, without it; "": all; NULL: it
	 * finds that out. Owned */
	char *root;
	uint64_t
		hf_shard_size; /* bytes of a file's tensors; 0: they are in one */
	char *hf_template;     /* a directory, or NULL. Owned */
	/* What is in it, of whoever opened it; or NULL: */
	struct ck_aside *aside;
	const struct ck_weight_map *weight_map; /* NULL: it has no index */
	/* Receives the lines that ck_view_note() logs; NULL: the log alone has them. */
	void (*note)(const char *line);
};

/* Text of messages: hf/ without a configuration, and the remedy. */
#define CK_NO_CONFIG "no config.json, which transformers and vLLM need"
#define CK_USE_TEMPLATE                                                        \
	"-o hf_template=DIR takes it from a directory of the model"

/* Logs a line for the user: an option without effect, a directory that is absent. */
void ck_view_note(const struct ck_view_options *o, const char *line);

void ck_view_options_fini(struct ck_view_options *o);
/* Whether a directory of this name is shown. */
CK_MUST_USE bool ck_view_is_wanted(const struct ck_view_options *o,
				   const char *top);
/* -EINVAL: a name of no view in `views`. */
CK_MUST_USE int ck_view_options_check(const struct ck_view_options *o,
				      struct ck_diag *d);

/* What a view may make something of. */
struct ck_view_source {
	const struct ck_catalog *catalog;
	const struct ck_view_options *options; /* of the view: never NULL */
	struct ck_aside *aside; /* of the checkpoint, or a template */
	/* Of views that are more than a function of the catalog: */
	struct ck_checkpoint *cp;
	struct ck_root *root;
};

/* A kind of directory, with all that are below it: a pure function of the catalog
 * and of what it says of a directory, but for what is made. Any thread. */
struct ck_view {
	const char *top;    /* the name of its directory in the root */
	const char *suffix; /* of that directory, as of ck_dir; or NULL */
	/* What is made once, for all generations of a catalog, and locks itself
	 * if it changes; NULL: nothing. -ENOMEM. */
	int (*make)(const struct ck_view_source *from, const void **state);
	void (*free)(const void *state); /* may be NULL */
	/* -ENOENT, -ENOMEM, -ENOSPC; errors of what is made. There may be names that next()
	 * does not have. */
	int (*lookup)(const struct ck_catalog *c, const struct ck_dir *dir,
		      struct ck_str name, struct ck_child *out);
	/* The first entry at position *at or behind it, which *at becomes.
	 * Positions begin at 0, and stay what they are in later generations.
	 * -ENOENT: there is none. */
	int (*next)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint64_t *at, struct ck_child *out);
	/* Appends the name of an entry that was found. */
	void (*name)(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_buf *out);
	/* Of an entry that is a file or link; makes nothing. -ENOENT: it is
	 * gone. */
	int (*stat)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_file_content *out);
	/* The bytes of one that is made; 0 if it cannot be. Errors of the
	 * moment. NULL: none is made, but objects, each as its JSON, by the
	 * tree. */
	int (*size)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, uint64_t *size);
	/* What a file consists of; ck_slice_free() it. -ENOENT, -ENOMEM; errors
	 * of a file that cannot be opened. */
	int (*slice)(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_slice **out);
	/* Of a CK_FILE_KIND_MANY; put it back. -ENOENT, -ENOMEM. NULL: it has none. */
	int (*many)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_many *out);
	/* Whether there is nothing in its directory in the root, which is not shown
	 * then. NULL: there is always something. */
	bool (*is_empty)(const struct ck_catalog *c, const void *state);
	/* A program looked up its directory while that is empty. NULL: not logged. */
	void (*absent)(const struct ck_catalog *c, const void *state);
	/* Appends lines of `status`. NULL: it has nothing to say. */
	void (*status)(const struct ck_catalog *c, const void *state,
		       struct ck_buf *out);
	/* The same of a line for the log, when the checkpoint is mounted. */
	void (*log)(const struct ck_catalog *c, const void *state,
		    struct ck_buf *out);
	/* Appends where a link leads. NULL: there are none. */
	int (*link)(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_buf *target);
	/* How many files and directories there are in its directory in the root and
	 * below; NULL: none that count. */
	uint64_t (*count)(const struct ck_catalog *c, const void *state);
	/* It shows all of a checkpoint in the form that some client wants: behind what
	 * shows each entry. */
	bool is_form;
	/* Its files show the time of the checkpoint, which a commit changes. */
	bool is_dated;
};

/* The views of the tree, in the order shown. */
extern const struct ck_view *const ck_views[];
extern const size_t ck_nviews;

/* --- views of one file for each tensor ---------------------------------------- */

struct ck_tensor_view {
	struct ck_view view; /* first: entries are numbers of tensors */
	const char *suffix;  /* of its files, after the stem */
	uint8_t accepts;     /* enum ck_accepts: of its files */
	/* Bytes of the file of a tensor; 0 if those of the tensor cannot be
	 * counted (its err says why). */
	uint64_t (*size)(const struct ck_catalog *c, uint32_t tensor);
	/* What the file consists of, no part where the bytes cannot be
	 * counted; ck_slice_free() it. 0 or -ENOMEM. */
	int (*slice)(const struct ck_catalog *c, uint32_t tensor,
		     struct ck_slice **out);
};

/* full/ and raw/, in the order shown. */
extern const struct ck_tensor_view *const ck_tensor_views[2];

/* The tensor whose file this name is; -ENOENT. */
CK_MUST_USE int ck_tensor_view_lookup(const struct ck_tensor_view *v,
				      const struct ck_catalog *c,
				      struct ck_str name, uint32_t *tensor);
/* Appends the file name of a tensor. */
void ck_tensor_view_name(const struct ck_tensor_view *v,
			 const struct ck_catalog *c, uint32_t tensor,
			 struct ck_buf *out);

#endif
