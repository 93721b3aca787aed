/* SPDX-License-Identifier: MIT */
/*
 * creator: the process that makes files in files/ for the users who ask for them. The daemon
 * of root keeps no privilege to act as another user, so that this process does: it takes the
 * user, the groups and the umask of the sender of a request, and the kernel of the source
 * does the rest: owner, set-group-ID directories, default ACLs, quotas.
 *
 * The process of a daemon of another user acts as that user only.
 *
 * Any thread may call ck_creator_make(); the calls run one at a time.
 */
#ifndef CKPTFS_CREATOR_H
#define CKPTFS_CREATOR_H

#include "../caller.h"

struct ck_creator;

enum ck_made {
	CK_MADE_FILE,	 /* a regular file, opened */
	CK_MADE_UNNAMED, /* the same without a name: O_TMPFILE */
	CK_MADE_NODE,	 /* a file of the type in `mode` */
	CK_MADE_DIRECTORY,
	CK_MADE_LINK, /* a symbolic link */
};

/* A file to make. */
struct ck_creation {
	enum ck_made what;
	int dirfd;	    /* O_PATH, of its directory */
	const char *name;   /* shorter than CK_AREA_NAME_BYTES; or "" */
	const char *target; /* of a link, shorter than PATH_MAX; else NULL */
	mode_t mode;	    /* without the effect of umask */
	mode_t umask;
	dev_t dev; /* of a device */
	int flags; /* of open(2), for files that are opened */
	const struct ck_caller *by;
};

/* Makes a file that does not exist. Returns 0, or the descriptor of a file that is opened;
 * or: -EEXIST; -EPERM if the daemon is of another user; -EIO if the process is gone; errors of
 * openat(2), mknodat(2), mkdirat(2) and symlinkat(2). */
CK_MUST_USE int ck_creator_make(struct ck_creator *c,
				const struct ck_creation *what);

#endif
