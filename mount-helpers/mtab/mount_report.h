/* SPDX-License-Identifier: MIT */
/*
 * mount_report: the files in .ckptfs of a mount, read from outside.
 */
#ifndef CKPTFS_MOUNT_REPORT_H
#define CKPTFS_MOUNT_REPORT_H

#include "mounts.h"

/* Appends a status, whose bytes may be arbitrary, as one JSON object with a newline. */
void ck_status_json(const struct ck_buf *status, struct ck_buf *out);

/* The mount that is the only operand of a command. */
struct ck_mount_operand {
	char *name; /* as it was given, escaped */
	struct ck_mount mount;
};

/* Finds the mount that argv[optind] names. Returns the exit status. Caller calls
 * ck_mount_operand_fini() in any case. */
CK_MUST_USE int ck_mount_operand_find(int argc, char **argv,
				      struct ck_mount_operand *out);
void ck_mount_operand_fini(struct ck_mount_operand *p);
/* ck_report_read() with a message if it fails. Returns the exit status. */
CK_MUST_USE int ck_mount_operand_report(const struct ck_mount_operand *p,
					const char *report, struct ck_buf *out);
/* Reads a file in .ckptfs of a mount. Returns 0, or: -ETIMEDOUT if the mount does not
 * answer; -ESTALE if another mount covers it; -EFBIG if the file is too large; an errno
 * of the mount. */
CK_MUST_USE int ck_report_read(const struct ck_mount *m, const char *report,
			       struct ck_buf *out);
/* Appends the value of a field of a status. Returns false if the status lacks the field or
 * the value has control characters. */
bool ck_status_field(const struct ck_buf *status, const char *field,
		     struct ck_buf *value);
/* The text of an error of ck_report_read(). */
const char *ck_why_silent(int rc);

#endif
