/* SPDX-License-Identifier: MIT */
/*
 * reach: the files that a checkpoint may consist of: those beneath its
 * directory and, with a second directory, linkroot, also regular files beneath
 * linkroot that symbolic links point to. An example is a hub cache, where
 * snapshots/<revision>/x points to ../../blobs/y. A part of base. Any thread.
 */
#ifndef CKPTFS_REACH_H
#define CKPTFS_REACH_H

#include "ckptfs/base.h"

struct ck_reach {
	int dirfd;
	enum ck_beneath how; /* links that stay beneath dirfd */
	int linkroot;	     /* a directory, or -1 */
};

/* As ck_open_beneath(). If that refuses a link, its target is resolved by name
 * only, and is opened if it is a regular file beneath linkroot. Links beneath
 * linkroot are resolved in the same way. No other target is touched. */
CK_MUST_USE int ck_open_reached(const struct ck_reach *r, struct ck_str path,
				int flags);
/* The path of an open file relative to a directory above it. The caller frees
 * *out. Returns 0, -EXDEV if the file is not beneath dirfd, -ENOMEM, or the
 * error of readlink(2). */
CK_MUST_USE int ck_path_beneath(int dirfd, int fd, char **out);

#endif
