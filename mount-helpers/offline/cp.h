/* SPDX-License-Identifier: MIT */
/*
 * cp: copies files and directories of the tree to a file system. The calling thread walks
 * through the directories and queues files. Worker threads copy them; several can copy
 * ranges of one large file. A file has a temporary name until it is complete.
 *
 * Order of calls: ck_cp_begin(), ck_cp_into(), ck_cp_run() for each node, ck_cp_into_end(),
 * ck_cp_end(), all by one thread. Errors are reported on stderr when they occur.
 */
#ifndef CKPTFS_CP_H
#define CKPTFS_CP_H

#include "cp_progress.h"
#include "offline_tree.h"

enum { CK_COPY_THREADS = 256 }; /* maximum */

struct ck_cp;
/* A directory that receives copies. */
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

/* The file name of the mark: a hash of the paths that are copied and of `several`. */
void ck_cp_mark_name(const struct ck_paths *names, bool several,
		     char out[static CK_CP_MARK_NAME]);
/* Reads the mark in the directory DEST. */
enum ck_cp_mark_form ck_cp_mark_read(const char *dest, const char *name);

/* Location of a mark. */
struct ck_cp_mark_place {
	/* DEST if it existed before the copy; else the directory that it is or will be in, and
	 * `last` is its name there. */
	int dir;
	const char *last;
	size_t base;	  /* length of DEST in the paths of ck_cp_dir */
	const char *name; /* ck_cp_mark_name() */
	bool resume;	  /* files in the mark are not copied again */
};

/* Creates or takes over the mark, and locks it. If `last` does not exist, creates that
 * directory with the mark in it. Caller calls ck_cp_mark_close(). Returns 0, or: -EBUSY if
 * another process makes the same copy; -EPERM if the file belongs to another user;
 * -ENOMEM; an errno of open(2), mkdir(2), write(2) or rename(2). */
CK_MUST_USE int ck_cp_mark_open(const struct ck_cp_mark_place *at,
				struct ck_cp_mark **out);
/* Unlocks and frees the mark; its file stays. NULL is allowed. */
void ck_cp_mark_close(struct ck_cp_mark *m);
/* Prints how many files were skipped. */
void ck_cp_mark_print_skipped(struct ck_cp_mark *m);

/* --- cp_threads.c ----------------------------------------------------------------------- */

/* Options of a copy. The objects that it points to outlive the copy. */
struct ck_cp_how {
	struct ck_offline *from;
	unsigned threads; /* at least 1 */
	bool sync;	  /* fsync(2) each file and directory */
	struct ck_progress *progress;
	struct ck_cp_mark *mark; /* NULL: not resumable */
};

/* From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT only set ck_cp_signalled(), unless they are
 * ignored. SIGPIPE and SIGXFSZ are ignored. */
void ck_cp_signals(void);
/* Returns the number of the last such signal, or 0. Any thread. */
int ck_cp_signalled(void);

/* Starts the threads. Sets the umask of the process to 077; each file gets the mode that
 * the tree shows when it is complete. NULL if out of memory, if no thread starts, or if the
 * checkpoint's directory cannot be examined. */
struct ck_cp *ck_cp_begin(const struct ck_cp_how *how);
/* Waits until all files are copied, or, if the copy was stopped, until all temporary files
 * are removed. Frees `c`. Returns the worst exit status that was reported. */
CK_MUST_USE int ck_cp_end(struct ck_cp *c);

/* Returns the directory `fd` as a destination. path: its name in messages; "" if messages
 * shall have names in it only. Takes fd, which must be readable if files are synced, and may be
 * O_PATH otherwise. NULL if out of memory. */
struct ck_cp_dir *ck_cp_into(int fd, const char *path);
/* Drops the caller's use. NULL is allowed. */
void ck_cp_into_end(struct ck_cp *c, struct ck_cp_dir *into);

/* Copies a node, which is in use, and its contents to a name in a directory. A directory or
 * link is copied before this returns; a file may be queued. Waits while the queue is full.
 * False if the copy was stopped and no other node may be copied. */
CK_MUST_USE bool ck_cp_run(struct ck_cp *c, const struct ck_named *from,
			   struct ck_cp_dir *into, const char *name);

/* Without a PATH: selects full/ and objects/, unless views= is given, and prints that.
 * Returns the exit status. */
int ck_cp_choose_views(struct ck_offline *u);
/* Splits hf/ into files of 5 GiB, unless a PATH names model.safetensors, the single file that
 * ls shows. hf_shard_size= and the index of a template take precedence. */
void ck_cp_choose_hf_files(struct ck_offline *u, char **paths, int n);

#endif
