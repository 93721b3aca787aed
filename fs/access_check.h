/* SPDX-License-Identifier: MIT */
/*
 * access_check: permission checks with the present modes and owners of the
 * source.
 */
#ifndef CKPTFS_ACCESS_CHECK_H
#define CKPTFS_ACCESS_CHECK_H

#define FUSE_USE_VERSION 314

#include "ckptfs/base.h"
#include <fuse_lowlevel.h>
#include <sys/types.h>

struct ck_catalog;
struct ck_fs;
struct ck_node;

/* NULL if memory is exhausted */
struct ck_access_checks *ck_access_checks_make(void);
void ck_access_checks_free(struct ck_access_checks *j);
/* Reads modes and owners of the source again. Afterwards ck_node_stat() has the
 * present ones. -ENOMEM: it may still have the old ones. */
CK_MUST_USE int ck_access_refresh(struct ck_fs *fs, const struct ck_node *n);
/* Reads the source again. True if the sender of the request may search the
 * directories and has all of `bits` (CK_MAY_*) for the file. The kernel alone
 * checks the bits of a scratch file.
 *
 * If modes or owners have changed, the kernel is notified to request attributes
 * again. So this must not be called while such a request is answered: the
 * kernel would drop the reply. */
CK_MUST_USE bool ck_access_may_now(struct ck_fs *fs, fuse_req_t req,
				   const struct ck_node *n, mode_t bits);
/* Checks open(2) with these flags again, where the kernel has checked it by
 * older modes. Call it after a look at .metadata and the directory, and once
 * more after the data files were opened. of: the catalog that has the bytes to
 * be read, which may be older than the present one. Returns 0, or: -EACCES if
 * modes have changed and the sender has no permission now; -ENOMEM. */
CK_MUST_USE int ck_access_check_open(struct ck_fs *fs, fuse_req_t req,
				     const struct ck_catalog *of,
				     const struct ck_node *n, int flags);
/* The same for creating, renaming and removing names in the directory; reads
 * the source again. */
CK_MUST_USE int ck_access_check_names(struct ck_fs *fs, fuse_req_t req,
				      const struct ck_node *dir);
/* Returns the CK_MAY_* bits that open(2) with these flags needs. */
CK_MUST_USE mode_t ck_access_bits(int flags);

#endif
