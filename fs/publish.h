/* SPDX-License-Identifier: MIT */
/*
 * publish: commits, and telling the kernel of them.
 */
#ifndef CKPTFS_FS_PUBLISH_H
#define CKPTFS_FS_PUBLISH_H

#define FUSE_USE_VERSION 314

#include "ckptfs/commit.h"
#include <fuse_lowlevel.h>

struct ck_draft;
struct ck_fs;
struct ck_later;
struct ck_publisher;

/* Starts its thread, when the session is mounted and not yet served, and finds
 * out how long names may be kept. NULL: no memory, or no thread. */
struct ck_publisher *ck_publisher_start(struct ck_fs *fs);
/* Finishes what it was asked for, and ends its thread. */
void ck_publisher_end(struct ck_publisher *p);
void ck_publisher_free(struct ck_publisher *p); /* ended; NULL is allowed */
/* Commits a draft and answers req when it is durable and an open finds it.
 * asked: as for ck_draft_settle(). -ENOMEM: nobody will answer. */
CK_MUST_USE int ck_publish(struct ck_fs *fs, fuse_req_t req,
			   struct ck_draft *draft, bool asked);
/* Takes up a request where it may commit, and owns it then. -ENOMEM: it does
 * not. */
CK_MUST_USE int ck_publish_later(struct ck_fs *fs, struct ck_later *l);
/* Commits a draft in the calling thread, where a request may commit. */
CK_MUST_USE int ck_publish_now(struct ck_fs *fs, struct ck_draft *draft);

/* Does what is ordered, and answers. -ENOMEM: nobody will answer. */
CK_MUST_USE int ck_publish_order(struct ck_fs *fs, fuse_req_t req,
				 unsigned order);
/* Drops the tensors that are staged when the mount ends; the log names them. The publisher
 * has ended. */
void ck_publish_rest(struct ck_fs *fs);

#endif
