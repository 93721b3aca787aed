/* SPDX-License-Identifier: MIT */
/*
 * tree_internal: shared by the files of core/tree.
 */
#ifndef CK_TREE_INTERNAL_H
#define CK_TREE_INTERNAL_H

#include "ckptfs/tree.h"
#include "dirs.h"
#include "tree/reports/replicas.h"

struct ck_dir_node;

/* The tree of one checkpoint. Constant, but for damage, replicas and made, which lock
 * themselves, and for the fields below them. */
struct ck_root {
	struct ck_checkpoint *cp;
	const struct ck_tree_options *options;
	struct ck_damage *damage;
	struct ck_differing *replicas;
	/* n views, with those of the tree itself, and the state of each. */
	const struct ck_view **views;
	const void **states;
	size_t n;
	struct ck_stats *stats; /* of files of this host only; else NULL */
	struct ck_aside *aside; /* files beside the checkpoint; or NULL */
	/* The steps of a run directory that were looked up; else NULL. */
	struct ck_made *made;
	struct ck_root *above; /* the run that it is a step of; or NULL */

	/* Under ck_dirs.lock of the tree: */
	uint64_t uses;		   /* here, and in steps below */
	struct ck_dir_node *nodes; /* its directories, the newest first */

	/* Atomic: */
	bool gone;	   /* the step was removed or replaced */
	uint64_t renewals; /* changes of access that were logged */
	unsigned logged;   /* bits: messages that were logged */
};

struct ck_tree {
	struct ck_dirs dirs; /* locks itself */
};

/* --- tree.c --------------------------------------------------------------------- */

/* A directory for a lookup, with the catalog of the lookup. */
struct ck_tree_place {
	struct ck_dir_row row;
	const struct ck_catalog *c; /* held */
};

/* Makes the node of an entry, without the number of a directory. Returns 0, or -ENOENT if
 * the entry does not exist any more. */
CK_MUST_USE int ck_tree_child(const struct ck_tree_place *p,
			      const struct ck_child *child,
			      struct ck_node *out);

/* The version of a file relative to the base of a directory's number. */
static inline uint64_t ck_version_in(const struct ck_dir_row *row,
				     uint64_t version)
{
	return version > row->base ? version - row->base : 0;
}

/* The number of a file. Returns 0, or errors of ck_dirs_renew(). */
CK_MUST_USE int ck_tree_number(struct ck_tree *t, const struct ck_tree_place *p,
			       const struct ck_node *n, uint64_t *out);
/* Numbers a directory and counts one more use. Returns 0, or errors of ck_dirs_get(). */
CK_MUST_USE int ck_tree_enter(struct ck_tree *t, uint32_t in,
			      struct ck_node *n);
/* The present catalog of a directory's checkpoint. Caller puts it back. */
const struct ck_catalog *ck_dir_catalog(const struct ck_dir *dir);
/* Gets the attributes of a node. c must not be older than the node. */
CK_MUST_USE int ck_tree_stat_in(const struct ck_catalog *c,
				const struct ck_node *n,
				struct ck_node_stat *out);

/* --- run.c ----------------------------------------------------------------------- */

/* Makes the table of steps of a run directory, empty. Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_made_make(struct ck_root *root,
			     const struct ck_view *const *views, size_t nviews,
			     struct ck_made **out);
void ck_made_free(struct ck_made *m); /* NULL is allowed */
/* Sets the table of directories that the steps use. */
void ck_made_begin(struct ck_made *m, struct ck_dirs *dirs);
/* Ends the lookup of the step in ck_child.step, after its directory was numbered or the
 * lookup failed. */
void ck_made_entered(struct ck_root *step);
/* Appends the numbers of steps that are shown and not shown, and a line for each subdirectory
 * that is not shown. Appends nothing if the run directory cannot be read. */
void ck_made_status(const struct ck_root *r, struct ck_buf *out);
/* Appends a line for each step that is known to be damaged. */
void ck_made_damage(const struct ck_root *r, struct ck_buf *out);
struct ck_dir ck_made_dir(struct ck_root *r);
uint64_t ck_made_count(const struct ck_root *r);

/* --- views of the tree itself ---------------------------------------------------- */

extern const struct ck_view ck_view_objects, ck_view_control;
/* The directory shards/ in .ckptfs/. */
extern const struct ck_view ck_view_shards;

/* --- aside.c --------------------------------------------------------------------- */

/* cp must outlive the result. NULL: out of memory. */
struct ck_aside *ck_aside_make(struct ck_checkpoint *cp);
void ck_aside_free(struct ck_aside *a); /* NULL is allowed */

/* --- option_files.c ---------------------------------------------------------------- */

/* Reads and parses the file of option placements. Caller must call ck_place_rules_free().
 * Returns 0, or: -EBADMSG if it is malformed, or not a regular file; -EFBIG; errors of
 * open(2) and read(2); -ENOMEM. */
CK_MUST_USE int ck_place_rules_read(const char *path,
				    struct ck_place_rules **out,
				    struct ck_diag *d);

/* --- root.c ---------------------------------------------------------------------- */

/* True if the directory of view i of a root is shown. */
bool ck_root_has(const struct ck_root *r, const struct ck_catalog *c, size_t i);

/* --- reports.c ------------------------------------------------------------------- */

/* The files of .ckptfs/. Their argument is the root. */
extern const struct ck_report ck_reports[];
extern const size_t ck_nreports;

/* --- attr.c -------------------------------------------------------------------- */

/* Get owner, mode, time and size of a directory, or of a file, without its number. */
void ck_tree_dir_attr(const struct ck_tree_options *o,
		      const struct ck_catalog *c, struct ck_node_stat *out);
void ck_tree_file_attr(const struct ck_tree_options *o,
		       const struct ck_catalog *c,
		       const struct ck_file_content *about,
		       struct ck_node_stat *out);

#endif
