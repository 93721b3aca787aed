/* SPDX-License-Identifier: MIT */
/*
 * area_internal: shared by the files of fs/files.
 */
#ifndef CKPTFS_AREA_INTERNAL_H
#define CKPTFS_AREA_INTERNAL_H

#include "../internal.h"
#include "../session/pool.h"
#include "area.h"
#include "area_protect.h"
#include "area_table.h"
#include "base/system/fd_link.h"
#include "creator.h"
#include <fcntl.h>

/* The position in an open directory, and its entries that were read and not sent yet. */
struct ck_area_list {
	pthread_mutex_t lock;
	/* Under lock: */
	off_t next;	 /* cookie of the entry at `at` */
	size_t at, used; /* bytes of entries, sent and read */
	char bytes[32 << 10] __attribute__((aligned(8)));
};

/* Flags of open(2) that the daemon opens a file with, too. */
enum { CK_AREA_FLAGS_KEPT = O_ACCMODE | O_SYNC | O_DSYNC };

/* An open file or directory. */
struct ck_area_handle {
	struct ck_area_handle *next, *prev; /* under ck_area.handles_lock */
	/* Constant: */
	struct ck_area_node *node; /* held */
	int fd;			   /* -1: an empty directory */
	bool writes;		   /* open for writing */
	bool backed;		   /* counts in node->backed */
	int backing;		   /* the file that the kernel uses; or 0 */
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
	struct ck_pool *makers;	    /* waits for the creator; the same */
	struct ck_backing *backing; /* borrowed; the same; or NULL */
	/* Held for writing while a directory gets another name and its node does, for reading
	 * while names are followed. Before ck_area_table.lock. */
	pthread_rwlock_t renames;
	struct ck_creator *creator; /* borrowed; NULL: files/ is read-only */
	bool flushes; /* the file system of the source may write at close(2) */
	struct ck_area_protected
		*protected; /* files of the checkpoint; or NULL */
	/* Atomic: a FUSE thread handles a request itself */
	atomic_flag has_fuse_thread;
	/* that other users cannot create files is in the log */
	atomic_flag others_logged;

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
	bool makes;  /* waits for the creator */
	fuse_ino_t ino;
	size_t size;
	off_t off;
	struct fuse_file_info fi;
	bool has_fi;
	/* of some requests: */
	fuse_ino_t other_ino; /* directory of other_name; second file */
	off_t other_off;
	struct fuse_file_info other_fi;
	mode_t mode;
	dev_t dev;
	int flags;
	struct stat attr;
	const char
		*bytes;	  /* `size` of them, until run() is called; or owned: */
	char *other_name; /* or target, or bytes; owned */
	char name[];	  /* or empty */
};

/* The area of a request. */
struct ck_area *ck_area_of(fuse_req_t req);
/* Makes a job of a request; name and fi may be NULL. If memory is exhausted, replies and
 * returns NULL. */
struct ck_area_job *ck_area_job_make(fuse_req_t req, fuse_ino_t ino,
				     void (*run)(struct ck_area_job *j),
				     const char *name,
				     const struct fuse_file_info *fi);
/* Copies a second text of a request. If memory is exhausted, replies, frees the job and
 * returns false. */
CK_MUST_USE bool ck_area_job_text(struct ck_area_job *j, const char *text);
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
/* Pins the parent of a node, and sets *parent, held, and the name there. Returns a
 * descriptor, or: -EINVAL for a top; -ESTALE if the name is not known; errors of
 * ck_area_pin(). */
CK_MUST_USE int ck_area_pin_parent(struct ck_area *a, struct ck_area_node *n,
				   struct ck_area_node **parent,
				   char name[static CK_AREA_NAME_BYTES]);
/* Opens a regular file with the flags, or a directory for reading. Returns a descriptor, and
 * the state of a regular file in *st. Or: -EINVAL for other types; errors of
 * ck_area_pin(). */
CK_MUST_USE int ck_area_open(struct ck_area *a, struct ck_area_node *n,
			     int flags, struct stat *st);
/* Identity of a file with a name in a directory, or of fd itself with the name "". */
struct ck_area_id ck_area_id_of(const struct ck_area *a,
				const struct ck_area_node *dir, int fd,
				const char *name, const struct stat *st);
/* Sets attributes of an open file as they are shown. Errors of fstat(2). */
CK_MUST_USE int ck_area_fd_stat(const struct ck_area *a, int fd,
				struct stat *out);
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
/* Makes the handle of a regular file that was opened with fi->flags, and fills fi. The same
 * errors. Takes fd in any case. */
CK_MUST_USE int ck_area_handle_open(struct ck_area *a, struct ck_area_node *n,
				    int fd, struct fuse_file_info *fi);
/* -ENFILE if no more files can be opened; another thread may open the last one, too. */
CK_MUST_USE int ck_area_handle_room(struct ck_area *a);
/* True if the node is open for writing. */
CK_MUST_USE bool ck_area_handle_writes(struct ck_area *a,
				       const struct ck_area_node *n);
/* Returns a new descriptor of an open file or directory of this node, which shares its
 * position, or: -ESTALE if none is open; errors of fcntl(2). Does no input or output. */
CK_MUST_USE int ck_area_handle_dup(struct ck_area *a,
				   const struct ck_area_node *n);

/* --- area_write.c --------------------------------------------------------------------- */

/* The set-ID bits that a change of the owner by the sender of a request drops, as Linux 6.2
 * does in its own file systems: set-group-ID without execution by the group was mandatory
 * locking, and stays for senders with that group. User 0 is taken for a sender with CAP_FSETID. */
mode_t ck_area_setid_of(fuse_req_t req, const struct stat *st);
/* Drops set-ID bits of the open file fd, O_PATH or not, before the sender of a request changes
 * its bytes, if the kernel leaves that to the daemon. Errors of fstat(2) and chmod(2). */
CK_MUST_USE int ck_area_setid_drop(const struct ck_area_job *j, int fd);
/* Drops these bits of the mode. The same. */
CK_MUST_USE int ck_area_bits_drop(int fd, mode_t bits);

/* --- handlers ------------------------------------------------------------------------ */

/* Set the handlers of these files. */
void ck_area_data_ops(struct fuse_lowlevel_ops *ops);
void ck_area_list_ops(struct fuse_lowlevel_ops *ops);
void ck_area_xattr_ops(struct fuse_lowlevel_ops *ops);
void ck_area_refuse_ops(struct fuse_lowlevel_ops *ops);
/* Those of a writable mount. */
void ck_area_write_ops(struct fuse_lowlevel_ops *ops);
void ck_area_attr_ops(struct fuse_lowlevel_ops *ops);
void ck_area_make_ops(struct fuse_lowlevel_ops *ops);
void ck_area_name_ops(struct fuse_lowlevel_ops *ops);

/* The handle of an open file. */
static inline struct ck_area_handle *ck_area_handle_of(
	const struct fuse_file_info *fi)
{
	return (struct ck_area_handle *)fi->fh;
}

/* Replies with an entry of ck_area_lookup(), or with an error. */
void ck_area_reply_entry(struct ck_area_job *j, int rc,
			 const struct fuse_entry_param *e);

#endif
