/* SPDX-License-Identifier: MIT */
/*
 * wished: what is asked of an open tensor by CKPTFS_IOC_GPU, and what is answered: see
 * client.h. Knows no request of the kernel.
 */
#ifndef CKPTFS_FS_GPU_IOCTL_ARGS_H
#define CKPTFS_FS_GPU_IOCTL_ARGS_H

#include "ckptfs/client.h"
#include "ckptfs/export.h"
#include "ckptfs/tree.h"

/* What was asked, without what the caller had in the fields of the answer. */
struct ckptfs_gpu ck_gpu_ioctl_take(const void *in);
/* Whether such a question can be asked of the file. -EINVAL; -ENOTTY: it is no tensor. */
CK_MUST_USE int ck_gpu_ioctl_check(const struct ck_tree_file *f,
				   const struct ckptfs_gpu *gpu);
/* What the tensor is goes to gpu. Errors as of a read of it; -EOVERFLOW. */
CK_MUST_USE int ck_gpu_ioctl_describe(const struct ck_tree_file *f,
				      struct ckptfs_gpu *gpu);
/* Which bytes are wanted, and how. False: the tensor has none, and all was answered. */
CK_MUST_USE bool ck_gpu_ioctl_wish(const struct ck_tree_file *f,
				   const struct ckptfs_gpu *gpu,
				   struct ck_export_wish *out);
/* Where they are. */
void ck_gpu_ioctl_fill(struct ckptfs_gpu *gpu, const struct ck_export *e);

#endif
