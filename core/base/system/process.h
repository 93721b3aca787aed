/* SPDX-License-Identifier: MIT */
/*
 * process: facts about processes: this one, and others from /proc; and threads that share work. A
 * part of base. Any thread.
 */
#ifndef CKPTFS_PROCESS_H
#define CKPTFS_PROCESS_H

#include "ckptfs/base.h"

enum { CK_PROCESS_STAT = 1024 }; /* bytes of a buffer for ck_process_stat() */

/* Reads /proc/<process>/stat, also of a thread, into `text`. Returns the fields behind the
 * name of the program, from the state on (proc(5)), or NULL if the process does not exist or
 * cannot be seen. The name is in parentheses, and may contain any character. */
CK_MUST_USE const char *ck_process_stat(pid_t process,
					char text[static CK_PROCESS_STAT]);
/* Number of processors that this process may use, at least 1. */
unsigned ck_processors(void);

enum { CK_WORKERS_MOST = 64 };

/* Calls work() in n threads, one of them the calling one, and returns when all have ended. Call i
 * gets args + i * size. A thread that cannot be started only means fewer calls, at least one. n is
 * at least 1; above CK_WORKERS_MOST it counts as that. */
void ck_workers_run(unsigned n, void *(*work)(void *arg), void *args,
		    size_t size);

#endif
