/* SPDX-License-Identifier: MIT */
/*
 * commit_thread: commits, and notifies the kernel of them.
 */
#ifndef CKPTFS_COMMIT_THREAD_H
#define CKPTFS_COMMIT_THREAD_H

#define FUSE_USE_VERSION 314

#include "ckptfs/commit.h"
#include <fuse_lowlevel.h>

struct ck_write_handle;
struct ck_fs;
struct ck_deferred;
struct ck_commit_thread;

/* Starts the thread, after the session was mounted and before it is served.
 * Finds out how long the kernel may cache names. NULL if memory or threads are
 * exhausted. */
struct ck_commit_thread *ck_commit_thread_start(struct ck_fs *fs);
/* Finishes queued jobs and ends the thread. */
void ck_commit_thread_end(struct ck_commit_thread *p);
void ck_commit_thread_free(
	struct ck_commit_thread *p); /* ended; NULL is allowed */
/* Commits a write handle, and replies to req when its bytes are durable and an
 * open gets them. explicit: as of ck_write_handle_check(). -ENOMEM: the caller
 * must reply. */
CK_MUST_USE int ck_commit_thread_commit(struct ck_fs *fs, fuse_req_t req,
					struct ck_write_handle *wh,
					bool explicit);
/* Runs a deferred request in the thread, where it may commit. Takes l, unless
 * it returns -ENOMEM. */
CK_MUST_USE int ck_commit_thread_retry(struct ck_fs *fs, struct ck_deferred *l);
/* Commits a write handle in the calling thread, which must be allowed to
 * commit. */
CK_MUST_USE int ck_commit_thread_commit_here(struct ck_fs *fs,
					     struct ck_write_handle *wh);

/* Executes CK_IOC_COMMIT or CK_IOC_ABORT, and replies. -ENOMEM: the caller must
 * reply. */
CK_MUST_USE int ck_commit_thread_control(struct ck_fs *fs, fuse_req_t req,
					 unsigned cmd);
/* Drops staged tensors when the mount ends, and logs their names. The thread
 * must have ended. */
void ck_commit_thread_drop_rest(struct ck_fs *fs);

#endif
