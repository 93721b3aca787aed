/* SPDX-License-Identifier: MIT */
/*
 * control: what a mount says of itself.
 */
#ifndef CKPTFS_FS_MOUNT_STATUS_H
#define CKPTFS_FS_MOUNT_STATUS_H

#include "ckptfs/base.h"

struct ck_root;
struct ck_fs;

/* Appends the report `status`; arg is the mount. */
void ck_mount_status_report(void *arg, struct ck_root *of, struct ck_buf *out);

/* Notices what became of the source, and logs it once. */
void ck_mount_status_notice(struct ck_fs *fs, struct ck_root *of);

#endif
