/* SPDX-License-Identifier: MIT */
/*
 * tree: the names below which a checkpoint is shown, without a kernel: from names to
 * nodes, from nodes to attributes and slices. Views say what is in a directory; the
 * tree gives each node a number, and knows the number of each directory that is in
 * use. A number stands for one version of a file; none ever stands for another.
 *
 * Any thread may call anything here, but for making and ending the tree.
 */
#ifndef CKPTFS_TREE_H
#define CKPTFS_TREE_H

#include "ckptfs/format.h"
#include "ckptfs/snapshot.h"
#include "ckptfs/view.h"

#include <sys/types.h>

struct ck_tree;

/* What of a checkpoint's own owner and modes is shown otherwise. */
struct ck_tree_options {
	mode_t umask; /* bits that nothing has */
	bool write; /* the w bits of .metadata and of the directory are shown */
	bool have_uid, have_gid;
	uid_t uid;
	gid_t gid;
	/* What .ckptfs/ shows, nreports; arg is theirs. */
	const struct ck_report *reports;
	size_t nreports;
	void *arg;
};

enum { CK_TREE_ROOT = 1 }; /* the root's number */

/* A node, as it is at the moment. */
struct ck_node_stat {
	uint64_t number;
	uint8_t type;  /* enum ck_node_type */
	uint64_t size; /* bytes; 0 of directories */
	mode_t mode;   /* with the type's bits */
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

/* The directories of `views` lie in the root, in this order, and objects/ and .ckptfs/
 * behind them. The checkpoint, the views and the options outlive the tree. -ENOMEM. */
CK_MUST_USE int ck_tree_make(struct ck_checkpoint *cp,
			     const struct ck_view *const *views, size_t nviews,
			     const struct ck_tree_options *options,
			     struct ck_tree **out);
void ck_tree_free(struct ck_tree *t); /* NULL is allowed */

/* A name in a directory. The node that is answered is in use once more, until
 * ck_tree_forget(). A directory that is not remembered takes a number, of which there are
 * 2 to the 24th for the life of the tree. -ENOENT; -ENOTDIR; -ESTALE: the directory was
 * forgotten; -ENFILE: there is no number left for it; -ENOMEM. */
CK_MUST_USE int ck_tree_lookup(struct ck_tree *t, uint64_t dir,
			       struct ck_str name, struct ck_node_stat *out);
/* A node that was looked up n times more than it was forgotten is in use by n less.
 * A directory of which nothing is in use may have another number when it is looked
 * up again. */
void ck_tree_forget(struct ck_tree *t, uint64_t number, uint64_t n);

/* The first name of a directory at position *at or behind it, which *at becomes;
 * in `name`. A directory that was not looked up has number 0; of a file that is made
 * when it is asked for there is number and type only. Nothing is in use more
 * by that. -ENOENT: there is none; else as of lookup. */
CK_MUST_USE int ck_tree_next(struct ck_tree *t, uint64_t dir, uint64_t *at,
			     struct ck_buf *name, struct ck_node_stat *out);
/* The directory that a directory is in; the root is in itself. -ENOTDIR, -ESTALE. */
CK_MUST_USE int ck_tree_parent(struct ck_tree *t, uint64_t dir, uint64_t *out);
/* Of a node in use. Of an older version of a file: what it is now, under the old
 * number. -ESTALE: there is no such node any more. */
CK_MUST_USE int ck_tree_stat(struct ck_tree *t, uint64_t number,
			     struct ck_node_stat *out);

/* What a file consists of, with the catalog that this is true of: ck_slice_free()
 * and ck_catalog_put() them. -ESTALE: the node is an older version; look its name
 * up again. -EISDIR, -ELOOP (a link), -ENOMEM; errors of what is made, as of
 * ck_object_file_slice(). */
CK_MUST_USE int ck_tree_slice(struct ck_tree *t, uint64_t number,
			      const struct ck_catalog **catalog,
			      struct ck_slice **out);
/* Appends where a link leads. -EINVAL: it is none. */
CK_MUST_USE int ck_tree_link(struct ck_tree *t, uint64_t number,
			     struct ck_buf *target);

#endif
