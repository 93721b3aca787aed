/* SPDX-License-Identifier: MIT */
/*
 * exported: ioctl(2) on an open tensor, which gives it in the memory of a GPU: see client.h.
 */
#ifndef CKPTFS_FS_GPU_IOCTL_H
#define CKPTFS_FS_GPU_IOCTL_H

#include "handle.h"

/* The one request. */
void ck_gpu_ioctl(fuse_req_t req, const struct fuse_file_info *fi,
		  const void *in, size_t in_len, size_t out_len);
/* All requests, of which some are orders. */
void ck_fs_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
		 struct fuse_file_info *fi, unsigned flags, const void *in,
		 size_t in_len, size_t out_len);

#endif
