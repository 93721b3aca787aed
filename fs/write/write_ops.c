/* SPDX-License-Identifier: MIT */
/*
 * write_ops: handlers that change files, on a writable mount. Written bytes go
 * into the write handle of the open file. A close or fsync(2) of a complete
 * file commits it, or stages it with commit=manual. Until then the committed
 * version is shown, with its size, to the writer too: readers share the inode
 * in the kernel. Only the open file of the writer returns written bytes.
 *
 * Owner, mode and times of a tensor are those of the checkpoint. Changes are
 * accepted without effect, so that tools that copy them succeed. One change is
 * refused: removing permissions of group or others must not look successful. A
 * program that has the file open for writing, as `cp -p`, only gets a line in
 * the log. A file that was created again may start private, as the tool
 * requests it, and has the mode of the tensor afterwards. So does a renamed
 * file. Scratch files have attributes of their own.
 *
 * No state: requests that meet a commit are copied and deferred (deferred.h).
 * Threads: any FUSE thread, the deferred queue, the commit thread.
 */
#include "../internal.h"
#include "base/system/process.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* --- bytes ---------------------------------------------------------------- */

/* A write to a file that is being committed. The file stays open until the
 * reply. */
struct write_request {
	struct ck_deferred deferred;
	fuse_req_t req;
	struct ck_write_handle *wh;
	uint64_t off;
	size_t len;
	char bytes[];
};

static int write_answer(struct ck_deferred *l)
{
	struct write_request *r = (struct write_request *)l;
	int rc = ck_write_handle_write(fuse_req_userdata(r->req), r->wh, r->off,
				       r->bytes, r->len,
				       fuse_req_ctx(r->req)->pid);

	if (rc == CK_AFTER_COMMIT && !l->may_commit)
		return rc;
	if (rc)
		fuse_reply_err(r->req, rc == CK_AFTER_COMMIT ? EBUSY : -rc);
	else
		fuse_reply_write(r->req, r->len);
	return 0;
}

/* CK_AFTER_COMMIT: it will be answered. */
static int write_after_commit(fuse_req_t req, struct ck_write_handle *wh,
			      uint64_t off, const char *bytes, size_t len)
{
	struct write_request *r = calloc(1, sizeof(*r) + len);

	if (!r)
		return -ENOMEM;
	r->deferred.answer = write_answer;
	r->req = req;
	r->wh = wh;
	r->off = off;
	r->len = len;
	memcpy(r->bytes, bytes, len);
	if (ck_commit_thread_retry(fuse_req_userdata(req), &r->deferred) == 0)
		return CK_AFTER_COMMIT;
	free(r);
	return -ENOMEM;
}

static void rw_write(fuse_req_t req, fuse_ino_t ino, const char *bytes,
		     size_t len, off_t off, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	int rc = -EBADF;

	(void)ino;
	if (ck_write_handle_of(fi))
		rc = ck_write_handle_write(fs, ck_write_handle_of(fi),
					   (uint64_t)off, bytes, len,
					   fuse_req_ctx(req)->pid);
	else if (ck_handle_scratch(fi))
		rc = ck_scratch_write(fs, ck_handle_scratch(fi), (uint64_t)off,
				      bytes, len, fuse_req_ctx(req)->pid);
	if (rc == CK_AFTER_COMMIT)
		rc = write_after_commit(req, ck_write_handle_of(fi),
					(uint64_t)off, bytes, len);
	if (rc == CK_AFTER_COMMIT)
		return;
	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_write(req, len);
}

/* A read by the writer, which may wait for a commit. */
struct read_request {
	struct ck_deferred deferred;
	fuse_req_t req;
	struct ck_write_handle *wh;
	uint64_t vpos;
	size_t size;
};

static int read_answer(struct ck_deferred *l)
{
	struct read_request *r = (struct read_request *)l;
	void *bytes = ck_reply_buffer(r->size);
	size_t len = r->size;
	int rc = bytes ? ck_write_handle_read(fuse_req_userdata(r->req), r->wh,
					      r->vpos, &len, bytes)
		       : -ENOMEM;

	if (rc == CK_AFTER_COMMIT && !l->may_commit)
		return rc;
	if (rc)
		fuse_reply_err(r->req, rc == CK_AFTER_COMMIT ? EBUSY : -rc);
	else
		fuse_reply_buf(r->req, bytes, len);
	return 0;
}

