/* SPDX-License-Identifier: MIT */
/*
 * cp_internal: shared by cp_threads.c, cp_content.c, cp_error.c, cp_file.c, cp_directory.c,
 * cp_link.c and cp_mark.c.
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
	CK_COPY_QUEUE = 128,	   /* files; each holds its directory open */
	CK_CP_NAME = 40,	   /* bytes of a temporary name */
	CK_CONTENT_HEX = 33,	   /* bytes of a content id as text */
};

struct ck_cp_dir {
	struct ck_cp_dir
		*up; /* used by this one; NULL: no other was asked for */
	int fd;
	char *path; /* owned; for messages */
	/* The directory of the tree that is copied into it, in use until all of
	 * it is copied; 0: none. */
	uint64_t number;
	bool made; /* by us: its owner may write until it is complete */
	struct ck_node_stat becomes; /* then, if it was made */
	atomic_uint
		users; /* who copies into it: files, directories, the walk */
};

struct ck_cp_file {
	struct ck_cp_file *next_file; /* in the queue, or of those open */
	struct ck_cp_dir *into;	      /* used */
	struct ck_named from;	      /* owns its path */
	char *name;		      /* owned */
	/* From its opening on: */
	struct ck_tree_file source;
	struct ck_node_stat st;
	uint64_t size;
	int fd; /* -1: there is no temporary file */
	char temporary[CK_CP_NAME];
	/* With a mark: which bytes, mode and time it has; "" if that is not known. */
	char content[CK_CONTENT_HEX];
	atomic_bool failed; /* it will not be complete; was said if need be */
	/* Protected by the copying's lock: */
	uint64_t next;	/* what nobody has taken begins here */
	unsigned users; /* who copies ranges of it */
};

struct ck_cp {
	/* Constant: */
	struct ck_cp_how how;
	/* The checkpoint's directory, or the file that it is. */
	struct stat source;
	/* Atomic: */
	atomic_int status;
	atomic_bool stopped; /* an error ended all */
	pthread_cond_t work, room;
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_cp_file *first, **last; /* nobody has opened them */
	unsigned queued;		  /* how many */
	struct ck_cp_file *open; /* those with ranges that nobody has taken */
	unsigned opening;	 /* how many are just being opened */
	bool ended;		 /* there will be no more files */
	/* One thread, that which began it: */
	struct ck_cp_dir *marked; /* used: the directory of the mark, or NULL */
	pthread_t *threads;
	unsigned nthreads;
};

/* --- cp_error.c ---------------------------------------------------------------- */

/* True if no other file or range may be begun. */
bool ck_cp_stopping(const struct ck_cp *c);
/* Reports a file that cannot be read; the rest is copied. */
void ck_cp_unread(struct ck_cp *c, const struct ck_named *from, int rc);
/* Reports a name in a directory that cannot be written, and stops the copy. Only the
 * first one is reported. name: NULL is the directory itself. err: positive. */
void ck_cp_unwritten(struct ck_cp *c, const struct ck_cp_dir *into,
		     const char *name, int err);
/* Reports that there is no memory, and stops the copy. */
void ck_cp_no_memory(struct ck_cp *c);
/* Path of a name in a directory, for messages. Caller frees it. NULL: out of memory. */
char *ck_cp_dir_path(const struct ck_cp_dir *into, const char *name);
/* Reports a name in a directory that is left as it is; the rest is copied. */
void ck_cp_refuse(struct ck_cp *c, const struct ck_cp_dir *into,
		  const char *name, const char *why);

/* --- cp_directory.c ------------------------------------------------------------------ */

/* A directory in a directory, made if need be, for what is in one of the tree.
 * NULL: there can be none, which was said. */
struct ck_cp_dir *ck_cp_dir_enter(struct ck_cp *c, struct ck_cp_dir *up,
				  const char *name,
				  const struct ck_named *from);
struct ck_cp_dir *ck_cp_dir_use(struct ck_cp_dir *into);
/* Whoever is the last one completes it. */
void ck_cp_dir_put(struct ck_cp *c, struct ck_cp_dir *into);

