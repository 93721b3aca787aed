/* SPDX-License-Identifier: MIT */
/*
 * area_data: open files of files/, for reading. An open file has a descriptor of the source,
 * so it has the bytes of the file that was opened, also after its name leads to another.
 *
 * Page cache: the kernel drops its pages of a file at an open after which the file has
 * another size, mtime or ctime than at the last one, and when it learns another size.
 *
 * Threads: any thread of files/; requests share no state.
 */
#include "area_internal.h"
#include "base/system/read_upto.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static struct ck_area_handle *handle_of(const struct fuse_file_info *fi)
{
	return (struct ck_area_handle *)fi->fh;
}

static int do_open(struct ck_area *a, struct ck_area_node *n,
		   struct fuse_file_info *fi)
{
	struct ck_area_handle *h;
	struct stat st;
	int fd, rc;

	if ((fi->flags & O_ACCMODE) != O_RDONLY || (fi->flags & O_TRUNC))
		return -EROFS;
	fd = ck_area_open(a, n, &st);
	if (fd < 0)
		return fd;
	rc = ck_area_handle_make(a, n, fd, &h);
	if (rc)
		return rc;
	fi->fh = (uintptr_t)h;
	fi->direct_io = a->fs->options->direct;
	fi->keep_cache = ck_area_note_open(&a->table, n, &st);
	fi->noflush = 1;
	return 0;
}

static void open_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	int rc = n ? do_open(j->area, n, &j->fi) : -ESTALE;

	ck_area_put(&j->area->table, n);
	if (rc)
		fuse_reply_err(j->req, -rc);
	else if (fuse_reply_open(j->req, &j->fi) == -ENOENT)
		/* interrupted: the kernel sends no release */
		ck_area_handle_free(j->area, handle_of(&j->fi));
}

static void area_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	ck_area_defer(req, ino, open_run, NULL, fi);
}

/* Fewer bytes than the request means the end of the file, so an error behind the first bytes
 * is the error of all. */
static void read_run(struct ck_area_job *j)
{
	char *bytes = ck_reply_buffer(j->size);
	ssize_t n = -ENOMEM;

	if (bytes)
		n = ck_pread_upto(handle_of(&j->fi)->fd, bytes, j->size,
				  (uint64_t)j->off);

	if (n < 0)
		fuse_reply_err(j->req, (int)-n);
	else
		fuse_reply_buf(j->req, bytes, (size_t)n);
}

static void area_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		      struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, read_run, NULL, fi);

	if (!j)
		return;
	j->size = size;
	j->off = off;
	ck_area_job_queue(j);
}

static void release_run(struct ck_area_job *j)
{
	ck_area_handle_free(j->area, handle_of(&j->fi));
	fuse_reply_err(j->req, 0);
}

/* If memory is exhausted the end of the mount closes the file. */
static void area_release(fuse_req_t req, fuse_ino_t ino,
			 struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, release_run, NULL,
						 fi);

	if (!j)
		return;
	j->always = true;
	ck_area_job_queue(j);
}

/* No file is open for writing. */
static void area_flush(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	(void)ino, (void)fi;
	fuse_reply_err(req, 0);
}

static void fsync_run(struct ck_area_job *j)
{
	fuse_reply_err(j->req, fsync(handle_of(&j->fi)->fd) ? errno : 0);
}

static void area_fsync(fuse_req_t req, fuse_ino_t ino, int data_only,
		       struct fuse_file_info *fi)
{
	(void)data_only;
	ck_area_defer(req, ino, fsync_run, NULL, fi);
}

void ck_area_data_ops(struct fuse_lowlevel_ops *ops)
{
	ops->open = area_open;
	ops->read = area_read;
	ops->release = area_release;
	ops->flush = area_flush;
	ops->fsync = area_fsync;
}
