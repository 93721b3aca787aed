/* SPDX-License-Identifier: MIT */
/*
 * access: who may open what, when that is changed under a mount.
 */
#ifndef CKPTFS_FS_ACCESS_CHECK_H
#define CKPTFS_FS_ACCESS_CHECK_H

#define FUSE_USE_VERSION 314

#include "ckptfs/base.h"
#include <fuse_lowlevel.h>
#include <sys/types.h>

struct ck_catalog;
struct ck_fs;
struct ck_node;

struct ck_access_checks *ck_access_checks_make(void); /* NULL: no memory */
void ck_access_checks_free(struct ck_access_checks *j);
/* Looks at the source again: from then on ck_node_stat() answers what is
 * there now. -ENOMEM: it may answer what was. */
CK_MUST_USE int ck_access_refresh(struct ck_fs *fs, const struct ck_node *n);
/* Looks at the source: whoever asks may search the directories and has these bits
 * of the file. bits: CK_MAY_*; of a scratch file they are the kernel's to judge.
 * If anything was changed the kernel is told to ask for attributes anew, so this
 * is not for the request that asks for them: it would drop the answer. */
CK_MUST_USE bool ck_access_may_now(struct ck_fs *fs, fuse_req_t req,
				   const struct ck_node *n, mode_t bits);
/* The kernel has let the caller pass, by modes that it was told earlier.
 * Judges again by those of now: 0, or -EACCES if they were changed and he
 * may not any more. For open(2) with these flags, after .metadata and the
 * directory were looked at, or the data files, too. What is judged are the bytes
 * that the catalog `of` says, which may be an older one than the present. */
CK_MUST_USE int ck_access_check_open(struct ck_fs *fs, fuse_req_t req,
				     const struct ck_catalog *of,
				     const struct ck_node *n, int flags);
/* The same for a change of names in this directory; looks at the source. */
CK_MUST_USE int ck_access_check_names(struct ck_fs *fs, fuse_req_t req,
				      const struct ck_node *dir);
/* CK_MAY_* of open(2). */
CK_MUST_USE mode_t ck_access_bits(int flags);

#endif
