/* SPDX-License-Identifier: MIT */
/*
 * fs, inside: interfaces that the files of fs/ share.
 *
 * A request is handled by two functions: a static do_X() that finds the result
 * or a negative errno, and ck_fs_X() that replies exactly once.
 */
#ifndef CKPTFS_INTERNAL_H
#define CKPTFS_INTERNAL_H

#include "access_check.h"
#include "caller.h"
#include "ckptfs/commit.h"
#include "ckptfs/fs.h"
#include "ckptfs/io.h"
#include "ckptfs/stream.h"
#include "ckptfs/tree.h"
#include "files/area.h"
#include "node.h"
#include "session/mount_status.h"
#include "tree/object.h"
#include "tree/reports/damage.h"
#include "write/commit_thread.h"
#include "write/outcome.h"
#include "write/reopen_lease.h"
#include "write/scratch.h"
#include "write/write_handle.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Seconds for which the kernel may cache names and attributes. Only commits
 * change them. The kernel is notified of a commit, but not of single names (see
 * commit_thread.c). */
#define CK_TIMEOUT 86400.0

/* Longest name in a request of the kernel, in bytes. */
#define CK_NAME_MAX 1024

/* Largest request, in bytes, as libfuse and the kernel agree on. */
#define CK_REQUEST_MAX (1U << 20)

/* Largest read request, in bytes. A direct read of 1 MiB is three requests: two
 * threads serve them, and the gathered bytes stay in the cache of a processor.
 * tests/bench/RESULTS.md compares other sizes. */
#define CK_READ_MAX (384U << 10)

/* One mount. */
struct ck_fs {
	/* Constant while it is served; each object locks itself: */
	struct ck_checkpoint *cp;
	const struct ck_mount_options *options;
	struct ck_view_options view; /* owns copies of option texts */
	struct ck_template template;
	struct ck_tree_options shown;
	struct ck_root *root;
	struct ck_tree *tree;
	struct ck_access_checks *access_checks;
	struct ck_ahead *ahead;
	struct ck_route route;
	/* NULL without read-ahead of remote files */
	struct ck_streams *streams;
	struct ck_async_replies *async_replies;
	struct ck_exports *exports; /* NULL without a GPU; so is: */
	struct ck_pool *export_pool;
	/* seconds for names of tensors and boxes */
	double name_timeout;
	struct fuse_session *session;
	uint64_t offered; /* capabilities of the kernel, see protocol.h */
	struct ck_pool *pool;
	struct ck_pool *compare_pool; /* for comparing replicas */
	struct ck_area *area;	      /* files/; or NULL */
	struct ck_creator *creator;   /* borrowed; of a writable mount */
	struct ck_reopen_leases *reopen_leases;
	struct ck_write_handles *write_handles;
	/* Constant, too; NULL on a read-only mount: */
	struct ck_writer *writer;
	struct ck_transaction *transaction; /* all staged tensors */
	struct ck_deferred_queue *deferred;
	struct ck_commit_thread *commit_thread;
	struct ck_scratches *scratches;
	struct ck_whiteouts *whiteouts; /* files removed in this mount */

	/* Atomic: */
	atomic_uint commits; /* odd while a commit runs */
	/* the hint to commit many tensors at once is in the log */
	atomic_bool advised;
	atomic_bool was_asked;
	/* The kernel drops no set-ID bits of files that are written. */
	atomic_bool drops_setid;
	atomic_bool ends; /* the mount ends: stop long work */
	/* posted at the first request of the kernel */
	sem_t first_request;

	pthread_mutex_t handles_lock;
	/* Under handles_lock: */
	struct ck_handle *handles; /* open files */
};

/* --- handle.c: open files ------------------------------------------------- */

/* Closes files that were open when the mount ended: the kernel sends no release
 * for them. No FUSE thread may run any more. */
void ck_handles_close(struct ck_fs *fs);
/* The write handle of an open file. NULL if it was opened for reading, or is
 * not a tensor. */
struct ck_write_handle *ck_write_handle_of(const struct fuse_file_info *fi);
/* The scratch file of an open file; or NULL. */
struct ck_scratch *ck_handle_scratch(const struct fuse_file_info *fi);
/* Opens a file by fi->flags. Fills fi. */
CK_MUST_USE int ck_handle_open(struct ck_fs *fs, const struct ck_node *n,
			       struct fuse_file_info *fi);
/* Closes a file whose open the kernel has dropped, so that it sends no release. */
void ck_handle_drop(struct ck_fs *fs, struct fuse_file_info *fi);

/* --- session/mount_state.c ------------------------------------------------ */

/* Opens the checkpoint for writing if the options request it. Errors are in d. */
CK_MUST_USE int ck_fs_open_writer(struct ck_fs *fs, struct ck_diag *d);
/* Makes all other parts that need no thread. ck_fs_fini() must be called in any
 * case. */
CK_MUST_USE int ck_fs_make(struct ck_fs *fs, struct ck_diag *d);
void ck_fs_fini(struct ck_fs *fs);

/* --- session/kernel_ops.c ------------------------------------------------- */

/* Returns the handlers of all requests, of a read-only or a writable mount. */
struct fuse_lowlevel_ops ck_fs_ops(const struct ck_fs *fs);

/* --- session/timed_ops.c -------------------------------------------------- */

/* Returns handlers that call those of ck_fs_ops() and count their time. */
struct fuse_lowlevel_ops ck_fs_timed_ops(const struct ck_fs *fs);

