/* SPDX-License-Identifier: MIT */
/*
 * mounted: identifies a mount in the kernel. A path is not enough: the owner of
 * a directory above the mount point may replace it at any time.
 */
#ifndef CKPTFS_MOUNTED_H
#define CKPTFS_MOUNTED_H

#include "ckptfs/base.h"

/* Identity of a mount. */
struct ck_mount_id {
	uint64_t id;	       /* from Linux 6.8 on never used again */
	int row;	       /* its number in /proc/self/mountinfo */
	uint32_t major, minor; /* its device */
};

/* Mounts of the same source and user that existed before the next one. */
struct ck_mounts_before {
	struct ck_mount_id *ids; /* owned */
	size_t n, cap;
};

/* Identity of the mount at a path. Sends no request to its daemon. Returns 0 or
 * a negative errno. */
CK_MUST_USE int ck_mount_id(const char *path, struct ck_mount_id *out);

/* Collects the mounts of fsname by this user. Returns 0 or a negative errno. */
CK_MUST_USE int ck_mounts_note(const char *fsname,
			       struct ck_mounts_before *out);
void ck_mounts_forget(struct ck_mounts_before *before);

/* Finds the mount that is not in `before`. If there are several, since another
 * process mounts the same source, takes the one at mountpoint, which must be
 * canonical. Returns 0, or: -ENOENT if it cannot be identified; another
 * negative errno. */
CK_MUST_USE int ck_mount_find_new(const char *fsname, const char *mountpoint,
				  const struct ck_mounts_before *before,
				  struct ck_mount_id *out);

/* Opens the root of a mount with O_PATH, at mountpoint or where the mount table
 * has it now. Returns a descriptor, or: -ENOENT if the mount does not exist;
 * -EBUSY if it is covered, or if its path changes all the time. */
CK_MUST_USE int ck_mounted_open(const char *mountpoint,
				const struct ck_mount_id *mounted);

#endif
