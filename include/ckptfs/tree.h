/* SPDX-License-Identifier: MIT */
/*
 * tree: the names under which a checkpoint is shown, without a kernel: names to
 * nodes, nodes to attributes and slices. Views list directories; the tree gives
 * each node a number, and keeps the numbers of directories in use.
 *
 * A number identifies one version of a file and is never reused. A directory keeps
 * its number as long as it, or a node in it, is in use. Any thread may call all
 * functions, except that making and freeing must not overlap other calls. Results
 * describe one moment: a commit may follow at any time.
 */
#ifndef CKPTFS_TREE_H
#define CKPTFS_TREE_H

#include "ckptfs/format.h"
#include "ckptfs/io.h"
#include "ckptfs/view.h"
#include "format/load/side_files.h"
#include "tree/reports/damage.h"
#include "tree/reports/snapshot.h"

#include <sys/types.h>

struct ck_root;
struct ck_stop; /* replicas.h */
struct ck_tree;

/* Changes to owner and modes that the checkpoint has on disk. */
struct ck_tree_options {
	mode_t umask; /* bits that no node has */
	bool write;   /* show the w bits of .metadata and of the directory */
	bool have_uid, have_gid;
	uid_t uid;
	gid_t gid;
	const struct ck_view_options *view; /* NULL: defaults */
	/* Appends the text of .ckptfs/status; the implementation calls
	 * ck_status_begin() first and ck_status_end() last. NULL: the tree prints
	 * only these. */
	void (*status)(void *arg, struct ck_root *of, struct ck_buf *out);
	void *arg;
	/* Appends rows of "paths" of GPUs in .ckptfs/stats. May be NULL. */
	void (*gpu_paths)(void *arg, struct ck_buf *out);
	/* Appends lines of GPUs in .ckptfs/status. May be NULL. */
	void (*gpu_status)(void *arg, struct ck_buf *out);
	void *gpu_arg;
};

enum { CK_TREE_ROOT = 1 }; /* number of the root */

/* The tree never uses numbers from this one on: they are free for other nodes. */
#define CK_TREE_FOREIGN (UINT64_C(0x7fffff) << 40)

/* A file, link or directory. */
struct ck_node {
	/* 0: a directory that was listed but not looked up, until ck_tree_use() */
	uint64_t number;
	uint64_t parent; /* number of the parent directory */
	/* Identifies the location: equal for all versions of a file, and unique as
	 * long as a node of the directory is in use. Of a directory: its number. */
	uint64_t place;
	/* of a directory: itself; else the parent directory */
	struct ck_dir dir;
	uint32_t entry; /* index in the parent directory */
	/* ck_dir.names_msec of the directory in which a name was found */
	uint32_t names_msec;
	struct ck_file_content about; /* of a directory: only its type */
	/* A step of a run directory: ck_tree_name() has already taken the use that
	 * ck_tree_use() would take. */
	bool held;
};