void ck_fs_read_written(fuse_req_t req, struct ck_write_handle *wh,
			uint64_t vpos, size_t size)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct read_request r = { .deferred.answer = read_answer,
				  .req = req,
				  .wh = wh,
				  .vpos = vpos,
				  .size = size };

	ck_deferred_answer(fs->deferred, &r.deferred, sizeof(r));
}

/* Without this call the C library writes a zero into each block, which could not be
 * distinguished from bytes of the tensor. */
static void rw_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
			 off_t len, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	uint64_t begin = (uint64_t)off, n = (uint64_t)len;
	int rc = -EOPNOTSUPP;

	(void)ino;
	if (mode & ~FALLOC_FL_KEEP_SIZE)
		rc = -EOPNOTSUPP;
	else if (ck_handle_scratch(fi))
		rc = ck_scratch_allocate(fs, ck_handle_scratch(fi), mode, begin,
					 n);
	else if (ck_write_handle_of(fi) && mode)
		rc = 0;
	else if (ck_write_handle_of(fi))
		rc = ck_write_handle_grow(fs, ck_write_handle_of(fi),
					  begin + n);
	fuse_reply_err(req, rc == CK_AFTER_COMMIT ? EBUSY : -rc);
}

/* True if the kernel closes the file because its thread ends, without close(2). */
static bool is_ending(pid_t thread)
{
	enum { PF_EXITING = 4 }; /* of include/linux/sched.h */

	char text[CK_PROCESS_STAT];
	const char *fields = ck_process_stat(thread, text);
	unsigned long flags = 0;

	/* state ppid pgrp session tty_nr tpgid flags */
	return fields &&
	       sscanf(fields, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
	       (flags & PF_EXITING);
}

static pid_t closing_thread(fuse_req_t req)
{
	pid_t thread = fuse_req_ctx(req)->pid;

	return is_ending(thread) ? 0 : thread;
}

/* A complete file is committed. Returns 1 if the reply follows later. */
static int close_or_sync(struct ck_fs *fs, fuse_req_t req,
			 struct ck_write_handle *wh, bool sync)
{
	int rc;

	if (sync)
		ck_write_handle_synced(wh);
	else
		ck_write_handle_closed_by(wh, closing_thread(req));
	if (fs->options->commit != CK_COMMIT_CLOSE)
		return ck_write_handle_stage(fs, wh, sync);
	rc = ck_write_handle_check(fs, wh, sync);
	if (rc != 1)
		return rc;
	rc = ck_commit_thread_commit(fs, req, wh, sync);
	return rc ? rc : 1;
}

static void rw_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_write_handle *wh = ck_write_handle_of(fi);
	int rc;

	(void)ino;
	if (ck_handle_scratch(fi)) {
		ck_scratch_closed_by(ck_handle_scratch(fi),
				     closing_thread(req));
		ck_scratch_warn(fs, ck_handle_scratch(fi));
	}
	/* After the reply, by any thread, the open file may be freed. */
	rc = wh ? close_or_sync(fs, req, wh, false) : 0;
	if (rc != 1)
		fuse_reply_err(req, -rc);
}

static void rw_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
		     struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_write_handle *wh = ck_write_handle_of(fi);
	int rc;

	(void)ino, (void)datasync;
	if (ck_handle_scratch(fi))
		ck_scratch_synced(ck_handle_scratch(fi));
	/* After the reply, by any thread, the open file may be freed. */
	rc = wh ? close_or_sync(fs, req, wh, true) : 0;
	if (rc != 1)
		fuse_reply_err(req, -rc);
}

/* --- attributes ----------------------------------------------------------- */

/* True if the mode removes bits of group or others that the file shows. */
static bool is_private(const struct stat *shown, mode_t mode)
{
	return shown->st_mode & ~mode & 077;
}

