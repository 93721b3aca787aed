/* SPDX-License-Identifier: MIT */
/*
 * privileges: what a process of root gives up for good once it has what it
 * needs.
 */
#ifndef CKPTFS_PRIVILEGES_H
#define CKPTFS_PRIVILEGES_H

#include "ckptfs/base.h"

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

#endif
