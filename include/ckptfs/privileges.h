/* SPDX-License-Identifier: MIT */
/*
 * privileges: what a process of root gives up for good once it has what it
 * needs.
 */
#ifndef CKPTFS_PRIVILEGES_H
#define CKPTFS_PRIVILEGES_H

#include "ckptfs/base.h"

#include <pthread.h>

enum ck_role {
	CK_ROLE_READER,	  /* reads the checkpoint */
	CK_ROLE_WRITER,	  /* writes it, too */
	CK_ROLE_DETACHER, /* unmounts */
};

/* Which ones it may still make. */
enum ck_sockets {
	CK_SOCKETS_NONE,
	CK_SOCKETS_UNIX, /* syslog(3) may connect anew */
	CK_SOCKETS_ALL,	 /* it speaks with other hosts */
};

/* Gives up every capability that the role does not need, execve(2) of anything
 * with more than that, and system calls that no role needs, for the calling
 * thread and those that it starts. A
 * system that has no filter for calls, or does not let sets be made smaller,
 * is no error. */
CK_MUST_USE int ck_privileges_drop(enum ck_role role, enum ck_sockets sockets,
				   struct ck_diag *d);

/* What a thread has to do before all else, since it is started before its process has given
 * up anything. run: 0 or an error; NULL: there is nothing to do. */
struct ck_first {
	int (*run)(void *arg);
	void *arg;
};

/* As ck_thread_start(), but returns when that is done. If it fails there is no thread, and
 * its error is returned. */
CK_MUST_USE int ck_thread_start_first(pthread_t *out,
				      const struct ck_first *first,
				      void *(*run)(void *arg), void *arg);

#endif
