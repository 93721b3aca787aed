/* SPDX-License-Identifier: MIT */
/*
 * control: the directory .ckptfs and the reports in it.
 */
#ifndef CKPTFS_FS_CONTROL_H
#define CKPTFS_FS_CONTROL_H

#include "ckptfs/snapshot.h"

struct ck_fs;

/* Their argument is the mount. */
extern const struct ck_report ck_fs_reports[];
extern const size_t ck_fs_nreports;

/* Notices what became of the source, and logs it once. */
void ck_control_notice(struct ck_fs *fs);

#endif
