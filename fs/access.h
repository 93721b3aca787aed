/* SPDX-License-Identifier: MIT */
/*
 * access: who may open what, when that is changed under a mount.
 */
#ifndef CKPTFS_FS_ACCESS_H
#define CKPTFS_FS_ACCESS_H

#include "ckptfs/base.h"

struct ck_fs;
struct ck_node;

struct ck_judged *ck_judged_make(const struct ck_fs *fs); /* NULL: no memory */
void ck_judged_free(struct ck_judged *j);
/* For an open of this node, after its files were looked at: the kernel judged by
 * modes and owners that are no longer what they are. It has to look the name
 * up; the next open is not told so again. */
CK_MUST_USE bool ck_access_is_old(struct ck_fs *fs, const struct ck_node *n);
/* Looks at the source; ck_node_stat() has what is so then. */
void ck_access_look(struct ck_fs *fs, const struct ck_node *n);

#endif
