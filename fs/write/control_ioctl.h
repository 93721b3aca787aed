/* SPDX-License-Identifier: MIT */
/*
 * control_ioctl: ioctl(2) on the root of a mount, by `ckptfs commit` and
 * `ckptfs abort`.
 */
#ifndef CKPTFS_FS_CONTROL_IOCTL_H
#define CKPTFS_FS_CONTROL_IOCTL_H

#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>

/* Handles CK_IOC_COMMIT and CK_IOC_ABORT. */
void ck_fs_control_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned order,
			 void *arg, struct fuse_file_info *fi, unsigned flags,
			 const void *in, size_t in_len, size_t out_len);

#endif
