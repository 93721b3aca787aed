/* SPDX-License-Identifier: MIT */
/*
 * publish: commits, and what is said of them.
 */
#ifndef CKPTFS_FS_PUBLISH_H
#define CKPTFS_FS_PUBLISH_H

#define FUSE_USE_VERSION 314

#include "ckptfs/commit.h"
#include <fuse_lowlevel.h>
#include <sys/stat.h>

struct ck_draft;
struct ck_fs;
struct ck_later;
struct ck_publisher;

/* --- publish.c: commits, and telling the kernel of them --------------------- */

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
/* Commits all that is kept and answers req as for an fsync(2). draft, or NULL:
 * what the answer is for. -ENOMEM: nobody will answer. */
CK_MUST_USE int ck_publish_all(struct ck_fs *fs, fuse_req_t req,
			       struct ck_draft *draft);
/* Commits a draft in the calling thread, where a request may commit. */
CK_MUST_USE int ck_publish_now(struct ck_fs *fs, struct ck_draft *draft);

/* Does what is ordered, and answers. -ENOMEM: nobody will answer. */
CK_MUST_USE int ck_publish_order(struct ck_fs *fs, fuse_req_t req,
				 unsigned order);
/* What is kept when the mount ends, whose publisher has ended: it is committed
 * or given up, as the mount does it, and the log says so. */
void ck_publish_rest(struct ck_fs *fs);

/* --- order.c: orders, and what is said of them ------------------------------- */

/* Of what was to be committed, rc being the answer and d why. Sorts the tensors
 * by name. */
void ck_outcome_print(const struct ck_fs *fs, struct ck_outcome *out, int rc,
		      const struct ck_diag *d, struct ck_buf *text);
/* The same of what was dropped. */
void ck_drop_print(const struct ck_fs *fs, struct ck_outcome *out,
		   const char *what, struct ck_buf *text);
/* Who asks may do this with a file that shows this owner and mode, as the kernel
 * judges; root may always. bits: of these, and he must have all. */
#define CK_MAY_READ   0004
#define CK_MAY_WRITE  0002
#define CK_MAY_SEARCH 0001
CK_MUST_USE bool ck_may(fuse_req_t req, const struct stat *shown, mode_t bits);

/* Who asked, to be judged later. Zero-initialise. */
struct ck_caller {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* owned; those that cannot be read are none */
	unsigned n;
};

void ck_caller_take(struct ck_caller *c, fuse_req_t req);
void ck_caller_fini(struct ck_caller *c);
CK_MUST_USE bool ck_caller_may(const struct ck_caller *c,
			       const struct stat *shown, mode_t bits);
/* Who asks may write tensors; root and who mounted may in any case. */
CK_MUST_USE bool ck_may_write(struct ck_fs *fs, fuse_req_t req);
/* ioctl(2). */
void ck_fs_order(fuse_req_t req, fuse_ino_t ino, unsigned order, void *arg,
		 struct fuse_file_info *fi, unsigned flags, const void *in,
		 size_t in_len, size_t out_len);

#endif
