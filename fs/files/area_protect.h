/* SPDX-License-Identifier: MIT */
/*
 * area_protect: the files of files/ that make up the checkpoint, which may not be changed
 * there: its metadata, its data files, and the directories that hold one. They are known by
 * device and inode, so that a hard link to one is one, too. Beside them, names that commits
 * give may not be given to other files.
 *
 * Of a run directory each step that is shown is protected with all that is in it.
 *
 * Threads: any. A check may list files of the source: once after each commit, and at most a
 * twentieth of the time.
 */
#ifndef CKPTFS_AREA_PROTECT_H
#define CKPTFS_AREA_PROTECT_H

#include "area_table.h"

struct ck_area;
struct ck_area_protected;
struct ck_fs;

/* NULL if memory is exhausted. */
struct ck_area_protected *ck_area_protected_make(const struct ck_fs *fs);
void ck_area_protected_free(struct ck_area_protected *p); /* NULL is allowed */

/* Returns 0 if a file may be changed, or removed from its directory; or: -EPERM, with one
 * line in the log for each file; -ENOMEM; -ESTALE if it is not known where it is. */
CK_MUST_USE int ck_area_may_change(struct ck_area *a,
				   const struct ck_area_node *n);
/* The same for a file by its name in a directory, and its state. */
CK_MUST_USE int ck_area_may_remove(struct ck_area *a,
				   const struct ck_area_node *dir,
				   const char *name, const struct stat *st);
/* Returns 0 if a file may get this name in a directory; or errors as above. */
CK_MUST_USE int ck_area_may_name(struct ck_area *a,
				 const struct ck_area_node *dir,
				 const char *name);

#endif
