/* SPDX-License-Identifier: MIT */
/*
 * cp: files and directories of the tree become such ones of a file system. The
 * thread that asks walks through directories; others copy files, large ones several
 * at a time. A file has a temporary name until it is whole.
 */
#ifndef CKPTFS_CP_H
#define CKPTFS_CP_H

#include "cp_progress.h"
#include "offline_tree.h"

enum { CK_COPY_THREADS = 256 }; /* most of them */

struct ck_cp;
/* A directory that is written into. */
struct ck_cp_dir;

/* --- cp_mark.c ---------------------------------------------------------------- */

/* The record of one copy of directories: a hidden file in DEST, which lists the files that
 * are complete. It exists from before the first file until all are complete. */
struct ck_cp_mark;

enum { CK_CP_MARK_NAME = 32 };

/* What an earlier run left in DEST. */
enum ck_cp_mark_form {
	CK_CP_MARK_NONE, /* no mark of this copy */
	CK_CP_MARK_IN,	 /* the copy is in DEST, which existed before */
	CK_CP_MARK_IS,	 /* DEST is the copy; that run made it */
};

/* The name of the mark: a hash of what is copied. */
void ck_cp_mark_name(const struct ck_paths *names, bool several,
		     char out[static CK_CP_MARK_NAME]);
enum ck_cp_mark_form ck_cp_mark_look(const char *dest, const char *name);

/* Where a mark lies. */
struct ck_cp_mark_place {
	/* DEST if it existed before the copy; else the directory that it is or will be in, and
	 * `last` is its name there. */
	int dir;
	const char *last;
	size_t base; /* bytes of DEST in messages */
	const char *name;
	bool resume; /* files in the mark are not copied again */
};

/* Makes or takes over the mark, and locks it; makes DEST with the mark in it. Returns 0,
 * or: -EBUSY if another process makes the same copy; -ENOMEM; errors of open(2), mkdir(2)
 * and rename(2). */
CK_MUST_USE int ck_cp_mark_open(const struct ck_cp_mark_place *at,
				struct ck_cp_mark **out);
/* Frees it; the file stays if it was not removed. NULL is allowed. */
void ck_cp_mark_close(struct ck_cp_mark *m);
/* Prints how many files were skipped. */
void ck_cp_mark_say(struct ck_cp_mark *m);

/* --- cp_threads.c ----------------------------------------------------------------------- */

/* How to copy. */
struct ck_cp_how {
	struct ck_offline *from; /* outlives the copying */
	unsigned threads;	 /* at least 1 */
	bool sync;		 /* what was written is durable at the end */
	struct ck_progress *progress; /* outlives it, too */
	struct ck_cp_mark *mark;      /* NULL, or outlives it, too */
};

/* SIGINT, SIGTERM, SIGHUP and SIGQUIT are no more than noted from now on, if they are
 * not ignored; SIGPIPE and SIGXFSZ are. */
void ck_cp_signals(void);
/* The signal that came, or 0. */
int ck_cp_signalled(void);

/* Files made from now on have the mode that the tree shows, whatever the umask is.
 * NULL: neither memory nor threads are to be had. */
struct ck_cp *ck_cp_begin(const struct ck_cp_how *how);
/* Waits until all is copied, or after an error that stopped it until nothing of it
 * is left under a temporary name. The exit status; what was wrong was said. */
CK_MUST_USE int ck_cp_end(struct ck_cp *c);

/* A directory that there is, as `path` names it in messages: empty if names in it are
 * said alone. Takes fd, which need be open for reading only with `sync`; NULL: out of
 * memory. */
struct ck_cp_dir *ck_cp_into(int fd, const char *path);
/* Nothing more is copied into it by the caller. NULL is allowed. */
void ck_cp_into_end(struct ck_cp *c, struct ck_cp_dir *into);

/* Copies a node that is in use, with all that is in it, to a name in a directory.
 * What is wrong is said then, or later by another thread. False: all ends. */
CK_MUST_USE bool ck_cp_run(struct ck_cp *c, const struct ck_named *from,
			   struct ck_cp_dir *into, const char *name);

#endif
