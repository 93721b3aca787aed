/* SPDX-License-Identifier: MIT */
/*
 * tree: the names below which a checkpoint is shown, without a kernel: from names to
 * nodes, from nodes to attributes and slices. Views say what is in a directory; the
 * tree gives each node a number, and knows the number of each directory that is in
 * use. A number stands for one version of a file; none ever stands for another. A
 * directory has one for as long as something of it is in use.
 *
 * Any thread may call anything here, but for making and ending the tree. What is
 * answered of a node is true of one moment; a commit may come at any other.
 */
#ifndef CKPTFS_TREE_H
#define CKPTFS_TREE_H

#include "ckptfs/damage.h"
#include "ckptfs/format.h"
#include "ckptfs/move.h"
#include "ckptfs/others.h"
#include "ckptfs/snapshot.h"
#include "ckptfs/view.h"

#include <sys/types.h>

struct ck_root;
struct ck_stop; /* replicas.h */
struct ck_tree;

/* What of a checkpoint's own owner and modes is shown otherwise. */
struct ck_tree_options {
	mode_t umask; /* bits that nothing has */
	bool write; /* the w bits of .metadata and of the directory are shown */
	bool have_uid, have_gid;
	uid_t uid;
	gid_t gid;
	const struct ck_view_options *view; /* NULL: nothing is said of them */
	/* Appends the text of .ckptfs/status, for whoever has more to say there than
	 * the tree: between ck_status_begin() and ck_status_end(). May be NULL. */
	void (*status)(void *arg, struct ck_root *of, struct ck_buf *out);
	void *arg;
	/* Appends rows of "paths" in .ckptfs/stats for GPUs. May be NULL. */
	void (*gpu_paths)(void *arg, struct ck_buf *out);
	/* The same, lines of .ckptfs/status. */
	void (*gpu_status)(void *arg, struct ck_buf *out);
	void *gpu_arg;
};

enum { CK_TREE_ROOT = 1 }; /* the root's number */

/* Numbers from this one on are never given: they are free for other nodes. */
#define CK_TREE_FOREIGN (UINT64_C(0xffffff) << 40)

/* A file, link or directory. */
struct ck_node {
	/* 0: a directory that nobody has looked up, until it is in use */
	uint64_t number;
	uint64_t parent; /* number of the directory that it is in */
	/* Where it is: the same in all versions, and as long as something there is
	 * in use. No other node has it. A directory's is its number. */
	uint64_t place;
	struct ck_dir dir;   /* of a directory: itself; else that it is in */
	uint32_t entry;	     /* in the directory that it is in */
	uint32_t names_msec; /* ck_dir's, of that, if a name was found there */
	struct ck_file_content about; /* of a directory: its type */
	bool held; /* a step of a run directory: what ck_tree_name() found is in use
		    * once more already, which is what ck_tree_use() would do */
};

