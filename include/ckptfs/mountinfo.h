/* SPDX-License-Identifier: MIT */
/*
 * mountinfo: the kernel's table of mounts, /proc/self/mountinfo. No mount is
 * asked. What its lines say is partly the choice of who mounted, and so is not
 * trusted: neither paths nor sources are text for a terminal.
 */
#ifndef CKPTFS_MOUNTINFO_H
#define CKPTFS_MOUNTINFO_H

#include "ckptfs/base.h"

#define CK_MOUNTINFO "/proc/self/mountinfo"

/* A row. Its texts lie in the line that was parsed. */
struct ck_mountinfo {
	int id, parent;
	unsigned major, minor;	     /* the device number */
	char *root;		     /* what of the file system shows */
	char *point, *type, *source; /* any bytes but NUL */
	char *options; /* of the file system, with commas between */
};

/* Changes the line, which may end with a newline, and is the caller's. False:
 * it is none of the table. */
CK_MUST_USE bool ck_mountinfo_parse(char *line, struct ck_mountinfo *out);

/* Whether one of the options is `name`, or `name=VALUE`: then *value, which
 * may be NULL, is VALUE, else "". */
bool ck_mountinfo_option(const struct ck_mountinfo *row, const char *name,
			 struct ck_str *value);
/* The N of the option user_id=N. False: there is none. */
CK_MUST_USE bool ck_mountinfo_user(const struct ck_mountinfo *row, uid_t *out);

/* Calls each(row, arg) for every row until that is not 0, and returns what it
 * was; or -errno: the table cannot be read. */
CK_MUST_USE int ck_mountinfo_each(int (*each)(const struct ck_mountinfo *row,
					      void *arg),
				  void *arg);

#endif
