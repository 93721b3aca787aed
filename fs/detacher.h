/* SPDX-License-Identifier: MIT */
/*
 * detacher: the process that unmounts for a daemon of root. Which mount is
 * meant is said by what the kernel calls it, never by its place alone.
 */
#ifndef CKPTFS_FS_DETACHER_H
#define CKPTFS_FS_DETACHER_H

#include "ckptfs/fs.h"
#include "mounted.h"

/* This is the mount, and whether to detach it when the daemon ends, in whatever
 * way. The last word counts. */
void ck_detacher_tell(struct ck_detacher *d, const struct ck_mount_id *mounted,
		      bool detach);
/* Lets it do that, and waits, for 10 seconds at most. -EBUSY: it could not, or was
 * gone, or does it later. */
CK_MUST_USE int ck_detacher_wait(struct ck_detacher *d);

#endif