/* --- buffer.c ------------------------------------------------------------- */

/* Returns at least len bytes of page-aligned memory, not cleared, for the reply
 * of the calling thread. Valid until its next call. NULL if memory is
 * exhausted. */
void *ck_reply_buffer(size_t len);

/* --- write_ops.c ---------------------------------------------------------- */

/* Replies to a read(2) through the open file of a writer that has written. */
void ck_fs_read_written(fuse_req_t req, struct ck_write_handle *wh,
			uint64_t vpos, size_t size);

/* --- patch.c -------------------------------------------------------------- */

/* Reads bytes [vpos, vpos + len) of the last committed version of file n: all,
 * or an error of opening or reading it. */
CK_MUST_USE int ck_patch_read(struct ck_fs *fs, const struct ck_node *n,
			      uint64_t vpos, size_t len, void *bytes);

/* Fills the ranges that were not written into the stage from the committed
 * version of file n. Errors of opening and reading it, and of ck_stage_fill(). */
CK_MUST_USE int ck_patch_fill(struct ck_fs *fs, struct ck_stage *stage,
			      const struct ck_node *n, struct ck_diag *d);

/* --- mountpoint_check.c --------------------------------------------------- */

/* Checks that a checkpoint may be mounted there (S-F5). Returns 0, or: -EINVAL;
 * -ENOTEMPTY; errors of open(2). */
CK_MUST_USE int ck_fs_check_mountpoint(const struct ck_checkpoint *cp,
				       const char *mountpoint, bool nonempty,
				       struct ck_diag *d);
/* Checks that /proc is mounted, which is needed to give new files their names.
 * -ENOENT if it is not. */
CK_MUST_USE int ck_fs_check_proc(const struct ck_checkpoint *cp,
				 struct ck_diag *d);

/* --- handlers ------------------------------------------------------------- */

void ck_fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void ck_fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n);
void ck_fs_forget_multi(fuse_req_t req, size_t count,
			struct fuse_forget_data *all);
void ck_fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ck_fs_statfs(fuse_req_t req, fuse_ino_t ino);
/* Open a directory of the tree, which has no state, and close it. */
void ck_fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ck_fs_releasedir(fuse_req_t req, fuse_ino_t ino,
		      struct fuse_file_info *fi);
void ck_fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		   struct fuse_file_info *fi);
void ck_fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi);
void ck_fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ck_fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		struct fuse_file_info *fi);
void ck_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ck_fs_readlink(fuse_req_t req, fuse_ino_t ino);
void ck_fs_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		    size_t size);
void ck_fs_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
/* Replies with an attribute's value or a list of names, or with its error. rc: 0 or a
 * negative errno. size: of the caller's memory; 0 requests the length. */
void ck_fs_reply_value(fuse_req_t req, int rc, const struct ck_buf *value,
		       size_t size);
/* On a writable mount: accepted for the names of ckptfs, without effect. */
void ck_fs_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		    const char *value, size_t size, int flags);
void ck_fs_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

/* Handles CKPTFS_IOC_GPU, and those of control_ioctl.c. */
void ck_fs_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
		 struct fuse_file_info *fi, unsigned flags, const void *in,
		 size_t in_len, size_t out_len);
/* control_ioctl.c: handles CK_IOC_COMMIT, CK_IOC_ABORT and
 * CK_IOC_RESET_STATS. */
void ck_fs_control_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd,
			 size_t out_len);

/* quiet_ops.c: sets the handlers of requests that files/ needs and a read-only tree does
 * not. */
void ck_fs_quiet_ops(const struct ck_fs *fs, struct fuse_lowlevel_ops *ops);
/* Sets the handlers of all requests that change files: they are refused. */
void ck_fs_readonly_ops(struct fuse_lowlevel_ops *ops);
/* write_ops.c: sets the handlers of a writable mount. */
void ck_fs_write_ops(struct fuse_lowlevel_ops *ops);

/* name_ops.c: sets the handlers that create, rename and remove names. */
void ck_fs_name_ops(struct fuse_lowlevel_ops *ops);
/* Replies EPERM in a directory of tensors on a writable mount, else EROFS. */
void ck_fs_refuse_in(fuse_req_t req, fuse_ino_t dir);
/* The node of a name in a directory, also if the file is removed in this mount.
 * -ENOENT, -ENOTDIR. */
CK_MUST_USE int ck_fs_name(const struct ck_fs *fs, const struct ck_node *dir,
			   const char *name, struct ck_node *out);

/* Free space of the source, in bytes; 0 on a read-only mount. */
uint64_t ck_fs_free_bytes(const struct ck_fs *fs);

/* Fills an entry for the kernel. The node gets one more use. */
CK_MUST_USE int ck_fs_entry(struct ck_fs *fs, const struct ck_node *n,
			    struct fuse_entry_param *out);
/* The same for a node of the tree with known attributes; counts no use. */
void ck_fs_entry_fill(const struct ck_fs *fs, const struct ck_node *n,
		      const struct ck_node_stat *known,
		      struct fuse_entry_param *out);
void ck_fs_reply_entry(fuse_req_t req, const struct fuse_entry_param *e);
/* Drops n uses of a node, of the tree or a scratch file. */
void ck_fs_forget_one(struct ck_fs *fs, uint64_t number, uint64_t n);

/* Logs damaged tensors, and names that are shown with prefixes. */
void ck_fs_log_faults(const struct ck_fs *fs);

#endif
