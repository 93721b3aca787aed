/* SPDX-License-Identifier: MIT */
/*
 * tree_internal: what the files of the tree share.
 */
#ifndef CK_TREE_INTERNAL_H
#define CK_TREE_INTERNAL_H

#include "ckptfs/tree.h"
#include "dirs.h"

/* --- root.c: the directories of the views ------------------------------------- */

/* The views of a checkpoint, and what each has made of it. The state of the root. */
struct ck_tree_views {
	const struct ck_view **views;
	const void **states;
	size_t n;
};

extern const struct ck_view ck_view_root;

struct ck_tree {
	/* Constant: */
	struct ck_checkpoint *cp;
	const struct ck_tree_options *options;
	struct ck_tree_views views;

	struct ck_damage *damage; /* locks itself */
	struct ck_dirs dirs;	  /* locks itself */
};

/* With those that the tree has itself. -ENOMEM. */
CK_MUST_USE int ck_tree_views_make(const struct ck_view_source *from,
				   const struct ck_view *const *views, size_t n,
				   struct ck_tree_views *out);
void ck_tree_views_fini(struct ck_tree_views *v);

/* --- tree.c --------------------------------------------------------------------- */

/* Where something is asked for. */
struct ck_tree_place {
	struct ck_dir_row row;
	const struct ck_catalog *c; /* held */
};

/* What an entry is, but for the number of a directory. -ENOENT: it is gone. */
CK_MUST_USE int ck_tree_child(const struct ck_tree_place *p,
			      const struct ck_child *child,
			      struct ck_node *out);
/* The number of an entry that is no directory, of a directory that is in use
 * `uses` times more. */
CK_MUST_USE int ck_tree_number(struct ck_tree *t, const struct ck_tree_place *p,
			       const struct ck_node *n, uint64_t uses,
			       uint64_t *out);
/* A directory in it gets a number, and is in use once more. */
CK_MUST_USE int ck_tree_enter(struct ck_tree *t, uint32_t in, uint64_t base,
			      struct ck_node *n);
/* In a catalog that is not older than the node. */
CK_MUST_USE int ck_tree_stat_in(const struct ck_tree *t,
				const struct ck_catalog *c,
				const struct ck_node *n,
				struct ck_node_stat *out);

/* --- views that read the checkpoint, or ask whoever has the tree ---------------- */

extern const struct ck_view ck_view_objects, ck_view_control;

/* --- attr.c -------------------------------------------------------------------- */

/* Owner, mode, time and size of a directory, or of a file; not its number. */
void ck_tree_dir_attr(const struct ck_tree_options *o,
		      const struct ck_catalog *c, struct ck_node_stat *out);
void ck_tree_file_attr(const struct ck_tree_options *o,
		       const struct ck_catalog *c, const struct ck_about *about,
		       struct ck_node_stat *out);

#endif