struct ck_node_stat {
	uint64_t number;
	uint8_t type;  /* enum ck_node_type */
	uint64_t size; /* bytes; 0 if a directory */
	mode_t mode;   /* with the file type bits */
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

/* Reads the files of placements= and manifest=, and opens the directory of hf_template=,
 * for roots that are made with these options. Caller owns `t`, which must not move. Returns 0, or:
 * -EINVAL; -EBADMSG; -EFBIG; errors of open(2) and of ck_template_open(). d has the
 * reason. Caller must call ck_view_files_leave(), also after an error. */
CK_MUST_USE int ck_view_files_use(struct ck_view_options *o,
				  struct ck_template *t, struct ck_diag *d);
void ck_view_files_leave(struct ck_view_options *o, struct ck_template *t);
/* Reads a file of manifest=. Returns 0, or: -EBADMSG; -EFBIG; -ENOMEM; errors of open(2).
 * d has the reason. Caller must call ck_manifest_free(). */
CK_MUST_USE int ck_manifest_read(const char *path, struct ck_manifest **out,
				 struct ck_diag *d);

/* A checkpoint with its views: the root of a tree, or a directory in one. Opaque. */
struct ck_root;

/* Makes a root. It contains the directories of `views` in this order, objects/
 * before the first view with is_form, and .ckptfs/ last. The root of a run
 * directory contains its steps, each with these directories, and .ckptfs/. Caller
 * owns checkpoint, views and options, which must outlive the root. Returns 0, or
 * -ENOMEM or an error of ck_view.make. */
CK_MUST_USE int ck_root_make(struct ck_checkpoint *cp,
			     const struct ck_view *const *views, size_t nviews,
			     const struct ck_tree_options *options,
			     struct ck_root **out);
void ck_root_free(struct ck_root *r); /* NULL is allowed */
/* The directory of the root, for a view that contains checkpoints. */
struct ck_dir ck_root_dir(struct ck_root *r);
/* Known damage of the checkpoint; owned by the root. */
struct ck_damage *ck_root_damage(const struct ck_root *r);
/* The checkpoint; of a run directory one without tensors. */
struct ck_checkpoint *ck_root_checkpoint(const struct ck_root *r);
/* True if the root is a step of a run directory that was removed or replaced. Stats
 * the run directory, at most once a second. */
CK_MUST_USE bool ck_root_is_gone(struct ck_root *r);
/* True if the access rights of the checkpoint changed since the last call. Any
 * thread. */
CK_MUST_USE bool ck_root_is_renewed(struct ck_root *r);
/* True if no earlier call had this bit, so that a message is logged once. Any
 * thread. */
CK_MUST_USE bool ck_root_log_once(struct ck_root *r, unsigned bit);
/* Logs which directories have the data, if more than one has. more: another directory of the
 * root that has it, which is not of the tree; or NULL. */
void ck_root_log_copies(const struct ck_root *r, const char *more);
/* Number of files and directories, including the root; of a run directory those of
 * its steps. */
uint64_t ck_root_count(const struct ck_root *r);

/* Append the first and the last lines of .ckptfs/status. fate, err: from
 * ck_checkpoint_fate(). */
void ck_status_begin(const struct ck_root *r, enum ck_fate fate, int err,
		     struct ck_buf *out);
void ck_status_end(const struct ck_root *r, struct ck_buf *out);

/* Makes a tree. Caller owns the root, and roots that its views contain, which must
 * outlive the tree. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_tree_make(struct ck_root *root, struct ck_tree **out);
void ck_tree_free(struct ck_tree *t); /* NULL is allowed */

/* --- finding ------------------------------------------------------------------- */

/* Finds the node of a number in use. For an older version of a file, *out is the
 * present one with the old number. Returns 0, or: -ESTALE if the node does not
 * exist any more; -ENOMEM. */
CK_MUST_USE int ck_tree_find(struct ck_tree *t, uint64_t number,
			     struct ck_node *out);
/* Looks up a name in a directory. If out->held is set, the caller must call
 * ck_tree_use(). Returns 0, or: -ENOENT; -ENOTDIR; -ESTALE if the directory was
 * forgotten; -ENFILE if no number is left; -ENOMEM; errors of a generated
 * report. */
CK_MUST_USE int ck_tree_name(struct ck_tree *t, uint64_t dir,
			     struct ck_str name, struct ck_node *out);
/* Finds the present version of a file. Returns 0, or: -ESTALE if it was removed;
 * -ENFILE; -ENOMEM. */
CK_MUST_USE int ck_tree_present(struct ck_tree *t, const struct ck_node *n,
				struct ck_node *out);
/* Finds the parent directory of a node; the root is its own parent. Returns 0, or
 * -ESTALE. */
CK_MUST_USE int ck_tree_parent(struct ck_tree *t, const struct ck_node *n,
			       struct ck_node *out);
/* Appends the path from the root, without leading or trailing slash. Returns 0, or:
 * -ESTALE; -ENOMEM. */
CK_MUST_USE int ck_tree_path(struct ck_tree *t, const struct ck_node *n,
			     struct ck_buf *out);

/* Adds one use of a node that was found, until ck_tree_forget(). Gives a directory
 * a number if it has no number; there are 2^23 during the life of the tree. Returns 0,
 * or: -ENFILE if no number is left; -ESTALE; -ENOMEM. */
CK_MUST_USE int ck_tree_use(struct ck_tree *t, struct ck_node *n);
/* The same for a node with a number. Never fails. */
void ck_tree_hold(struct ck_tree *t, uint64_t number);
/* Removes n uses of a node. A directory without uses may get another number when it
 * is looked up again. */
void ck_tree_forget(struct ck_tree *t, uint64_t number, uint64_t n);

/* --- nodes ---------------------------------------------------------------------- */

/* Sets *out to the present owner, mode, time and size of a node. Returns 0, or a
 * transient error of generating its content. */
CK_MUST_USE int ck_tree_stat(const struct ck_node *n, struct ck_node_stat *out);
/* The same without the size of generated content, for a file of catalog `of`, the
 * current one or an older one. Users must have read access to its bytes in that
 * catalog, as far as it is known. Also for a directory, and for a file of no entry;
 * then only type, accepts and dir.root of *n are used. */
void ck_tree_rights(const struct ck_catalog *of, const struct ck_node *n,
		    struct ck_node_stat *out);

/* Dtype and shape of the elements of a file, in memory of the catalog. */
struct ck_elements {
	struct ck_str dtype;  /* as stored, without "torch." */
	const int64_t *shape; /* ndim */
	uint32_t ndim;
};

/* Returns false if the file is not of one tensor or box, or of converted elements. */
CK_MUST_USE bool ck_tree_elements(const struct ck_catalog *of,
				  const struct ck_node *n,
				  struct ck_elements *out);

/* Sets *out to the catalog in which the number of the file is the present version.
 * Returns 0, or: -ESTALE if the node is an older version, and its name must be
 * looked up again; -EISDIR; -ELOOP if a link. Caller must call ck_catalog_put(). */
CK_MUST_USE int ck_tree_pin(struct ck_tree *t, const struct ck_node *n,
			    const struct ck_catalog **out);
/* Sets *out to the slice of a file in a catalog from ck_tree_pin(). Returns 0, or:
 * -ENOMEM; errors of opening its data file. Caller must call ck_slice_free(). */
CK_MUST_USE int ck_tree_slice(const struct ck_catalog *c,
			      const struct ck_node *n, struct ck_slice **out);

/* An open file. Zero-initialise. Any thread may read from `opened`. */
struct ck_tree_file {
	/* Must be first: the locator is cast to the file. */
	struct ck_locator locator;
	/* Set by the caller: */
	struct ck_node node;
	const struct ck_catalog *catalog; /* from ck_tree_pin() */
	/* Called when a read located boxes for the first time. If it returns an
	 * error, the read fails with it. May be NULL. */
	int (*located)(struct ck_tree_file *f);
	/* Constant while the file is open: */
	/* source of reads; NULL: each read returns `err` */
	struct ck_open_slice *opened;
	int err; /* positive errno, or 0 */
	/* when it was opened, faults of some of its boxes were known */
	bool faulty;
	bool is_open;
};

/* Opens a file. May block on local files. Returns 0, or: errors of ck_tree_slice();
 * if its items are read at the open, errors of local files, and -EREMOTE if remote
 * ranges must be fetched first, see ck_files_read(). Caller must call
 * ck_tree_file_close(), also after an error. */
CK_MUST_USE int ck_tree_file_open(struct ck_tree_file *f);
/* Opens boxes of tensors that no name has: `slice` has no part but CK_PART_BOX of tensors of
 * f->catalog. Takes the slice, also after an error. f->node: dir.root is used. Otherwise as
 * ck_tree_file_open(). */
CK_MUST_USE int ck_tree_boxes_open(struct ck_tree_file *f,
				   struct ck_slice *slice);
/* A read of the file returned -ESTALE: records changed files as damage. */
void ck_tree_file_changed(const struct ck_tree_file *f);
/* Closes a file and puts its catalog. Allowed if only the catalog is set. */
void ck_tree_file_close(struct ck_tree_file *f);

/* Appends the target of a link. Returns 0, or: -EINVAL if not a link; -ENOENT if it
 * was removed; -ENOMEM; errors of ck_run_steps(). */
CK_MUST_USE int ck_tree_link(const struct ck_node *n, struct ck_buf *target);

#define CK_XATTR_PREFIX "user.ckptfs."

/* Appends the value of an extended attribute of any node. Returns 0, or: -ENODATA
 * if the node has no such attribute; -ENOMEM. `error` reads items: also transient
 * errors and -EREMOTE. `replicas_differ` compares all bytes: also -EINTR if stop
 * requests it (NULL: never). */
CK_MUST_USE int ck_tree_xattr(const struct ck_node *n, const char *name,
			      const struct ck_stop *stop, struct ck_buf *out);
/* Appends the names of the known attributes of a file, each with a NUL. Does no
 * I/O. */
void ck_tree_xattrs(const struct ck_node *n, struct ck_buf *out);

/* --- all of them ------------------------------------------------------------------ */

struct ck_tree_list; /* a directory listing at one moment */

/* Opens a listing of directory `dir`. Returns 0, or: -ENOTDIR; -ESTALE; -ENOMEM.
 * Caller must call ck_tree_list_end(). */
CK_MUST_USE int ck_tree_list(struct ck_tree *t, uint64_t dir,
			     struct ck_tree_list **out);
/* Finds the first entry at position *at or behind it, sets *at to its position, and
 * replaces `name` by its name. Listing takes numbers for directories only while
 * most numbers are free; otherwise directories that were not looked up have number
 * 0. Returns 0, or: -ENOENT at the end; -ENOMEM. */
CK_MUST_USE int ck_tree_list_next(struct ck_tree_list *l, uint64_t *at,
				  struct ck_node *out, struct ck_buf *name);
/* As ck_tree_use(), for a node of the listing. */
CK_MUST_USE int ck_tree_list_use(struct ck_tree_list *l, struct ck_node *n);
/* As ck_tree_stat(), for a node of the listing. */
CK_MUST_USE int ck_tree_list_stat(const struct ck_tree_list *l,
				  const struct ck_node *n,
				  struct ck_node_stat *out);
void ck_tree_list_end(struct ck_tree_list *l); /* NULL is allowed */

/* Calls each() with the number of each directory in use, and of the files in
 * directories of views with is_dated. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_tree_each(struct ck_tree *t,
			     void (*each)(void *arg, uint64_t number),
			     void *arg);

#endif
