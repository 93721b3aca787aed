/* SPDX-License-Identifier: MIT */
/*
 * cp_internal: structs and functions that the cp_*.c files share.
 *
 * States of a file: queued (no thread has opened it), opening, open (threads take ranges of
 * CK_COPY_RANGE bytes), ended (renamed, or its temporary file removed). Threads: the walk,
 * which called ck_cp_begin(), and the workers. Unless a declaration names one, functions are
 * called by both.
 */
#ifndef CKPTFS_CP_INTERNAL_H
#define CKPTFS_CP_INTERNAL_H

#include "cp.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum {
	CK_COPY_PIECE = 512 << 10, /* bytes read and written at once */
	CK_COPY_RANGE = 8 << 20,   /* bytes that a thread takes at once */
	CK_COPY_QUEUE = 128,	   /* files; each keeps its directory open */
	CK_CP_NAME = 40,	   /* bytes of a temporary name */
	CK_CONTENT_HEX = 33,	   /* bytes of a content id as text */
};

struct ck_cp_dir {
	/* The parent, of which this is a use; NULL: made by ck_cp_into(). */
	struct ck_cp_dir *up;
	int fd;
	char *path; /* for messages; owned */
	/* Number of the tree's directory that is copied here, in use until this
	 * is freed; 0 for that of ck_cp_into(). */
	uint64_t number;
	/* Created by this copy: writable by its owner until it is complete, then
	 * it gets mode and time of `becomes`. */
	bool made;
	struct ck_node_stat becomes;
	atomic_uint users; /* files, subdirectories and the walk */
};

struct ck_cp_file {
	struct ck_cp_file
		*next_file;	/* in the queue or the list of open ones */
	struct ck_cp_dir *into; /* a use of it */
	struct ck_named from;	/* its path is owned */
	char *name;		/* owned */
	/* Set by ck_cp_file_open(): */
	struct ck_tree_file source;
	struct ck_node_stat st;
	uint64_t size;
	int fd; /* -1: there is no temporary file */
	char temporary[CK_CP_NAME];
	/* With a mark: id of bytes, mode and time; "" if it is unknown. */
	char content[CK_CONTENT_HEX];
	atomic_bool failed; /* cannot be completed; was reported */
	/* Protected by ck_cp.lock: */
	uint64_t next;	/* start of the ranges that no thread has taken */
	unsigned users; /* threads that copy ranges of it */
};

struct ck_cp {
	/* Constant: */
	struct ck_cp_how how;
	struct stat source; /* the checkpoint's directory or single file */
	/* Atomic: */
	atomic_int status;   /* worst exit status so far */
	atomic_bool stopped; /* an error ended the copy */
	pthread_cond_t work, room;
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_cp_file *first, **last; /* queue */
	unsigned queued;		  /* files in the queue */
	struct ck_cp_file *open;	  /* open files with ranges to take */
	unsigned opening;		  /* files that are being opened */
	bool ended;			  /* no file will be queued any more */
	/* One thread, the walk: */
	struct ck_cp_dir *marked; /* a use of the mark's directory, or NULL */
	pthread_t *threads;
	unsigned nthreads;
};

/* --- cp_error.c ---------------------------------------------------------------- */

/* True after a signal or an error that stopped the copy: no file or range may be begun. */
bool ck_cp_stopping(const struct ck_cp *c);
/* Reports a node that cannot be read; the copy continues. rc: a negative errno. */
void ck_cp_unread(struct ck_cp *c, const struct ck_named *from, int rc);
/* Reports a name in a directory that cannot be written, and stops the copy. Only the
 * first one is reported. name: NULL is the directory itself. err: positive. */
void ck_cp_unwritten(struct ck_cp *c, const struct ck_cp_dir *into,
		     const char *name, int err);
/* Reports that there is no memory, and stops the copy. */
void ck_cp_no_memory(struct ck_cp *c);
/* Path of a name in a directory, for messages. Caller frees it. NULL: out of memory. */
char *ck_cp_dir_path(const struct ck_cp_dir *into, const char *name);
/* Reports a name in a directory that must not be replaced; the copy continues. */
void ck_cp_refuse(struct ck_cp *c, const struct ck_cp_dir *into,
		  const char *name, const char *why);

/* --- cp_directory.c ------------------------------------------------------------------ */

/* Creates or opens the directory `name` in `up`, as the copy of the tree's directory `from`.
 * Caller calls ck_cp_dir_put(). NULL after a message. Walk only. */
struct ck_cp_dir *ck_cp_dir_enter(struct ck_cp *c, struct ck_cp_dir *up,
				  const char *name,
				  const struct ck_named *from);
