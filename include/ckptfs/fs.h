/* SPDX-License-Identifier: MIT */
/*
 * fs: mounts an open checkpoint and serves FUSE requests until it is unmounted.
 */
#ifndef CKPTFS_FS_H
#define CKPTFS_FS_H

#include "ckptfs/io.h"
#include "options/options.h"

#include <sys/ioctl.h>

/* The process that unmounts for a daemon of root, which drops that privilege. */
struct ck_detacher;

/* Starts the process. Must be called before threads are started and files
 * opened. For other users than root *out is unchanged. mountpoint must stay
 * valid as long as *out. */
CK_MUST_USE int ck_detacher_start(const char *mountpoint,
				  struct ck_detacher **out, struct ck_diag *d);
/* Makes it execute its last message and end. NULL is allowed. */
void ck_detacher_end(struct ck_detacher *detacher);

/* Starts the process that makes files in files/ of a writable mount, as the users who
 * request it. Must be called as ck_detacher_start(). Caller must call ck_creator_end(). */
struct ck_creator;
CK_MUST_USE int ck_creator_start(struct ck_creator **out, struct ck_diag *d);
/* Lets it end. NULL is allowed. */
void ck_creator_end(struct ck_creator *creator);

/* Starts the process that registers files of files/ for FUSE passthrough, if the options
 * and the user allow it. Must be called as ck_detacher_start(). Returns 0, or -ENOMEM.
 * Caller must call ck_backing_end(). */
struct ck_backing;
CK_MUST_USE int ck_backing_start(const struct ck_mount_options *o,
				 struct ck_backing **out, struct ck_diag *d);
/* Lets it end. NULL is allowed. */
void ck_backing_end(struct ck_backing *backing);

/* Returns the hook for threads that are started before the mount. It drops the
 * privileges of root that serving does not need; a failure is logged. For other
 * users it does nothing. *o must stay valid. */
CK_EXPORT struct ck_thread_init ck_fs_thread_init(struct ck_mount_options *o);

/* Mounts cp on mountpoint and serves requests until the mount ends, or until
 * SIGTERM, SIGINT or SIGHUP; then unmounts.
 *
 * ready(mount, arg) is called once, from another thread, when the mount can be
 * used. mount is its id of statx(2), which Linux 6.8 and later never reuse; 0
 * if it cannot be identified. detacher: unmounts for this process, which then
 * keeps no privilege that serving does not need; stays the caller's. NULL: this
 * process unmounts itself. Returns 0 after a clean end. */
CK_MUST_USE int ck_fs_serve(struct ck_checkpoint *cp, const char *mountpoint,
			    const struct ck_mount_options *options,
			    struct ck_detacher *detacher,
			    void (*ready)(uint64_t mount, void *arg), void *arg,
			    struct ck_diag *d);

/* Prints the versions of libfuse, its kernel interface, and fusermount3 on
 * stdout. Returns 0 or a negative errno. */
CK_MUST_USE int ck_fs_version_print(void);

/* Type of mounts in the kernel's table. */
#define CK_FS_TYPE "fuse.ckptfs"

/* --- commands to a mount ---------------------------------------------------- */

/* Result of CK_IOC_COMMIT and CK_IOC_ABORT, on the root of a writable mount. */
struct ck_control_reply {
	int32_t err; /* 0, or a positive errno */
	char text[2044];
};

#define CK_IOC_COMMIT	   _IOR('k', 1, struct ck_control_reply)
#define CK_IOC_ABORT	   _IOR('k', 2, struct ck_control_reply)
/* Sets the counters of .ckptfs/stats to 0; on the root of any mount. */
#define CK_IOC_RESET_STATS _IO('k', 3)

#endif
