/* SPDX-License-Identifier: MIT */
/*
 * rights: access rights to a file by its mode, owner, group and ACL. All
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

/* The permission bits (0777) for a file that belongs to `of` and is shown with
 * the owner and group `shown`: an owner or group that differs gets only the
 * bits of others. */
mode_t ck_rights_as(mode_t mode, struct ck_ids of, struct ck_ids shown);

/* Appends the ACL of a file to *out, in the form of the attribute
 * system.posix_acl_access; nothing if the file has no ACL. dirfd, name and
 * flags are those of fstatat(2): AT_EMPTY_PATH with an empty name is dirfd
 * itself, which may be an O_PATH descriptor; AT_SYMLINK_NOFOLLOW. Returns 0,
 * -ENOMEM, or the error of the system call. */
CK_MUST_USE int ck_acl_read(int dirfd, const char *name, int flags,
			    struct ck_buf *out);
/* The bits of 077 that an ACL grants. The group bits of a mode are the mask of
 * the ACL, not rights of the group. The group gets the bits that its own entry
 * and all named entries grant; others get the bits that all named entries
 * grant. More rights of one named user or group do not count. All bits for an
 * empty ACL, and no bits for one that cannot be parsed. */
mode_t ck_acl_leaves(struct ck_str acl);
/* The same for the ACL of a file, see ck_acl_read(). No bits if it cannot be
 * read. */
mode_t ck_acl_leaves_of(int dirfd, const char *name, int flags);

#endif
