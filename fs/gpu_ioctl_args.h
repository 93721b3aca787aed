/* SPDX-License-Identifier: MIT */
/*
 * gpu_ioctl_args: arguments and results of CKPTFS_IOC_GPU, see ckptfs/gpu_memory.h.
 * It does not depend on FUSE.
 */
#ifndef CKPTFS_GPU_IOCTL_ARGS_H
#define CKPTFS_GPU_IOCTL_ARGS_H

#include "ckptfs/device.h"
#include "ckptfs/gpu_memory.h"
#include "ckptfs/tree.h"

/* Copies the arguments. Fields of the result are cleared. */
struct ckptfs_gpu ck_gpu_ioctl_take(const void *in);
/* Returns 0, or: -EINVAL if version or flags are unknown; -ENOTTY if the file
 * is not a tensor. */
CK_MUST_USE int ck_gpu_ioctl_check(const struct ck_tree_file *f,
				   const struct ckptfs_gpu *gpu);
/* Fills gpu with dtype, shape and generation. Returns 0, or: -EOVERFLOW if the
 * tensor has too many dimensions; errors of reading it. */
CK_MUST_USE int ck_gpu_ioctl_describe(const struct ck_tree_file *f,
				      struct ckptfs_gpu *gpu);
/* Fills *out with the bytes to export. False if the tensor has no elements: gpu
 * is complete then. */
CK_MUST_USE bool ck_gpu_ioctl_wish(const struct ck_tree_file *f,
				   const struct ckptfs_gpu *gpu,
				   struct ck_export_request *out);
/* Fills gpu with the location of an export. */
void ck_gpu_ioctl_fill(struct ckptfs_gpu *gpu, const struct ck_export *e);

#endif
