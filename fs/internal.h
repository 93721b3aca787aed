/* SPDX-License-Identifier: MIT */
/*
 * fs, inside: what the files of this directory share. A request is answered
 * by two functions: a static do_X() that finds the answer or a negative
 * errno, and ck_fs_X() that replies exactly once.
 */
#ifndef CKPTFS_FS_INTERNAL_H
#define CKPTFS_FS_INTERNAL_H

#include "access_check.h"
#include "caller.h"
#include "ckptfs/commit.h"
#include "ckptfs/damage.h"
#include "ckptfs/fs.h"
#include "ckptfs/move.h"
#include "ckptfs/object.h"
#include "ckptfs/stream.h"
#include "ckptfs/tree.h"
#include "node.h"
#include "session/mount_status.h"
#include "write/commit_thread.h"
#include "write/control_ioctl.h"
#include "write/outcome.h"
#include "write/reopen_lease.h"
#include "write/scratch.h"
#include "write/write_handle.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Seconds the kernel may believe names and attributes: they change by commits
 * only, and then it is told, but not of single names (see commit_thread.c). */
#define CK_TIMEOUT 86400.0

/* Bytes of a name that the kernel asks for, at most. */
#define CK_NAME_MAX 1024

/* Bytes of one request at most; what libfuse and the kernel agree on. */
#define CK_REQUEST_MAX (1U << 20)

/* Bytes of one request to read at most. Measured: a program that reads 1 MiB
 * directly is served 1.3 to 1.5 times as fast by two threads half each, and
 * what they gather fits into a processor's cache. */
#define CK_READ_MAX (512U << 10)

/* One mount. */
struct ck_fs {
	/* Constant while it is served; what it points to locks itself: */
	struct ck_checkpoint *cp;
	const struct ck_mount_options *options;
	struct ck_view_options view; /* texts of options */
	struct ck_template template;
	struct ck_tree_options shown;
	struct ck_root *root;
	struct ck_tree *tree;
	struct ck_access_checks *access_checks;
	struct ck_ahead *ahead;
	struct ck_route route;
	struct ck_streams *streams; /* NULL: nothing is brought ahead */
	struct ck_async_replies *async_replies;
	struct ck_exports *exports; /* NULL: there is no GPU; as well as: */
	struct ck_pool *export_pool;
	double name_timeout; /* of tensors and boxes, in seconds */
	struct fuse_session *session;
	struct ck_pool *pool;
	struct ck_pool *compare_pool; /* for who asks which ranks differ */
	struct ck_reopen_leases *reopen_leases;
	struct ck_write_handles *write_handles;
	/* Constant, too; NULL unless it is a mount for writing: */
	struct ck_writer *writer;
	struct ck_transaction *transaction; /* of all that is written */
	struct ck_deferred_queue *deferred;
	struct ck_commit_thread *commit_thread;
	struct ck_scratches *scratches;
	struct ck_whiteouts
		*whiteouts; /* names that were removed, or made again */

	/* Atomic: */
	atomic_uint commits; /* odd while one is made */
	atomic_bool advised; /* to make one commit of many */
	atomic_bool was_asked;
	atomic_bool ends; /* nobody waits for what takes long */
	sem_t asked;	  /* posted when the kernel asks first */

	pthread_mutex_t handles_lock;
	/* Under handles_lock: */
	struct ck_handle *handles; /* open files */
};

/* --- handle.c: open files ----------------------------------------------------- */

/* Frees the files that were open when the mount ended: the kernel sends no
 * release for them. No thread may serve any more. */
void ck_handles_close(struct ck_fs *fs);
/* What is written through an open file; NULL: it was opened for reading, or is
 * no tensor's. */
struct ck_write_handle *ck_write_handle_of(const struct fuse_file_info *fi);
/* NULL: it is no scratch file. */
struct ck_scratch *ck_handle_scratch(const struct fuse_file_info *fi);
/* open(2) of a file by fi->flags. */
CK_MUST_USE int ck_handle_open(struct ck_fs *fs, const struct ck_node *n,
			       struct fuse_file_info *fi);
/* Closes a file of which the kernel did not take the handle: it sends no
 * release. */
void ck_handle_drop(struct ck_fs *fs, struct fuse_file_info *fi);

/* --- session/mount_state.c ---------------------------------------------------- */

