/* SPDX-License-Identifier: MIT */
/*
 * gpu_ioctl: ioctl(2) CKPTFS_IOC_GPU on an open tensor, which exports it in the
 * memory of a GPU. See ckptfs/client.h.
 */
#ifndef CKPTFS_FS_GPU_IOCTL_H
#define CKPTFS_FS_GPU_IOCTL_H

#include "handle.h"

/* Handles CKPTFS_IOC_GPU. */
void ck_gpu_ioctl(fuse_req_t req, const struct fuse_file_info *fi,
		  const void *in, size_t in_len, size_t out_len);
/* Handles all ioctl(2) requests of a mount: this one, and those of
 * control_ioctl.c. */
void ck_fs_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
		 struct fuse_file_info *fi, unsigned flags, const void *in,
		 size_t in_len, size_t out_len);

#endif
