/* SPDX-License-Identifier: MIT */
/*
 * tree_internal: what the files of the tree share.
 */
#ifndef CK_TREE_INTERNAL_H
#define CK_TREE_INTERNAL_H

#include "ckptfs/replicas.h"
#include "ckptfs/tree.h"
#include "dirs.h"

struct ck_dir_node;

/* Constant, but for what locks itself, damage, replicas and made, and for what is said below. */
struct ck_root {
	struct ck_checkpoint *cp;
	const struct ck_tree_options *options;
	struct ck_damage *damage;
	struct ck_differing *replicas;
	/* n, with those that the tree has itself, and what each has made of the
	 * checkpoint. */
	const struct ck_view **views;
	const void **states;
	size_t n;
	struct ck_aside *aside; /* what lies beside it; or NULL */
	/* Of a run directory, the steps that were looked up; else NULL. */
	struct ck_made *made;
	struct ck_root *above; /* the run that it is a step of; or NULL */

	/* Under ck_dirs.lock of the tree: */
	uint64_t uses;		   /* here, and in steps below */
	struct ck_dir_node *nodes; /* its directories, the newest first */

	/* Atomic: */
	bool gone;	   /* the step is another one by now, or none */
	uint64_t renewals; /* of access that were told of */
	unsigned said;	   /* bits: what the log has */
};

struct ck_tree {
	struct ck_dirs dirs; /* locks itself */
};

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

/* What of a version the numbers of a row say. */
static inline uint64_t ck_version_in(const struct ck_dir_row *row,
				     uint64_t version)
{
	return version > row->base ? version - row->base : 0;
}

/* The number of an entry that is no directory. Errors as of ck_dirs_renew(). */
CK_MUST_USE int ck_tree_number(struct ck_tree *t, const struct ck_tree_place *p,
			       const struct ck_node *n, uint64_t *out);
/* A directory gets a number, and is in use once more. */
CK_MUST_USE int ck_tree_enter(struct ck_tree *t, uint32_t in,
			      struct ck_node *n);
/* The present catalog of the checkpoint that a directory is of: put it back. */
const struct ck_catalog *ck_dir_catalog(const struct ck_dir *dir);
/* In a catalog that is not older than the node. */
CK_MUST_USE int ck_tree_stat_in(const struct ck_catalog *c,
				const struct ck_node *n,
				struct ck_node_stat *out);

/* --- run.c ----------------------------------------------------------------------- */

/* The steps of a run directory, none of which is looked up. -ENOMEM. */
CK_MUST_USE int ck_made_make(struct ck_root *root,
			     const struct ck_view *const *views, size_t nviews,
			     struct ck_made **out);
void ck_made_free(struct ck_made *m); /* NULL is allowed */
/* The tree that they are in, from now on. */
void ck_made_begin(struct ck_made *m, struct ck_dirs *dirs);
/* A step that ck_child.step is of: it has a directory now that is in use, or none. */
void ck_made_entered(struct ck_root *step);
/* Appends a line for each subdirectory that is not shown. */
void ck_made_status(const struct ck_root *r, struct ck_buf *out);
/* Appends a line for each step that is known to be damaged. */
void ck_made_damage(const struct ck_root *r, struct ck_buf *out);
struct ck_dir ck_made_dir(struct ck_root *r);
uint64_t ck_made_count(const struct ck_root *r);

/* --- views of the tree itself ---------------------------------------------------- */

extern const struct ck_view ck_view_objects, ck_view_control;

/* --- aside.c --------------------------------------------------------------------- */

/* Of a checkpoint, which outlives it. NULL: out of memory. */
struct ck_aside *ck_aside_make(struct ck_checkpoint *cp);
void ck_aside_free(struct ck_aside *a); /* NULL is allowed */

/* --- root.c ---------------------------------------------------------------------- */

/* Whether a view's directory is shown: view i of a root. */
bool ck_root_has(const struct ck_root *r, const struct ck_catalog *c, size_t i);

/* --- reports.c ------------------------------------------------------------------- */

/* The files of .ckptfs/; their argument is the root. */
extern const struct ck_report ck_reports[];
/* How many of them a checkpoint has: the last ones are of several hosts. */
size_t ck_report_count(const struct ck_root *r);

/* --- attr.c -------------------------------------------------------------------- */

/* Owner, mode, time and size of a directory, or of a file; not its number. */
void ck_tree_dir_attr(const struct ck_tree_options *o,
		      const struct ck_catalog *c, struct ck_node_stat *out);
void ck_tree_file_attr(const struct ck_tree_options *o,
		       const struct ck_catalog *c,
		       const struct ck_file_content *about,
		       struct ck_node_stat *out);

#endif
