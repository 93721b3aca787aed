/* SPDX-License-Identifier: MIT */
/*
 * detacher: the process that unmounts for a daemon of root. Which mount is
 * meant is said by what the kernel calls it, never by its place alone.
 */
#ifndef CKPTFS_FS_DETACHER_H
#define CKPTFS_FS_DETACHER_H

#include "ckptfs/fs.h"

/* A mount, as the kernel tells it from others. */
struct ck_mount_id {
	uint64_t id;
	uint32_t major, minor; /* its device */
};

/* The mount that is seen at a place. Its daemon is not asked. -errno. */
CK_MUST_USE int ck_mount_id(const char *path, struct ck_mount_id *out);

/* This is the mount, and whether to detach it when the daemon ends, in whatever
 * way. The last word counts. */
void ck_detacher_tell(struct ck_detacher *d, const struct ck_mount_id *mounted,
		      bool detach);
/* Lets it do that, and waits. -EBUSY: it could not, or was gone. */
CK_MUST_USE int ck_detacher_wait(struct ck_detacher *d);

#endif
