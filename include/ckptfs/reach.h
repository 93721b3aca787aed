/* SPDX-License-Identifier: MIT */
/*
 * reach: where the files of a checkpoint may lie: beneath its directory, and with a
 * second directory, linkroot, also where a link leads to a regular file beneath that
 * one, as those of a hub cache do: snapshots/<revision>/x leads to ../../blobs/y. A part
 * of base. Any thread.
 */
#ifndef CKPTFS_REACH_H
#define CKPTFS_REACH_H

#include "ckptfs/base.h"

struct ck_reach {
	int dirfd;
	enum ck_beneath how; /* links that stay beneath dirfd */
	int linkroot;	     /* a directory; -1: there is none */
};

/* ck_open_beneath(); a link for which that is refused is followed by its names: if they
 * lie beneath linkroot, what they name is opened from there, without any other link.
 * Nothing else that it may lead to is touched. */
CK_MUST_USE int ck_open_reached(const struct ck_reach *r, struct ck_str path,
				int flags);
/* Where an open file lies, seen from a directory that it is beneath: free *out. -EXDEV:
 * it is not; errors of readlink(2), -ENOMEM: nobody can tell. */
CK_MUST_USE int ck_path_beneath(int dirfd, int fd, char **out);

#endif