struct ck_node_stat {
	uint64_t number;
	uint8_t type;  /* enum ck_node_type */
	uint64_t size; /* bytes; 0 of directories */
	mode_t mode;   /* with the type's bits */
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

/* Opens what hf_template= names, for as long as roots are made with these options. t: the
 * caller's, where it stays. -EINVAL and the like, which d says; to be left in any case. */
CK_MUST_USE int ck_template_use(struct ck_view_options *o,
				struct ck_template *t, struct ck_diag *d);
void ck_template_leave(struct ck_view_options *o, struct ck_template *t);

/* A checkpoint with its views: the root of a tree, or a directory in one. */
struct ck_root;

/* The directories of `views` lie in it, in this order, objects/ before the first that is a
 * form, and .ckptfs/ behind them; in a run directory its steps, each with these, and .ckptfs/. The checkpoint, the views and the options outlive it. -ENOMEM. */
CK_MUST_USE int ck_root_make(struct ck_checkpoint *cp,
			     const struct ck_view *const *views, size_t nviews,
			     const struct ck_tree_options *options,
			     struct ck_root **out);
void ck_root_free(struct ck_root *r); /* NULL is allowed */
/* The directory, for a view that has checkpoints in it. */
struct ck_dir ck_root_dir(struct ck_root *r);
/* What is known to be lost of the checkpoint; the root's. */
struct ck_damage *ck_root_damage(const struct ck_root *r);
/* The checkpoint; of a run directory one without tensors. */
struct ck_checkpoint *ck_root_checkpoint(const struct ck_root *r);
/* Whether it is a step of a run directory that was removed, or that another one has
 * replaced, by now. Looks into the run directory again, at most once a second. */
CK_MUST_USE bool ck_root_is_gone(struct ck_root *r);
/* Who may read it was changed since this was asked last. Any thread. */
CK_MUST_USE bool ck_root_is_renewed(struct ck_root *r);
/* Whether a bit is set for the first time. Any thread. */
CK_MUST_USE bool ck_root_say_once(struct ck_root *r, unsigned bit);
/* How many files and directories there are, itself too; in a run directory. */
uint64_t ck_root_count(const struct ck_root *r);

/* Appends the first and last lines of .ckptfs/status. fate, err: as of
 * ck_checkpoint_fate(). */
void ck_status_begin(const struct ck_root *r, enum ck_fate fate, int err,
		     struct ck_buf *out);
void ck_status_end(const struct ck_root *r, struct ck_buf *out);

/* The root, and those that views have in it, outlive the tree. -ENOMEM. */
CK_MUST_USE int ck_tree_make(struct ck_root *root, struct ck_tree **out);
void ck_tree_free(struct ck_tree *t); /* NULL is allowed */

/* --- finding ------------------------------------------------------------------- */

/* A node in use. Of an older version of a file: what it is now, but for its
 * number. -ESTALE: there is no such node any more. */
CK_MUST_USE int ck_tree_find(struct ck_tree *t, uint64_t number,
			     struct ck_node *out);
/* A name in a directory. What is held is to be used. -ENOENT; -ENOTDIR; -ESTALE: the directory was forgotten;
 * -ENFILE, -ENOMEM; errors of a report that is printed. */
CK_MUST_USE int ck_tree_name(struct ck_tree *t, uint64_t dir,
			     struct ck_str name, struct ck_node *out);
/* The present version of a file that was found. -ESTALE: it is gone. */
CK_MUST_USE int ck_tree_present(struct ck_tree *t, const struct ck_node *n,
				struct ck_node *out);
/* The directory that a node is in; the root is in itself. */
CK_MUST_USE int ck_tree_parent(struct ck_tree *t, const struct ck_node *n,
			       struct ck_node *out);
/* Appends the path from the root, without a slash before or behind it. -ESTALE. */
CK_MUST_USE int ck_tree_path(struct ck_tree *t, const struct ck_node *n,
			     struct ck_buf *out);

/* What was found is in use once more, until ck_tree_forget(). A directory that is
 * not remembered takes a number, of which there are 2 to the 24th for the life of
 * the tree. -ENFILE: there is none left; -ESTALE, -ENOMEM. */
CK_MUST_USE int ck_tree_use(struct ck_tree *t, struct ck_node *n);
/* The same of one that has a number, which cannot fail. */
void ck_tree_hold(struct ck_tree *t, uint64_t number);
/* A node that was used n times more than it was forgotten is in use by n less. A
 * directory of which nothing is in use may have another number when it is looked
 * up again. */
void ck_tree_forget(struct ck_tree *t, uint64_t number, uint64_t n);

/* --- nodes ---------------------------------------------------------------------- */

/* Owner, mode, time and size, as they are now. Errors of the moment of what is
 * made. */
CK_MUST_USE int ck_tree_stat(const struct ck_node *n, struct ck_node_stat *out);
/* The same without what is made: its mode is that by what is known now of those who
 * may read the bytes that a catalog, the present one or an older one, says. Also of
 * any directory of a checkpoint, or of any file that is about no entry: of that there
 * are type, accepts and dir.root only. */
void ck_tree_rights(const struct ck_catalog *of, const struct ck_node *n,
		    struct ck_node_stat *out);

/* What the elements of a file are, of the catalog. */
struct ck_elements {
	struct ck_str dtype;  /* as stored, without "torch." */
	const int64_t *shape; /* ndim */
	uint32_t ndim;
};

/* False: the file is of no tensor, and of no box of one. */
CK_MUST_USE bool ck_tree_elements(const struct ck_catalog *of,
				  const struct ck_node *n,
				  struct ck_elements *out);

/* The catalog of which a file's number is the present version: ck_catalog_put() it.
 * -ESTALE: the node is an older version; look its name up again. -EISDIR, -ELOOP (a
 * link). */
CK_MUST_USE int ck_tree_pin(struct ck_tree *t, const struct ck_node *n,
			    const struct ck_catalog **out);
/* What a file consists of, in a catalog that was pinned for it: ck_slice_free()
 * it. -ENOMEM; errors of a file that cannot be opened. */
CK_MUST_USE int ck_tree_slice(const struct ck_catalog *c,
			      const struct ck_node *n, struct ck_slice **out);

/* A file that is open. Zero-initialise; reads of `opened` may come from any thread. */
struct ck_tree_file {
	struct ck_locator locator; /* first: the locator is the file */
	/* Set by the caller: */
	struct ck_node node;
	const struct ck_catalog *catalog; /* by ck_tree_pin() */
	/* Where some of its boxes lie was found by a read; an error is that of the
	 * read. May be NULL. */
	int (*located)(struct ck_tree_file *f);
	/* Constant once it is open: */
	struct ck_open_slice
		*opened; /* what is read; NULL: each read answers err */
	int err;	 /* positive errno, or 0 */
	bool faulty; /* of its boxes some were known to have a fault when it was opened */
	bool is_open;
};

/* Errors as of ck_tree_slice(), and of the source where its items are looked at when
 * it is opened; -EREMOTE: bytes of remote files must be brought first, see
 * ck_files_read(). To be closed in any case. May block on the source. */
CK_MUST_USE int ck_tree_file_open(struct ck_tree_file *f);
/* A read of it came to -ESTALE: what has changed is damage from now on. */
void ck_tree_file_changed(const struct ck_tree_file *f);
/* Puts the catalog, too; that may be all there is. */
void ck_tree_file_close(struct ck_tree_file *f);

/* Appends where a link leads. -EINVAL: it is none. */
CK_MUST_USE int ck_tree_link(const struct ck_node *n, struct ck_buf *target);

#define CK_XATTR_PREFIX "user.ckptfs."

/* Appends the value of an extended attribute, of any node. -ENODATA: it has none of
 * that name; `error`, which looks at the items, has errors of the moment and -EREMOTE,
 * too; `replicas_differ`, which compares all bytes, -EINTR if stop says so (NULL: never). */
CK_MUST_USE int ck_tree_xattr(const struct ck_node *n, const char *name,
			      const struct ck_stop *stop, struct ck_buf *out);
/* Appends the names that a file is known to have, each with a NUL behind it. Reads
 * nothing. */
void ck_tree_xattrs(const struct ck_node *n, struct ck_buf *out);

/* --- all of them ------------------------------------------------------------------ */

struct ck_tree_list; /* a directory that is read, at one moment */

/* -ENOTDIR, -ESTALE, -ENOMEM. */
CK_MUST_USE int ck_tree_list(struct ck_tree *t, uint64_t dir,
			     struct ck_tree_list **out);
/* The first entry at position *at or behind it, which *at becomes, and its name. Who
 * only lists directories uses up numbers as long as most are left; then those that
 * nobody has looked up have number 0. -ENOENT: there is none; -ENOMEM. */
CK_MUST_USE int ck_tree_list_next(struct ck_tree_list *l, uint64_t *at,
				  struct ck_node *out, struct ck_buf *name);
/* As ck_tree_use() and ck_tree_stat(). */
CK_MUST_USE int ck_tree_list_use(struct ck_tree_list *l, struct ck_node *n);
CK_MUST_USE int ck_tree_list_stat(const struct ck_tree_list *l,
				  const struct ck_node *n,
				  struct ck_node_stat *out);
void ck_tree_list_end(struct ck_tree_list *l); /* NULL is allowed */

/* Calls each() with the number of each directory in use, and of the files in them that
 * show the time of the checkpoint. -ENOMEM. */
CK_MUST_USE int ck_tree_each(struct ck_tree *t,
			     void (*each)(void *arg, uint64_t number),
			     void *arg);

#endif
