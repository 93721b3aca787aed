/* SPDX-License-Identifier: MIT */
/*
 * mount_ready: the thread that reports that a mount can be used, and ends it at
 * a signal.
 */
#ifndef CKPTFS_MOUNT_READY_H
#define CKPTFS_MOUNT_READY_H

#include "mounted.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* Read-ahead of the kernel, in KiB, where it can be set. */
#define CK_READ_AHEAD_KB 1024

struct ck_fs;

/* State of one mount. Zero-initialise, but for the first three fields. */
struct ck_mount_ready {
	struct ck_fs *fs;
	/* Called once, when the mount can be used; see ck_fs_serve(). */
	void (*ready)(uint64_t mount, void *arg);
	void *arg;
	/* Private: */
	const struct ck_mount_id *mounted;
	pthread_t thread, caller;
	/* the caller has left the loop of its session */
	atomic_bool ended;
};

/* Blocks the signals that end a mount, in the calling thread, which will serve
 * it, and in threads that it starts. old: the mask before. */
void ck_mount_ready_take_signals(struct ck_mount_ready *k, sigset_t *old);
/* Starts the thread after fs->session was mounted. mounted must stay valid;
 * NULL if the identity of the mount is not known. Returns 0 or a positive
 * errno. */
CK_MUST_USE int ck_mount_ready_start(struct ck_mount_ready *k,
				     const struct ck_mount_id *mounted);
/* The calling thread has left the loop, and must not be woken any more. */
void ck_mount_ready_stop(struct ck_mount_ready *k);
/* Ends the thread. */
void ck_mount_ready_join(struct ck_mount_ready *k);

#endif
