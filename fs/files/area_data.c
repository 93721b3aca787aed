/* SPDX-License-Identifier: MIT */
/*
 * area_data: open files of files/. An open file has a descriptor of the source,
 * so it has the bytes of the file that was opened, also after its name leads to another.
 *
 * Page cache: the kernel drops its pages of a file at an open after which the file has
 * another size, mtime or ctime than at the last one, and when it learns another size. With
 * passthrough (backing.h) it has none.
 *
 * Threads: any thread of files/; requests share no state.
 */
#include "../session/protocol.h"
#include "area_internal.h"
#include "base/system/read_upto.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Hands the bytes of an open file over to the kernel, if it can read and write them.
 *
 * The kernel (6.18) reads and writes with the O_DIRECT of open(2) also after F_SETFL has
 * removed it, as dd(1) does before its last block. Such reads and writes come to the daemon;
 * mappings are those of the backing file. */
static void passthrough_begin(struct ck_area *a, struct ck_area_handle *h,
			      struct fuse_file_info *fi)
{
	h->backing = ck_backing_take(a->backing, &h->node->backed,
				     fuse_session_fd(a->fs->session), h->fd,
				     fi->flags);
	h->backed = true;
	if (h->backing && (fi->flags & O_DIRECT))
		fi->direct_io = true;
}

/* Some file systems have no O_DIRECT, for which open(2) fails. */
static int direct_check(int fd)
{
	int rc = fcntl(fd, F_GETFL), flags = rc;

	if (rc >= 0)
		rc = fcntl(fd, F_SETFL, flags | O_DIRECT);
	if (rc >= 0)
		rc = fcntl(fd, F_SETFL, flags);
	return rc < 0 ? -errno : 0;
}

int ck_area_handle_open(struct ck_area *a, struct ck_area_node *n, int fd,
			struct fuse_file_info *fi)
{
	int rc = fi->flags & O_DIRECT ? direct_check(fd) : 0;
	struct ck_area_handle *h;

	if (rc) {
		close(fd);
		return rc;
	}
	rc = ck_area_handle_make(a, n, fd, &h);
	if (rc)
		return rc;
	h->writes = (fi->flags & O_ACCMODE) != O_RDONLY;
	fi->fh = (uintptr_t)h;
	fi->direct_io = a->fs->options->direct;
	fi->noflush = !h->writes || !a->flushes;
	passthrough_begin(a, h, fi);
	return 0;
}

static int flags_check(struct ck_area *a, const struct ck_area_node *n,
		       int flags)
{
	if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC))
		return 0;
	return a->creator ? ck_area_may_change(a, n) : -EROFS;
}

static int do_open(struct ck_area *a, struct ck_area_node *n,
		   struct fuse_file_info *fi)
{
	struct stat st;
	int rc = flags_check(a, n, fi->flags), fd;

	if (rc)
		return rc;
	fd = ck_area_open(a, n, fi->flags & CK_AREA_FLAGS_KEPT, &st);
	/* chattr +a: the file can be opened for appending only */
	if (fd == -EPERM && (fi->flags & O_APPEND))
		fd = ck_area_open(
			a, n, fi->flags & (CK_AREA_FLAGS_KEPT | O_APPEND), &st);
	if (fd < 0)
		return fd;
	rc = ck_area_handle_open(a, n, fd, fi);
	if (rc == 0 && !ck_area_handle_of(fi)->backing)
		fi->keep_cache = ck_area_note_open(&a->table, n, &st);
	return rc;
}

static int open_reply(struct ck_area_job *j)
{
	ck_protocol_back(ck_area_handle_of(&j->fi)->backing);
	return fuse_reply_open(j->req, &j->fi);
}

static void open_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	int rc = n ? do_open(j->area, n, &j->fi) : -ESTALE;

	ck_area_put(&j->area->table, n);
	if (rc)
		fuse_reply_err(j->req, -rc);
	else if (open_reply(j) == -ENOENT)
		/* interrupted: the kernel sends no release */
		ck_area_handle_free(j->area, ck_area_handle_of(&j->fi));
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
		n = ck_pread_upto(ck_area_handle_of(&j->fi)->fd, bytes, j->size,
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
	ck_area_handle_free(j->area, ck_area_handle_of(&j->fi));
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

/* Some file systems report errors of writes at close(2). */
static void flush_run(struct ck_area_job *j)
{
	const struct ck_area_handle *h = ck_area_handle_of(&j->fi);
	int fd = h->writes ? fcntl(h->fd, F_DUPFD_CLOEXEC, 0) : -1;
	int rc = 0;

	if (h->writes)
		rc = fd < 0 || close(fd) ? errno : 0;
	fuse_reply_err(j->req, rc);
}

static void area_flush(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	ck_area_defer(req, ino, flush_run, NULL, fi);
}

static void fsync_run(struct ck_area_job *j)
{
	int fd = ck_area_handle_of(&j->fi)->fd;
	int rc = 0;

	if (fd >= 0)
		rc = (j->flags ? fdatasync(fd) : fsync(fd)) ? errno : 0;
	fuse_reply_err(j->req, rc);
}

/* Of a file or a directory. */
static void area_fsync(fuse_req_t req, fuse_ino_t ino, int data_only,
		       struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, fsync_run, NULL, fi);

	if (!j)
		return;
	j->flags = data_only;
	ck_area_job_queue(j);
}

static void lseek_run(struct ck_area_job *j)
{
	off_t at = lseek(ck_area_handle_of(&j->fi)->fd, j->off, j->flags);

	if (at < 0)
		fuse_reply_err(j->req, errno);
	else
		fuse_reply_lseek(j->req, at);
}

/* SEEK_DATA and SEEK_HOLE; the kernel handles the others. */
static void area_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence,
		       struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, lseek_run, NULL, fi);

	if (!j)
		return;
	j->off = off;
	j->flags = whence;
	ck_area_job_queue(j);
}

void ck_area_data_ops(struct fuse_lowlevel_ops *ops)
{
	ops->open = area_open;
	ops->read = area_read;
	ops->release = area_release;
	ops->flush = area_flush;
	ops->fsync = area_fsync;
	ops->fsyncdir = area_fsync;
	ops->lseek = area_lseek;
}
