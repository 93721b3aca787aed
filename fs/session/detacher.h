/* SPDX-License-Identifier: MIT */
/*
 * detacher: the process that unmounts for a daemon of root. Which mount is
 * meant is said by what the kernel calls it, never by its place alone.
 */
#ifndef CKPTFS_FS_DETACHER_H
#define CKPTFS_FS_DETACHER_H

#include "ckptfs/fs.h"
#include "mounted.h"

/* Tells it which mount is the daemon's, and whether to detach it when the
 * daemon ends, in whatever way. The last order counts. */
void ck_detacher_tell(struct ck_detacher *d, const struct ck_mount_id *mounted,
		      bool detach);
/* Lets it unmount, and waits up to 10 seconds. -EBUSY: it could not, was
 * killed, or is still at it. */
CK_MUST_USE int ck_detacher_wait(struct ck_detacher *d);

#endif