/* Why what a name leads to, or with AT_SYMLINK_NOFOLLOW is, is not replaced: only files are, and
 * links. NULL: it is, or there is nothing. */
const char *ck_cp_kept(const struct ck_cp_dir *into, const char *name,
		       int flags);
/* Gives what cp made mode and time. A positive errno, or 0. */
CK_MUST_USE int ck_cp_set_mode(int fd, const struct ck_node_stat *st);

/* --- cp_file.c ------------------------------------------------------------------- */

/* A new name for a file or link that is not complete yet; a run that takes over the mark
 * knows it by `mark`, which may be NULL. A positive errno, or 0. */
CK_MUST_USE int ck_cp_name(const struct ck_cp_mark *mark,
			   char name[static CK_CP_NAME]);
/* NULL: out of memory. */
struct ck_cp_file *ck_cp_file_make(const struct ck_named *from,
				   struct ck_cp_dir *into, const char *name);
/* Opens both ends. False: it cannot be copied, which was said, or an earlier run has
 * copied it. */
CK_MUST_USE bool ck_cp_file_open(struct ck_cp *c, struct ck_cp_file *f);
/* Copies bytes [begin, end) by way of CK_COPY_PIECE bytes at `buffer`. */
void ck_cp_file_range(struct ck_cp *c, struct ck_cp_file *f, uint64_t begin,
		      uint64_t end, void *buffer);
/* Gives it its name if it is complete, else removes what there is of it, and frees
 * it. */
void ck_cp_file_end(struct ck_cp *c, struct ck_cp_file *f);

/* --- cp_link.c ------------------------------------------------------------------- */

/* Makes a link; what is wrong is said. */
void ck_cp_link(struct ck_cp *c, const struct ck_named *from,
		struct ck_cp_dir *into, const char *name);

/* --- cp_mark.c ------------------------------------------------------------------- */

/* Eight hex digits that the temporary names of this copy have; "" if m is NULL. */
const char *ck_cp_mark_id(const struct ck_cp_mark *m);
/* Whether an earlier run has completed the file, and neither its bytes should be others now
 * nor was the copy changed. Counts it. With `sync` the copy is durable then. Any thread. */
CK_MUST_USE bool ck_cp_mark_has(struct ck_cp *c, struct ck_cp_file *f);
/* Before and after a complete file gets its name; done: as it is before. Nothing without a
 * mark. Any thread. */
void ck_cp_mark_name_file(const struct ck_cp *c, const struct ck_cp_file *f,
			  const struct stat *done);
void ck_cp_mark_add(const struct ck_cp *c, const struct ck_cp_file *f,
		    const struct stat *done);
/* Before a directory is made: whether an earlier run of this copy has made it. If there is
 * nothing of the name, the mark has it from now on. */
CK_MUST_USE bool ck_cp_mark_makes(const struct ck_cp_mark *m,
				  const struct ck_cp_dir *up, const char *name);
/* Removes temporary files that an earlier run of this copy left in a directory. */
void ck_cp_mark_clean(const struct ck_cp_mark *m, int dir);
/* Whether it lies in this directory, which this copy made. */
CK_MUST_USE bool ck_cp_mark_is_in(const struct ck_cp_mark *m, int dir);
/* All is complete: removes it, and the files of an earlier run that this copy does not have. */
void ck_cp_mark_remove(struct ck_cp_mark *m);

/* --- cp_content.c ---------------------------------------------------------------- */

/* What is known of the checkpoints that files are copied from. Zero-initialise, with
 * the lock. */
struct ck_contents {
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_content_source *sources;
	size_t n, cap;
};

void ck_contents_fini(struct ck_contents *s);
/* Two files with the same id have the same bytes, mode and time: it is a hash of the
 * catalog, the times and inodes of all data files, and what the file consists of. Empty if
 * that cannot be known now. Any thread. */
void ck_content_of(struct ck_contents *s, const struct ck_cp_file *f,
		   char out[static CK_CONTENT_HEX]);

#endif
