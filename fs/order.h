/* SPDX-License-Identifier: MIT */
/*
 * order: who may ask for what, and what is said of it.
 */
#ifndef CKPTFS_FS_ORDER_H
#define CKPTFS_FS_ORDER_H

#define FUSE_USE_VERSION 314

#include "ckptfs/commit.h"
#include <fuse_lowlevel.h>
#include <sys/stat.h>

struct ck_fs;

/* Of what was to be committed, rc being the answer and d why. Sorts the tensors
 * by name. */
void ck_outcome_print(const struct ck_fs *fs, struct ck_outcome *out, int rc,
		      const struct ck_diag *d, struct ck_buf *text);
/* The same of what was dropped. */
void ck_drop_print(const struct ck_fs *fs, struct ck_outcome *out,
		   const char *what, struct ck_buf *text);
/* Whoever asks may do this with a file that shows this owner and mode, as the kernel
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
/* Whoever asks may write tensors; root and the user who mounted may in any
 * case. */
CK_MUST_USE bool ck_may_write(struct ck_fs *fs, fuse_req_t req);
/* ioctl(2). */
void ck_fs_order(fuse_req_t req, fuse_ino_t ino, unsigned order, void *arg,
		 struct fuse_file_info *fi, unsigned flags, const void *in,
		 size_t in_len, size_t out_len);

#endif
