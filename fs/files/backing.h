/* SPDX-License-Identifier: MIT */
/*
 * backing: FUSE passthrough of files/, from Linux 6.9. The kernel reads, writes and maps an
 * open file of the source itself, its "backing file"; all other requests come to the daemon as
 * before. The daemon registers the backing file at the first open of a
 * file and removes it after the last one: the kernel requires that all opens of an inode at
 * one time have the same backing file, or all have not.
 *
 * To register one needs CAP_SYS_ADMIN, which a daemon of root drops: a process of its own
 * does that. The daemon of another user has no passthrough.
 *
 * Any thread may call these functions.
 */
#ifndef CKPTFS_BACKING_H
#define CKPTFS_BACKING_H

#include "ckptfs/base.h"

struct ck_backing;

/* The backing file of a node. All zeros at first. Under ck_backing.lock. */
struct ck_backed {
	unsigned opens; /* of the node */
	int id;		/* of the backing file in the kernel, or 0 */
};

/* The answer of the kernel to FUSE_INIT. False: it has no passthrough, or the mount no files/:
 * then the process ends. */
void ck_backing_offered(struct ck_backing *b, bool offered);
/* True if passthrough is to be requested. NULL is allowed. */
CK_MUST_USE bool ck_backing_is_wanted(struct ck_backing *b);
/* Counts an open of a regular file with these flags, whose descriptor is fd. device is that
 * of the session. Returns the id of its backing file, or 0 if the daemon must read and write.
 * NULL is allowed: 0.
 *
 * A file that is opened first for appending has no backing file: the kernel (6.18) appends to a
 * backing file also after F_SETFL has removed O_APPEND. Nor has one that can only be appended
 * to (chattr +a). */
CK_MUST_USE int ck_backing_take(struct ck_backing *b, struct ck_backed *file,
				int device, int fd, int flags);
/* Counts a close. NULL is allowed. */
void ck_backing_drop(struct ck_backing *b, struct ck_backed *file, int device);
/* Adds "passthrough", with the numbers of files that have it and of all open ones if these
 * differ, or "no passthrough: " and the reason. NULL is allowed. */
void ck_backing_status(const struct ck_backing *b, struct ck_buf *out);

#endif
