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

/* With those that the tree has itself. -ENOMEM. */
CK_MUST_USE int ck_tree_views_make(const struct ck_view_source *from,
				   const struct ck_view *const *views, size_t n,
				   struct ck_tree_views *out);
void ck_tree_views_fini(struct ck_tree_views *v);

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
