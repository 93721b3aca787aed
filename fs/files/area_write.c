/* SPDX-License-Identifier: MIT */
/*
 * area_write: bytes of files/ of a writable mount. They are written in place, at once, and
 * are not part of commits. A file that is open for writing was checked at its open.
 *
 * Threads: any thread of files/; requests share no state.
 */
#include "area_internal.h"
#include "base/system/read_upto.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

/* The flags are those that the file has at the write, see fcntl(2). Pages of a mapping go
 * where they were read. An error behind the first bytes is that of the next request. */
static void write_run(struct ck_area_job *j)
{
	bool appends = (j->fi.flags & O_APPEND) && !j->fi.writepage;
	ssize_t n = ck_pwrite_upto(ck_area_handle_of(&j->fi)->fd, j->bytes,
				   j->size, (uint64_t)j->off,
				   appends ? RWF_APPEND : 0);

	if (n < 0)
		fuse_reply_err(j->req, (int)-n);
	else
		fuse_reply_write(j->req, (size_t)n);
}

static void area_write(fuse_req_t req, fuse_ino_t ino, const char *bytes,
		       size_t size, off_t off, struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, write_run, NULL, fi);

	if (!j)
		return;
	j->bytes = bytes;
	j->size = size;
	j->off = off;
	ck_area_job_queue(j);
}

static void fallocate_run(struct ck_area_job *j)
{
	int rc = fallocate(ck_area_handle_of(&j->fi)->fd, j->flags, j->off,
			   j->other_off);

	fuse_reply_err(j->req, rc ? errno : 0);
}

static void area_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
			   off_t len, struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, fallocate_run, NULL,
						 fi);

	if (!j)
		return;
	j->flags = mode;
	j->off = off;
	j->other_off = len;
	ck_area_job_queue(j);
}

static void copy_run(struct ck_area_job *j)
{
	ssize_t n = copy_file_range(ck_area_handle_of(&j->fi)->fd, &j->off,
				    ck_area_handle_of(&j->other_fi)->fd,
				    &j->other_off, j->size, (unsigned)j->flags);

	if (n < 0)
		fuse_reply_err(j->req, errno);
	else
		fuse_reply_write(j->req, (size_t)n);
}

/* Between files/ and the tree the kernel copies. */
static void area_copy_file_range(fuse_req_t req, fuse_ino_t ino, off_t off,
				 struct fuse_file_info *fi, fuse_ino_t to,
				 off_t to_off, struct fuse_file_info *to_fi,
				 size_t len, int flags)
{
	struct ck_area_job *j;

	if (!ck_area_has(ino) || !ck_area_has(to)) {
		fuse_reply_err(req, EXDEV);
		return;
	}
	j = ck_area_job_make(req, ino, copy_run, NULL, fi);
	if (!j)
		return;
	j->off = off;
	j->other_off = to_off;
	j->other_fi = *to_fi;
	j->size = len;
	j->flags = flags;
	ck_area_job_queue(j);
}

void ck_area_write_ops(struct fuse_lowlevel_ops *ops)
{
	ops->write = area_write;
	ops->fallocate = area_fallocate;
	ops->copy_file_range = area_copy_file_range;
}