struct setattr_request {
	struct ck_deferred deferred;
	fuse_req_t req;
	fuse_ino_t ino;
	struct stat attr;
	int to_set;
	struct ck_write_handle *wh; /* of the open file; or NULL */
	struct stat out;
};

/* open(2) with O_TRUNC is sent without its open file, as truncate(2) is: it is
 * for the write handle of the file. */
static int set_size(const struct setattr_request *r, const struct ck_node *n)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	uint64_t size = (uint64_t)r->attr.st_size;
	struct ck_write_handle *wh;
	int rc;

	if (!ck_node_accepts(n))
		return -EISDIR;
	if (r->wh)
		return ck_write_handle_truncate(fs, r->wh, size);
	rc = ck_write_handle_find(fs, n, r->deferred.last, &wh);
	if (rc)
		return rc;
	if (!wh)
		return size == (uint64_t)r->out.st_size ? 0 : -EINVAL;
	rc = ck_write_handle_truncate_by(fs, wh, size,
					 fuse_req_ctx(r->req)->pid);
	ck_write_handle_put(fs, wh);
	return rc;
}

/* The mode removes bits that are shown. Returns 0 if the change may be ignored. */
static int set_private(const struct setattr_request *r, const struct ck_node *n)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	struct ck_write_handle *wh;
	int rc;

	if (!ck_node_accepts(n))
		return -EPERM;
	if (ck_whiteout_is_recreated(fs, n))
		return 0;
	rc = ck_write_handle_find(fs, n, r->deferred.last, &wh);
	if (rc || !wh)
		return rc ? rc : -EPERM;
	if (!ck_write_handle_is_recreated(wh) &&
	    !ck_write_handle_ignore_mode(fs, wh, r->attr.st_mode,
					 fuse_req_ctx(r->req)->pid))
		rc = -EPERM;
	ck_write_handle_put(fs, wh);
	return rc;
}

static int do_setattr(struct setattr_request *r)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	struct ck_node n;
	int rc = ck_node_find(fs, r->ino, &n);

	if (rc)
		return rc;
	if (ck_node_is_scratch(&n)) {
		rc = ck_scratch_setattr(fs, ck_node_scratch(&n), &r->attr,
					r->to_set);
		return rc ? rc : ck_node_stat(fs, &n, &r->out);
	}
	if (!ck_node_accepts(&n) && !ck_node_is_dir(&n))
		return -EROFS;
	r->deferred.tensor = n.about.number;
	rc = ck_node_stat(fs, &n, &r->out);
	if (rc == 0 && (r->to_set & FUSE_SET_ATTR_MODE) &&
	    is_private(&r->out, r->attr.st_mode))
		rc = set_private(r, &n);
	if (rc == 0 && (r->to_set & FUSE_SET_ATTR_SIZE))
		rc = set_size(r, &n);
	return rc;
}

static int setattr_answer(struct ck_deferred *l)
{
	struct setattr_request *r = (struct setattr_request *)l;
	int rc = do_setattr(r);

	if (rc == CK_AFTER_RELEASE || (rc == CK_AFTER_COMMIT && !l->may_commit))
		return rc;
	if (rc == CK_AFTER_COMMIT)
		rc = -EBUSY;
	if (rc)
		fuse_reply_err(r->req, -rc);
	else
		fuse_reply_attr(r->req, &r->out, CK_TIMEOUT);
	return 0;
}

static void rw_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
		       int to_set, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct setattr_request r = {
		.deferred.answer = setattr_answer,
		.req = req,
		.ino = ino,
		.attr = *attr,
		.to_set = to_set,
		.wh = fi ? ck_write_handle_of(fi) : NULL,
	};

	ck_deferred_answer(fs->deferred, &r.deferred, sizeof(r));
}

void ck_fs_write_ops(struct fuse_lowlevel_ops *ops)
{
	ops->write = rw_write;
	ops->fallocate = rw_fallocate;
	ops->flush = rw_flush;
	ops->fsync = rw_fsync;
	ops->setattr = rw_setattr;
	ops->setxattr = ck_fs_setxattr;
	ops->removexattr = ck_fs_removexattr;
	ck_fs_name_ops(ops);
}
