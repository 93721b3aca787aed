/* SPDX-License-Identifier: MIT */
/*
 * cli: exit statuses, messages and standard output of all commands. The only state is the
 * usage line of the command that runs. Any thread may call ck_trouble(); the main thread
 * calls the rest.
 */
#ifndef CKPTFS_CLI_H
#define CKPTFS_CLI_H

#include "ckptfs/base.h"

enum { CK_EXIT_FINE = 0, CK_EXIT_DAMAGE = 1, CK_EXIT_TROUBLE = 2 };

/* Prints "ckptfs: ..." and a newline on stderr, at most 1,199 bytes of the message. Caller
 * escapes names (ck_show()). Returns CK_EXIT_TROUBLE. Any thread. */
CK_EXPORT int ck_trouble(const char *fmt, ...) CK_PRINTF(1, 2);
/* Sets the name and the usage line of the command that runs, for ck_usage(). Both must
 * live as long as the process. Called once, before threads start. */
void ck_usage_set(const char *command, const char *usage);
/* Prints the usage line of the command that runs on stderr. Returns CK_EXIT_TROUBLE. */
CK_EXPORT int ck_usage(void);
/* Writes `out` to stdout and frees it. Returns CK_EXIT_FINE, or CK_EXIT_TROUBLE after a
 * message if out->err is set or the write fails. */
int ck_print(struct ck_buf *out);
/* Writes text to stdout, lines kept, other control characters escaped. Returns the exit
 * status. */
int ck_print_lines(struct ck_str text);
/* Writes JSON to stdout and frees it; its control characters become \u escapes. Returns
 * the exit status. */
int ck_print_json(struct ck_buf *json);
/* Raises the soft limit of open files to the hard one: a checkpoint of thousands of
 * shards needs thousands of descriptors. */
void ck_raise_nofile(void);

#endif
