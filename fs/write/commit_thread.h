/* SPDX-License-Identifier: MIT */
/*
 * publish: commits, and telling the kernel of them.
 */
#ifndef CKPTFS_FS_COMMIT_THREAD_H
#define CKPTFS_FS_COMMIT_THREAD_H

#define FUSE_USE_VERSION 314

#include "ckptfs/commit.h"
#include <fuse_lowlevel.h>

struct ck_write_handle;
struct ck_fs;
struct ck_deferred;
struct ck_commit_thread;

/* Starts its thread, when the session is mounted and not yet served, and finds
 * out how long names may be kept. NULL: no memory, or no thread. */
struct ck_commit_thread *ck_commit_thread_start(struct ck_fs *fs);
/* Finishes what it was asked for, and ends its thread. */
void ck_commit_thread_end(struct ck_commit_thread *p);
void ck_commit_thread_free(
	struct ck_commit_thread *p); /* ended; NULL is allowed */
/* Commits a draft and answers req when it is durable and an open finds it.
 * asked: as for ck_write_handle_check(). -ENOMEM: nobody will answer. */
CK_MUST_USE int ck_commit_thread_commit(struct ck_fs *fs, fuse_req_t req,
					struct ck_write_handle *wh, bool asked);
/* Takes up a request where it may commit, and owns it then. -ENOMEM: it does
 * not. */
CK_MUST_USE int ck_commit_thread_retry(struct ck_fs *fs, struct ck_deferred *l);
/* Commits a draft in the calling thread, where a request may commit. */
CK_MUST_USE int ck_commit_thread_commit_here(struct ck_fs *fs,
					     struct ck_write_handle *wh);

/* Does what is ordered, and answers. -ENOMEM: nobody will answer. */
CK_MUST_USE int ck_commit_thread_control(struct ck_fs *fs, fuse_req_t req,
					 unsigned order);
/* Drops the tensors that are staged when the mount ends; the log names them. The publisher
 * has ended. */
void ck_commit_thread_drop_rest(struct ck_fs *fs);

#endif
