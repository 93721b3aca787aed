/* SPDX-License-Identifier: MIT */
/*
 * subprocess: a child process that ends with the mount: a serving process, or
 * the launcher that starts one on each host. It leads a session of its own, so
 * that signals of a terminal do not reach it before the mount has ended. It
 * runs until ck_subprocess_end(). One thread at a time.
 */
#ifndef CKPTFS_SUBPROCESS_H
#define CKPTFS_SUBPROCESS_H

#include "ckptfs/base.h"

#include <sys/types.h>

struct ck_subprocess {
	pid_t process;
	int ended; /* a pidfd: readable when the process has exited */
	/* The read end of its standard error, non-blocking; -1: not read
	 * here. */
	int errors;
	/* Set by ck_subprocess_end(): the status of waitpid(2). -1: the process
	 * cannot be killed, or SIGCHLD is ignored and its status is lost. */
	int status;
};

/* Returns the absolute path of this program, which the caller owns; NULL with
 * errno set. */
char *ck_subprocess_program(void);
/* Starts a program, with the root as its directory. argv[0] is an absolute
 * path, or is searched in PATH if it has no '/'. environment NULL: that of this
 * process. Caller owns *out and must call ck_subprocess_end(). Returns 0, or
 * errors of execve(2), pipe(2) and pidfd_open(2). */
CK_MUST_USE int ck_subprocess_start(char *const argv[],
				    char *const environment[],
				    struct ck_subprocess *out);

/* Descriptors of a program of ck_subprocess_start_beside(): the first, and how
 * many. */
enum { CK_SUBPROCESS_FILES = 3, CK_SUBPROCESS_FILES_MOST = 8 };

/* Starts a program with the directory, standard output and error of this
 * process. It inherits n files, as descriptors CK_SUBPROCESS_FILES and up, and
 * no others; the caller keeps them. Returns 0, or: -EINVAL if n is too great;
 * errors of execve(2), fcntl(2) and pidfd_open(2). */
CK_MUST_USE int ck_subprocess_start_beside(char *const argv[], const int *files,
					   size_t n, struct ck_subprocess *out);
/* For a program that inherits one file: detaches it from its terminal and
 * directory, and sets the file to close on exec. Returns 0, or errors of
 * open(2), dup2(2), chdir(2) and fcntl(2). */
CK_MUST_USE int ck_subprocess_settle(void);
/* Waits msec milliseconds for the process to exit, then sends SIGTERM, and
 * SIGKILL one second later. After a signal, other processes of its session are
 * killed, too. Closes all descriptors and sets job->status. */
void ck_subprocess_end(struct ck_subprocess *job, int msec);
/* Appends the standard error that has not been read, at most about 64 KiB.
 * Never blocks. */
void ck_subprocess_read(const struct ck_subprocess *job, struct ck_buf *out);

#endif
