/* SPDX-License-Identifier: MIT */
/*
 * mount_report: reads the files in .ckptfs of a mount for the commands. A child process
 * reads, with a deadline. No state; called by the main thread of a command.
 */
#ifndef CKPTFS_MOUNT_REPORT_H
#define CKPTFS_MOUNT_REPORT_H

#include "mounts.h"

/* Appends a status, whose bytes may be arbitrary, as one JSON object with a newline. */
void ck_status_json(const struct ck_buf *status, struct ck_buf *out);

/* The mount that is the only operand of a command. */
struct ck_mount_operand {
	char *name; /* the operand, escaped for messages */
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
/* Appends the file .ckptfs/REPORT of a mount to `out`. Returns 0, or: -ETIMEDOUT if the
 * mount does not answer within 2 s; -ESTALE if another mount covers it; -EFBIG if the file
 * exceeds CK_ANSWER_MAX; -ENOMEM; an errno of the mount. */
CK_MUST_USE int ck_report_read(const struct ck_mount *m, const char *report,
			       struct ck_buf *out);
/* Appends the value of the first field of that name in a status; value must be empty.
 * Returns false if the status lacks the field, the value is empty or it has control
 * characters. */
bool ck_status_field(const struct ck_buf *status, const char *field,
		     struct ck_buf *value);
/* Returns the message of an error of ck_report_read(); rc is a negative errno. */
const char *ck_why_silent(int rc);

#endif
