/* SPDX-License-Identifier: MIT */
/*
 * copy: files and directories of the tree become such ones of a file system. The
 * thread that asks walks through directories; others copy files, large ones several
 * at a time. A file has a temporary name until it is whole.
 */
#ifndef CKPTFS_COPY_H
#define CKPTFS_COPY_H

#include "cp_progress.h"
#include "unmounted.h"

enum { CK_COPY_THREADS = 256 }; /* most of them */

struct ck_copying;
/* A directory that is written into. */
struct ck_into;

/* How to copy. */
struct ck_copy_how {
	struct ck_unmounted *from; /* outlives the copying */
	unsigned threads;	   /* at least 1 */
	bool sync;		   /* what was written is durable at the end */
	struct ck_progress *progress; /* outlives it, too */
};

/* SIGINT, SIGTERM, SIGHUP and SIGQUIT are no more than noted from now on, if they are
 * not ignored; SIGPIPE and SIGXFSZ are. */
void ck_copy_signals(void);
/* The signal that came, or 0. */
int ck_copy_signalled(void);

/* Files made from now on have the mode that the tree shows, whatever the umask is.
 * NULL: neither memory nor threads are to be had. */
struct ck_copying *ck_copy_begin(const struct ck_copy_how *how);
/* Waits until all is copied, or after an error that stopped it until nothing of it
 * is left under a temporary name. The exit status; what was wrong was said. */
CK_MUST_USE int ck_copy_end(struct ck_copying *c);

/* A directory that there is, as `path` names it in messages: empty if names in it are
 * said alone. Takes fd, which need be open for reading only with `sync`; NULL: out of
 * memory. */
struct ck_into *ck_copy_into(int fd, const char *path);
/* Nothing more is copied into it by the caller. NULL is allowed. */
void ck_copy_into_end(struct ck_copying *c, struct ck_into *into);

/* Copies a node that is in use, with all that is in it, to a name in a directory.
 * What is wrong is said then, or later by another thread. False: all ends. */
CK_MUST_USE bool ck_copy(struct ck_copying *c, const struct ck_named *from,
			 struct ck_into *into, const char *name);

#endif
