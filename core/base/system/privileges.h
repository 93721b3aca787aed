/* SPDX-License-Identifier: MIT */
/*
 * privileges: drops capabilities and system calls of a root process
 * permanently, once its resources are open. The state is that of the calling
 * thread, in the kernel.
 */
#ifndef CKPTFS_PRIVILEGES_H
#define CKPTFS_PRIVILEGES_H

#include "ckptfs/base.h"

#include <pthread.h>

enum ck_role {
	CK_ROLE_READER,	  /* reads the checkpoint */
	CK_ROLE_WRITER,	  /* reads and writes it */
	CK_ROLE_CREATOR,  /* makes files as any user */
	CK_ROLE_DETACHER, /* unmounts */
	CK_ROLE_BACKING,  /* registers files for FUSE passthrough */
};

/* Sockets that the process may still open. */
enum ck_sockets {
	CK_SOCKETS_NONE,
	CK_SOCKETS_UNIX, /* syslog(3) may reconnect */
	CK_SOCKETS_ALL,	 /* connections to other hosts */
};

/* Drops, for the calling thread and the threads that it starts later: every
 * capability that the role does not need, gains of privileges by execve(2), and
 * system calls that no role needs. Not an error: a kernel without seccomp
 * filters, or a refusal to reduce the bounding set. Returns 0, -ENOMEM, or the
 * error of the system call that failed. */
CK_MUST_USE int ck_privileges_drop(enum ck_role role, enum ck_sockets sockets,
				   struct ck_diag *d);

/* Thread-start hook: runs first in a thread that is started before its process
 * drops its privileges. run returns 0 or an error; NULL if the thread needs no
 * hook. */
struct ck_thread_init {
	int (*run)(void *arg);
	void *arg;
};

/* As ck_thread_start(), but returns after the hook. If the hook fails, the
 * thread ends and its error is returned. */
CK_MUST_USE int ck_thread_start_init(pthread_t *out,
				     const struct ck_thread_init *first,
				     void *(*run)(void *arg), void *arg);

#endif
