/* SPDX-License-Identifier: MIT */
/*
 * keeper: the thread that says that a mount can be used, and ends it at a signal.
 */
#ifndef CKPTFS_FS_MOUNT_READY_H
#define CKPTFS_FS_MOUNT_READY_H

#include "mounted.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* What the kernel reads ahead, if it may. */
#define CK_READ_AHEAD_KB 1024

struct ck_fs;

/* One for each mount; zero but for these three. */
struct ck_mount_ready {
	struct ck_fs *fs;
	/* Called once, when the tree can be used; see ck_fs_serve(). */
	void (*ready)(uint64_t mount, void *arg);
	void *arg;
	/* mount_ready.c */
	const struct ck_mount_id *mounted;
	pthread_t thread, caller;
	atomic_bool ended; /* the caller left the loop of its session */
};

/* Blocks the signals that end a mount, for this thread, which is the one that
 * will serve it, and for all to come. old: what was blocked before. */
void ck_mount_ready_take_signals(struct ck_mount_ready *k, sigset_t *old);
/* Starts the thread when fs->session is mounted. mounted stays the caller's;
 * NULL: which mount it is cannot be told. 0, or errno. */
CK_MUST_USE int ck_mount_ready_start(struct ck_mount_ready *k,
				     const struct ck_mount_id *mounted);
/* The calling thread has left the loop: it need not be woken. */
void ck_mount_ready_stop(struct ck_mount_ready *k);
/* Ends the thread. */
void ck_mount_ready_join(struct ck_mount_ready *k);

#endif
