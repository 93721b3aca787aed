/* SPDX-License-Identifier: MIT */
/*
 * area_internal: shared by the files of fs/files.
 */
#ifndef CKPTFS_AREA_INTERNAL_H
#define CKPTFS_AREA_INTERNAL_H

#include "../internal.h"
#include "../session/pool.h"
#include "area.h"
#include "area_table.h"

/* The position in an open directory, and its entries that were read and not sent yet. */
struct ck_area_list {
	pthread_mutex_t lock;
	/* Under lock: */
	off_t next;	 /* cookie of the entry at `at` */
	size_t at, used; /* bytes of entries, sent and read */
	char bytes[32 << 10] __attribute__((aligned(8)));
};

/* An open file or directory. */
struct ck_area_handle {
	struct ck_area_handle *next, *prev; /* under ck_area.handles_lock */
	/* Constant: */
	struct ck_area_node *node; /* held */
	int fd;			   /* -1: an empty directory */
	struct ck_area_list *list; /* of a directory; owned; else NULL */
};

struct ck_area {
	/* Constant, but for the table, which locks itself: */
	const struct ck_fs *fs;
	int dirfd;		    /* of the source; the checkpoint's */
	struct ck_area_node *top;   /* the directory of the source; held */
	struct ck_area_table table; /* of all nodes */
	size_t handles_most;	    /* the other descriptors are for tensors */
	struct ck_pool *pool;	    /* NULL after ck_area_stop() */
	/* Atomic: a FUSE thread handles a request itself */
	atomic_flag has_fuse_thread;

	pthread_mutex_t handles_lock;
	/* Under handles_lock: */
	struct ck_area_handle *handles;
	size_t nhandles;
};

/* --- area_job.c: requests, in threads of files/ ------------------------------------- */

/* A request with its arguments. */
struct ck_area_job {
	struct ck_pool_job job; /* first */
	struct ck_request_time time;
	struct ck_area *area;
	fuse_req_t req;
	/* Handles the request and replies, in a thread of the pool. */
	void (*run)(struct ck_area_job *j);
	bool always; /* run also when the mount ends */
	fuse_ino_t ino;
	size_t size;
	off_t off;
	struct fuse_file_info fi;
	char name[]; /* or empty */
};

/* The area of a request. */
struct ck_area *ck_area_of(fuse_req_t req);
/* Makes a job of a request; name and fi may be NULL. If memory is exhausted, replies and
 * returns NULL. */
struct ck_area_job *ck_area_job_make(fuse_req_t req, fuse_ino_t ino,
				     void (*run)(struct ck_area_job *j),
				     const char *name,
				     const struct fuse_file_info *fi);
/* Runs a job here or in a thread of the pool. It is freed after its run(). */
void ck_area_job_queue(struct ck_area_job *j);
/* Both, for a request without other arguments. */
void ck_area_defer(fuse_req_t req, fuse_ino_t ino,
		   void (*run)(struct ck_area_job *j), const char *name,
		   const struct fuse_file_info *fi);

/* --- area_walk.c: names to descriptors ---------------------------------------------- */

/* Returns an O_PATH descriptor of a node, until ck_area_fd_unpin(). Opens the names of the
 * path again, beneath the source, if the descriptor was closed. Or: -ESTALE if another file
 * has the name now, or none, and the node is not open; -EXDEV if a file system is mounted there; -ENOMEM; errors of
 * openat2(2). */
CK_MUST_USE int ck_area_pin(struct ck_area *a, struct ck_area_node *n);
/* Opens a regular file or a directory for reading. Returns a descriptor, and the state of a
 * regular file in *st. Or: -EINVAL for other types; errors of ck_area_pin(). */
CK_MUST_USE int ck_area_open(struct ck_area *a, struct ck_area_node *n,
			     struct stat *st);
/* The state of a node, as it is shown. Errors of ck_area_pin() and fstat(2). */
CK_MUST_USE int ck_area_stat(struct ck_area *a, struct ck_area_node *n,
			     struct stat *out);
/* Looks a name up in a directory. Fills the entry; its node has one more lookup. Returns
 * 0, or: -ENOENT; -EXDEV if the directory is that of another file system; -ENOMEM; errors
 * of ck_area_pin(), openat2(2) and fstat(2). */
CK_MUST_USE int ck_area_lookup(struct ck_area *a, struct ck_area_node *dir,
			       const char *name, struct fuse_entry_param *out);

/* --- area_handle.c: open files and directories ---------------------------------------- */

/* Makes a handle. Takes fd in any case, and adds a reference to n. Returns 0, or: -ENFILE
 * if too many files are open; -ENOMEM. */
CK_MUST_USE int ck_area_handle_make(struct ck_area *a, struct ck_area_node *n,
				    int fd, struct ck_area_handle **out);
void ck_area_handle_free(struct ck_area *a, struct ck_area_handle *h);
/* Returns a new descriptor of an open file or directory of this node, which shares its
 * position, or: -ESTALE if none is open; errors of fcntl(2). Does no input or output. */
CK_MUST_USE int ck_area_handle_dup(struct ck_area *a,
				   const struct ck_area_node *n);

/* --- handlers ------------------------------------------------------------------------ */

/* Set the handlers of these files. */
void ck_area_data_ops(struct fuse_lowlevel_ops *ops);
void ck_area_list_ops(struct fuse_lowlevel_ops *ops);
void ck_area_xattr_ops(struct fuse_lowlevel_ops *ops);
void ck_area_refuse_ops(struct fuse_lowlevel_ops *ops);

#endif
