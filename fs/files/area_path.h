/* SPDX-License-Identifier: MIT */
/*
 * area_path: the files that a path beneath a directory leads through: directories, symbolic
 * links and the last file. Without one of them the path does not lead there.
 */
#ifndef CKPTFS_AREA_PATH_H
#define CKPTFS_AREA_PATH_H

#include "ckptfs/base.h"

#include <sys/stat.h>

/* Calls each() for these files, but not for the directories of path.p[0 .. known) if that
 * leads through no link: `known` is 0 or follows a '/'. Stops at a name that does not exist,
 * at a link that leaves the directory or has an absolute target, and after 40 links. Any
 * thread. Returns 0, or: -ENOMEM; the first result of each() that is not 0. */
CK_MUST_USE int ck_area_path_each(int dirfd, struct ck_str path, size_t known,
				  int (*each)(void *arg, const struct stat *st),
				  void *arg);

#endif
