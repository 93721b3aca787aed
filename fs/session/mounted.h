/* SPDX-License-Identifier: MIT */
/*
 * mounted: which of the kernel's mounts is meant. A path does not say it: who
 * owns a directory above the place may exchange it at any moment.
 */
#ifndef CKPTFS_FS_MOUNTED_H
#define CKPTFS_FS_MOUNTED_H

#include "ckptfs/base.h"

/* A mount, as the kernel tells it from others. */
struct ck_mount_id {
	uint64_t id;	       /* never used again, from Linux 6.8 on */
	int row;	       /* its number in /proc/self/mountinfo */
	uint32_t major, minor; /* its device */
};

/* Rows of the table that could be taken for a mount that is made next. */
struct ck_mounts_before {
	struct ck_mount_id *ids; /* owned */
	size_t n, cap;
};

/* The mount that is seen at a place. Its daemon is not asked. -errno. */
CK_MUST_USE int ck_mount_id(const char *path, struct ck_mount_id *out);

/* Notes what this user has mounted from fsname. 0, or -errno. */
CK_MUST_USE int ck_mounts_note(const char *fsname,
			       struct ck_mounts_before *out);
void ck_mounts_forget(struct ck_mounts_before *before);

/* The one that was not there before. If there are more, since somebody else
 * mounts the same, that at mountpoint, which is canonical. -ENOENT: none can be
 * told; -errno. */
CK_MUST_USE int ck_mount_find_new(const char *fsname, const char *mountpoint,
				  const struct ck_mounts_before *before,
				  struct ck_mount_id *out);

/* An O_PATH descriptor of its root: at mountpoint, or wherever the table says
 * that it is now. -ENOENT: it is not there any more; -EBUSY: it is, and cannot
 * be reached, since it is covered or its path changes all the time. */
CK_MUST_USE int ck_mounted_open(const char *mountpoint,
				const struct ck_mount_id *mounted);

#endif
