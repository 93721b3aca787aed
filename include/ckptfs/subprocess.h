/* SPDX-License-Identifier: MIT */
/*
 * subprocess: a program that is started beside a mount and ends with it: the mover, or the
 * launcher that starts one on each host. It has a session of its own, so that no signal
 * of a terminal reaches it before the mount is gone. One thread at a time.
 */
#ifndef CKPTFS_SUBPROCESS_H
#define CKPTFS_SUBPROCESS_H

#include "ckptfs/base.h"

#include <sys/types.h>

struct ck_subprocess {
	pid_t process;
	int ended; /* readable when it has ended */
	int said;  /* its standard error, for reading; non-blocking */
	int status; /* as of waitpid(2), once ck_subprocess_end() has returned; -1: it
		     * has not ended, for the kernel keeps it, or nobody knows
		     * how, for SIGCHLD is ignored */
};

/* argv[0] is looked for in PATH if it has no '/', else it is absolute: the program's
 * directory is the root. environment NULL: ours. Errors of
 * execve(2) and pipe(2). */
CK_MUST_USE int ck_subprocess_start(char *const argv[],
				    char *const environment[],
				    struct ck_subprocess *out);

/* The same with our standard output and error, and with n files of ours, which it has
 * from descriptor CK_SUBPROCESS_FILES on; what it says is not heard here. */
enum { CK_SUBPROCESS_FILES = 3, CK_SUBPROCESS_FILES_MOST = 8 };

CK_MUST_USE int ck_subprocess_start_beside(char *const argv[], const int *files,
					   size_t n, struct ck_subprocess *out);
/* In such a program: what it was given from CK_SUBPROCESS_FILES on, one file, is all that it has. It
 * keeps no terminal and no directory busy. Errors of open(2), dup2(2) and chdir(2). */
CK_MUST_USE int ck_subprocess_settle(void);
/* It is to end by itself within msec; then it is sent SIGTERM, and a second later
 * SIGKILL; what it leaves of its session then is ended, too. Closes all. */
void ck_subprocess_end(struct ck_subprocess *job, int msec);
/* Appends what it has said and nobody has read, 64 KiB and a little at most. */
void ck_subprocess_read(const struct ck_subprocess *job, struct ck_buf *out);

#endif