/* Opens the checkpoint for writing if the options ask for that. Errors are in d. */
CK_MUST_USE int ck_fs_open_writer(struct ck_fs *fs, struct ck_diag *d);
/* Makes all other parts that need no thread. Must be freed by ck_fs_fini() in any case. */
CK_MUST_USE int ck_fs_make(struct ck_fs *fs, struct ck_diag *d);
void ck_fs_fini(struct ck_fs *fs);

/* --- session/kernel_ops.c ----------------------------------------------------- */

/* The handlers of all requests, as the kind of mount (read-only, writable) has them. */
struct fuse_lowlevel_ops ck_fs_ops(const struct ck_fs *fs);

/* --- buffer.c -------------------------------------------------------------- */

/* At least len bytes, whole pages and with any content, for the reply that this
 * thread makes: good until it asks again, which is why it is for nothing else.
 * NULL: out of memory. */
void *ck_reply_buffer(size_t len);

/* --- write_ops.c ------------------------------------------------------------ */

/* Answers a read(2) by the program that writes the file. */
void ck_fs_read_written(fuse_req_t req, struct ck_write_handle *wh,
			uint64_t vpos, size_t size);

/* --- patch.c ------------------------------------------------------------ */

/* Bytes [vpos, vpos + len) of the file n as it was committed last: all, or an error of
 * opening or reading it. */
CK_MUST_USE int ck_patch_read(struct ck_fs *fs, const struct ck_node *n,
			      uint64_t vpos, size_t len, void *bytes);

/* What of the file n was not written into the stage becomes what it has now.
 * Errors of opening and reading it, and of ck_stage_fill(). */
CK_MUST_USE int ck_patch_fill(struct ck_fs *fs, struct ck_stage *stage,
			      const struct ck_node *n, struct ck_diag *d);

/* --- mountpoint_check.c ------------------------------------------------------------ */

/* Whether a checkpoint may be mounted there (S-F5): 0 or -EINVAL, errors of
 * open(2). */
CK_MUST_USE int ck_fs_check_mountpoint(const struct ck_checkpoint *cp,
				       const char *mountpoint, bool nonempty,
				       struct ck_diag *d);
/* New files get their names by way of /proc. -ENOENT: it is not mounted. */
CK_MUST_USE int ck_fs_check_proc(const struct ck_checkpoint *cp,
				 struct ck_diag *d);

/* --- handlers ------------------------------------------------------------- */

void ck_fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void ck_fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n);
void ck_fs_forget_multi(fuse_req_t req, size_t count,
			struct fuse_forget_data *all);
void ck_fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ck_fs_statfs(fuse_req_t req, fuse_ino_t ino);
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
/* Of a mount for writing: accepted for the names above, without effect. */
void ck_fs_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		    const char *value, size_t size, int flags);
void ck_fs_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

/* Fills the rows of everything that would change something: refused. */
void ck_fs_readonly_ops(struct fuse_lowlevel_ops *ops);
/* write_ops.c: changes those that a mount for writing has. */
void ck_fs_write_ops(struct fuse_lowlevel_ops *ops);

/* name_ops.c: fills the rows that create, rename and remove names. */
void ck_fs_name_ops(struct fuse_lowlevel_ops *ops);
/* As those of a mount for reading: EPERM where tensors are, else EROFS. */
void ck_fs_refuse_in(fuse_req_t req, fuse_ino_t dir);
/* The node that a name in a directory is of, or would be of if it was not
 * hidden. -ENOENT, -ENOTDIR. */
CK_MUST_USE int ck_fs_name(const struct ck_fs *fs, const struct ck_node *dir,
			   const char *name, struct ck_node *out);

/* What the source has left to write to; 0 of a mount for reading. */
uint64_t ck_fs_free_bytes(const struct ck_fs *fs);

/* Fills an entry for the kernel; the node is in use once more. */
CK_MUST_USE int ck_fs_entry(struct ck_fs *fs, const struct ck_node *n,
			    struct fuse_entry_param *out);
/* Of a node of the tree, of which this is known. */
void ck_fs_entry_fill(const struct ck_fs *fs, const struct ck_node *n,
		      const struct ck_node_stat *known,
		      struct fuse_entry_param *out);
void ck_fs_reply_entry(fuse_req_t req, const struct fuse_entry_param *e);
/* A node, by any number, is in use by n less. */
void ck_fs_forget_one(struct ck_fs *fs, uint64_t number, uint64_t n);

/* Says in the log what is damaged, and what is shown with prefixes. */
void ck_fs_log_faults(const struct ck_fs *fs);

#endif
