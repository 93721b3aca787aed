/* SPDX-License-Identifier: MIT */
/*
 * process: facts about processes: this one, and others from /proc. A part of base. Any thread.
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

#endif
