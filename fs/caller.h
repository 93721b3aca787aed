/* SPDX-License-Identifier: MIT */
/*
 * caller: the user and the groups of the thread that sent a request, and the
 * permissions that a mode gives them.
 */
#ifndef CKPTFS_CALLER_H
#define CKPTFS_CALLER_H

#define FUSE_USE_VERSION 314

#include "ckptfs/base.h"
#include <fuse_lowlevel.h>
#include <sys/stat.h>

/* Bits of a mode, for its class "others". */
#define CK_MAY_READ   0004
#define CK_MAY_WRITE  0002
#define CK_MAY_SEARCH 0001

/* True if the sender of the request has all of `bits` (CK_MAY_*) for a file with this
 * owner, group and mode. User 0 always has them. Groups are read from /proc only where
 * they decide. */
CK_MUST_USE bool ck_may(fuse_req_t req, const struct stat *shown, mode_t bits);

/* Groups of a sender that are known. */
enum { CK_GROUPS_MOST = 1024 };

/* The sender of a request, for a check after its reply. Zero-initialise. */
struct ck_caller {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* owned; empty if /proc cannot be read */
	unsigned n;
};

/* True if the sender has this group. */
CK_MUST_USE bool ck_caller_has_group(const struct ck_caller *c, gid_t gid);
/* Copies user and groups of the sender. Groups of user 0 are not read. */
void ck_caller_take(struct ck_caller *c, fuse_req_t req);
void ck_caller_fini(struct ck_caller *c);
/* As ck_may(), for a sender that was copied. */
CK_MUST_USE bool ck_caller_may(const struct ck_caller *c,
			       const struct stat *shown, mode_t bits);

#endif
