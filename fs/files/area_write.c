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

mode_t ck_area_setid_of(fuse_req_t req, const struct stat *st)
{
	struct ck_caller sender;
	mode_t bits = st->st_mode & S_ISUID;

	if (!(st->st_mode & S_ISGID))
		return bits;
	if (st->st_mode & S_IXGRP)
		return bits | S_ISGID;
	if (fuse_req_ctx(req)->uid == 0)
		return bits;
	ck_caller_take(&sender, req);
	if (!ck_caller_has_group(&sender, st->st_gid))
		bits |= S_ISGID;
	ck_caller_fini(&sender);
	return bits;
}

int ck_area_setid_drop(const struct ck_area_job *j, int fd)
{
	struct stat st;

	if (!atomic_load(&j->area->fs->drops_setid) ||
	    fuse_req_ctx(j->req)->uid == 0)
		return 0;
	if (fstat(fd, &st))
		return -errno;
	return ck_area_bits_drop(fd, ck_area_setid_of(j->req, &st));
}

int ck_area_bits_drop(int fd, mode_t bits)
{
	char link[CK_FD_LINK_BYTES];
	struct stat st;

	if (!bits)
		return 0;
	if (fstat(fd, &st))
		return -errno;
	ck_fd_link(fd, link);
	return st.st_mode & bits && chmod(link, st.st_mode & 07777 & ~bits)
		       ? -errno
		       : 0;
}

/* The flags are those that the file has at the write, see fcntl(2). Pages of a mapping go
 * where they were read. An error behind the first bytes is that of the next request. */
static void write_run(struct ck_area_job *j)
{
	bool appends = (j->fi.flags & O_APPEND) && !j->fi.writepage;
	int fd = ck_area_handle_of(&j->fi)->fd;
	ssize_t n = j->fi.writepage ? 0 : ck_area_setid_drop(j, fd);

	if (n == 0)
		n = ck_pwrite_upto(fd, j->bytes, j->size, (uint64_t)j->off,
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
	int fd = ck_area_handle_of(&j->fi)->fd;
	int rc = ck_area_setid_drop(j, fd);

	if (rc == 0 && fallocate(fd, j->flags, j->off, j->other_off))
		rc = -errno;
	fuse_reply_err(j->req, -rc);
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
	int to = ck_area_handle_of(&j->other_fi)->fd;
	int rc = ck_area_setid_drop(j, to);
	ssize_t n = 0;

	if (rc == 0)
		n = copy_file_range(ck_area_handle_of(&j->fi)->fd, &j->off, to,
				    &j->other_off, j->size, (unsigned)j->flags);
	if (n < 0)
		rc = -errno;
	if (rc)
		fuse_reply_err(j->req, -rc);
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
