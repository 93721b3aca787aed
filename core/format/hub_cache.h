/* SPDX-License-Identifier: MIT */
/* hub_cache: the directory that the links of a Hugging Face cache lead to. Any thread. */
#ifndef CKPTFS_HUB_CACHE_H
#define CKPTFS_HUB_CACHE_H

#include "ckptfs/base.h"

/* path: absolute, without links. If it is DIR/snapshots/REVISION, or a directory in it, and
 * DIR/blobs is a directory: that one, opened with O_PATH; the caller closes it. -ENOENT,
 * -ENOTDIR: it is not in such a cache. */
CK_MUST_USE int ck_hub_cache_open_blobs(const char *path);

#endif