/* Adds a use and returns `into`. */
struct ck_cp_dir *ck_cp_dir_use(struct ck_cp_dir *into);
/* Drops a use. The last one completes the directory (mode, time, fsync(2)) unless the copy
 * is stopping, and frees it. NULL is allowed. */
void ck_cp_dir_put(struct ck_cp *c, struct ck_cp_dir *into);

/* Returns the reason why a name must not be replaced, for a message: it is neither a regular
 * file nor a link. NULL if it may be replaced or does not exist. flags: those of fstatat(2). */
const char *ck_cp_kept(const struct ck_cp_dir *into, const char *name,
		       int flags);
/* Sets mode and mtime of a file or directory that cp made. A file system that does not
 * support them is no error. Returns 0 or a positive errno. */
CK_MUST_USE int ck_cp_set_mode(int fd, const struct ck_node_stat *st);

/* --- cp_file.c ------------------------------------------------------------------- */

/* Makes a random temporary name for a file or link. It contains ck_cp_mark_id(mark), so that
 * a run that takes over the mark can remove the file. mark: may be NULL. Returns 0 or a positive
 * errno. */
CK_MUST_USE int ck_cp_name(const struct ck_cp_mark *mark,
			   char name[static CK_CP_NAME]);
/* Caller calls ck_cp_file_end(). NULL if out of memory. */
struct ck_cp_file *ck_cp_file_make(const struct ck_named *from,
				   struct ck_cp_dir *into, const char *name);
/* Opens the source and a temporary file. False if there is nothing to copy: after a message,
 * or if an earlier run has completed the file. Must not hold c->lock. */
CK_MUST_USE bool ck_cp_file_open(struct ck_cp *c, struct ck_cp_file *f);
/* Copies bytes [begin, end). buffer: CK_COPY_PIECE bytes. An error is reported and sets
 * f->failed. Several threads may copy ranges of one file. */
void ck_cp_file_range(struct ck_cp *c, struct ck_cp_file *f, uint64_t begin,
		      uint64_t end, void *buffer);
/* Renames a complete file to its name, or removes the temporary file of another one. Frees
 * `f`. Must not hold c->lock; no other thread uses `f`. */
void ck_cp_file_end(struct ck_cp *c, struct ck_cp_file *f);

/* --- cp_link.c ------------------------------------------------------------------- */

/* Creates a link; an error is reported. Walk only. */
void ck_cp_link(struct ck_cp *c, const struct ck_named *from,
		struct ck_cp_dir *into, const char *name);

/* --- cp_mark.c ------------------------------------------------------------------- */

/* Eight hex digits that the temporary names of this copy have; "" if m is NULL. */
const char *ck_cp_mark_id(const struct ck_cp_mark *m);
/* True if an earlier run has completed the file, and neither the source nor the copy has
 * changed since. Sets f->content and counts the file. With `sync` the copy is durable then.
 * Any thread. */
CK_MUST_USE bool ck_cp_mark_has(struct ck_cp *c, struct ck_cp_file *f);
/* Record a complete file: the first one before it gets its name, the second one after that.
 * done: its state before. Do nothing without a mark. Any thread. */
void ck_cp_mark_name_file(const struct ck_cp *c, const struct ck_cp_file *f,
			  const struct stat *done);
void ck_cp_mark_add(const struct ck_cp *c, const struct ck_cp_file *f,
		    const struct stat *done);
/* True if this copy, in this run or an earlier one, has created the directory. Records it
 * otherwise, if the name does not exist. Called before the directory is created. False
 * without a mark (NULL). Walk only. */
CK_MUST_USE bool ck_cp_mark_makes(const struct ck_cp_mark *m,
				  const struct ck_cp_dir *up, const char *name);
/* Removes temporary files that an earlier run of this copy left in a directory. */
void ck_cp_mark_clean(const struct ck_cp_mark *m, int dir);
/* True if the mark is in this directory and DEST is the copy. */
CK_MUST_USE bool ck_cp_mark_is_in(const struct ck_cp_mark *m, int dir);
/* Removes the mark of a complete copy, and with `resume` the files of an earlier run that
 * this copy does not have. */
void ck_cp_mark_remove(struct ck_cp_mark *m);

/* --- cp_content.c ---------------------------------------------------------------- */

/* Hashes of the checkpoints that files are copied from. Zero-initialise, and initialise the
 * lock. */
struct ck_contents {
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_content_source *sources;
	size_t n, cap;
};

void ck_contents_fini(struct ck_contents *s);
/* Computes the id of a file's bytes, mode and time: a hash of the catalog, the times and
 * inodes of all data files, and the parts of the file. Files with equal ids are equal. "" if
 * out of memory or a part cannot be made now. Any thread. */
void ck_content_of(struct ck_contents *s, const struct ck_cp_file *f,
		   char out[static CK_CONTENT_HEX]);

#endif
