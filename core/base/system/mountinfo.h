/* SPDX-License-Identifier: MIT */
/*
 * mountinfo: the kernel's table of mounts, /proc/self/mountinfo. No request is
 * sent to a mount. The user who mounted chose parts of the lines: paths and
 * sources are untrusted, and must be escaped before they are printed. Any
 * thread.
 */
#ifndef CKPTFS_MOUNTINFO_H
#define CKPTFS_MOUNTINFO_H

#include "ckptfs/base.h"

#define CK_MOUNTINFO "/proc/self/mountinfo"

/* A row. Its strings point into the parsed line. */
struct ck_mountinfo {
	int id, parent;
	unsigned major, minor;	     /* the device number */
	char *root;		     /* directory of the file system */
	char *point, *type, *source; /* any bytes but NUL */
	char *options; /* of the file system, separated by commas */
};

/* Parses a line, which may end with a newline, in place. The caller owns the
 * line. False if it is not a line of the table. */
CK_MUST_USE bool ck_mountinfo_parse(char *line, struct ck_mountinfo *out);

/* True if one of the options is `name` or `name=VALUE`. *value becomes VALUE or
 * "", unless `value` is NULL. */
bool ck_mountinfo_option(const struct ck_mountinfo *row, const char *name,
			 struct ck_str *value);
/* The N of the option user_id=N. False if the row does not have it. */
CK_MUST_USE bool ck_mountinfo_user(const struct ck_mountinfo *row, uid_t *out);

/* Calls each(row, arg) for every row until that returns a value other than 0.
 * Returns that value, 0, or -errno if the table cannot be read. */
CK_MUST_USE int ck_mountinfo_each(int (*each)(const struct ck_mountinfo *row,
					      void *arg),
				  void *arg);

#endif
