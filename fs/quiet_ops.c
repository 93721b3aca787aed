/* SPDX-License-Identifier: MIT */
/*
 * quiet_ops: handlers of the tree for requests that only files/ needs. Without a handler the
 * reply is ENOSYS, after which the kernel sends such a request for no file of the mount. The
 * replies have the effect that ENOSYS has: a file of the tree has no holes, a copy is made by
 * reads and writes, and there is nothing to sync. No state, no locks.
 */
#include "internal.h"
#include <errno.h>
#include <unistd.h>

static void tree_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence,
		       struct fuse_file_info *fi)
{
	const struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_node n;
	struct stat st;
	int rc = ck_node_find(fs, ino, &n);

	(void)fi;
	if (rc == 0)
		rc = ck_node_stat(fs, &n, &st);
	if (rc == 0 && off >= st.st_size)
		rc = -ENXIO;
	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_lseek(req, whence == SEEK_DATA ? off : st.st_size);
}

static void tree_copy_file_range(fuse_req_t req, fuse_ino_t ino, off_t off,
				 struct fuse_file_info *fi, fuse_ino_t to,
				 off_t to_off, struct fuse_file_info *to_fi,
				 size_t len, int flags)
{
	(void)ino, (void)off, (void)fi, (void)to, (void)to_off, (void)to_fi;
	(void)len, (void)flags;
	fuse_reply_err(req, EOPNOTSUPP);
}

static void tree_sync(fuse_req_t req, fuse_ino_t ino, int data_only,
		      struct fuse_file_info *fi)
{
	(void)ino, (void)data_only, (void)fi;
	fuse_reply_err(req, 0);
}

static void tree_flush(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	(void)ino, (void)fi;
	fuse_reply_err(req, 0);
}

/* No file of the tree is open for writing, unless write_ops.c has the handlers. */
static void tree_write(fuse_req_t req, fuse_ino_t ino, const char *bytes,
		       size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)ino, (void)bytes, (void)size, (void)off, (void)fi;
	fuse_reply_err(req, EROFS);
}

static void tree_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
			   off_t len, struct fuse_file_info *fi)
{
	(void)ino, (void)mode, (void)off, (void)len, (void)fi;
	fuse_reply_err(req, EROFS);
}

void ck_fs_quiet_ops(const struct ck_fs *fs, struct fuse_lowlevel_ops *ops)
{
	ops->lseek = tree_lseek;
	if (!ck_area_is_writable(fs))
		return;
	ops->fsync = tree_sync;
	ops->fsyncdir = tree_sync;
	ops->flush = tree_flush;
	ops->write = tree_write;
	ops->fallocate = tree_fallocate;
	ops->copy_file_range = tree_copy_file_range;
}
