/* SPDX-License-Identifier: MIT */
/* hub_cache: the directory that the links of a Hugging Face cache lead to. Any thread. */
#ifndef CKPTFS_HUB_CACHE_H
#define CKPTFS_HUB_CACHE_H

#include "ckptfs/base.h"

/* Opens DIR/blobs with O_PATH for a path DIR/snapshots/REVISION or one below it. path: absolute,
 * without links. Returns a descriptor, which the caller closes, or: -ENOENT or -ENOTDIR if the
 * path is not in such a cache; -ENOMEM; errors of open(2). */
CK_MUST_USE int ck_hub_cache_open_blobs(const char *path);

#endif
