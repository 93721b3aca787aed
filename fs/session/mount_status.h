/* SPDX-License-Identifier: MIT */
/*
 * mount_status: the state of a mount, in .ckptfs/status and in the log.
 */
#ifndef CKPTFS_MOUNT_STATUS_H
#define CKPTFS_MOUNT_STATUS_H

#include "ckptfs/base.h"

struct ck_root;
struct ck_fs;

/* Appends the report `status`; arg is the mount. */
void ck_mount_status_report(void *arg, struct ck_root *of, struct ck_buf *out);

/* Looks at the source, and logs once if it was replaced, moved or removed. */
void ck_mount_status_notice(struct ck_fs *fs, struct ck_root *of);

#endif
