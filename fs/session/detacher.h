/* SPDX-License-Identifier: MIT */
/*
 * detacher: the process that unmounts for a daemon of root. It identifies the
 * mount by the number in the kernel, not by its path alone.
 */
#ifndef CKPTFS_DETACHER_H
#define CKPTFS_DETACHER_H

#include "ckptfs/fs.h"
#include "mounted.h"

/* Sends the identity of the daemon's mount, and whether to detach it when the
 * daemon ends. The last message counts. */
void ck_detacher_send(struct ck_detacher *d, const struct ck_mount_id *mounted,
		      bool detach);
/* Ends the process after it has unmounted, and waits up to 10 seconds. -EBUSY
 * if it failed, was killed, or is still unmounting. */
CK_MUST_USE int ck_detacher_wait(struct ck_detacher *d);

#endif
