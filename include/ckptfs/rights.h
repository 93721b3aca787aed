/* SPDX-License-Identifier: MIT */
/*
 * rights: who may do what with a file, by its mode, owner, group and ACL. All
 * functions may be called from any thread.
 */
#ifndef CKPTFS_RIGHTS_H
#define CKPTFS_RIGHTS_H

#include "ckptfs/base.h"
#include <sys/stat.h>

struct ck_ids {
	uid_t uid;
	gid_t gid;
};

/* What the mode of a file of these ids leaves, 0777, where others are shown as
 * its owner and group: to whom it does not belong its bits for others count. */
mode_t ck_rights_as(mode_t mode, struct ck_ids of, struct ck_ids shown);

/* The ACL of a file, as the attribute system.posix_acl_access has it, behind
 * what is in *out; nothing where it has none. dirfd, name and flags are as of
 * fstatat(2): AT_EMPTY_PATH with an empty name is dirfd itself, opened in any
 * way; AT_SYMLINK_NOFOLLOW. -ENOMEM, or the error of the system call. */
CK_MUST_USE int ck_acl_read(int dirfd, const char *name, int flags,
			    struct ck_buf *out);
/* Which bits of 077 an ACL leaves. The group bits of a mode are the mask of its
 * ACL, no rights of the group: the group keeps what its own entry and all named
 * ones grant, and others what all named ones grant. Whoever is granted more by
 * his name alone does not count. No bytes: all bits; an ACL that is not
 * understood: none. */
mode_t ck_acl_leaves(struct ck_str acl);
/* The same of a file's ACL, see ck_acl_read(). One that cannot be read leaves
 * nothing. */
mode_t ck_acl_leaves_of(int dirfd, const char *name, int flags);

#endif
