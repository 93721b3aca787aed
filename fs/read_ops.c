/* SPDX-License-Identifier: MIT */
/*
 * read_ops: handlers of open, read and release. The open file is a handle
 * (handle.h); the I/O engine brings its bytes into a buffer, or async_reply.c
 * does with remote files.
 *
 * A commit does not change open files: they have the version that was opened.
 * The page cache belongs to the inode, and so to one version of a tensor. An
 * inode of an older version cannot be opened any more: ESTALE makes the kernel
 * look the name up again. This holds even if the kernel has not been notified
 * of the commit yet.
 *
 * States of an open: run in the FUSE thread; then, if needed, waiting for
 * remote headers (async_reply.c) or for the release of a writer (deferred.h);
 * answered.
 *
 * Threads: any FUSE thread; the rest of an open may run in the thread of the
 * backend, of the deferred queue, or of commits.
 */
#include "async_reply.h"
#include "handle.h"
#include <errno.h>
#include <fcntl.h>

/* Checks the permission before the open, and again after it: data files may
 * have become known, or lost the permission, while they were opened. */
static int checked_open(struct ck_fs *fs, fuse_req_t req,
			const struct ck_node *n, struct fuse_file_info *fi)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(ck_node_checkpoint(fs, n));
	const struct ck_handle *h;
	int rc;

	ck_mount_status_notice(fs, ck_node_root(fs, n));
	rc = ck_access_check_open(fs, req, c, n, fi->flags);
	if (rc == 0)
		rc = ck_handle_open(fs, n, fi);
	if (rc)
		return rc;
	/* By the catalog of the open file, if a commit came between. */
	h = (const struct ck_handle *)fi->fh;
	rc = ck_access_check_open(
		fs, req, h->reader.file.catalog ? h->reader.file.catalog : c, n,
		fi->flags);
	if (rc)
		ck_handle_drop(fs, fi);
	return rc;
}

struct open_request {
	struct ck_deferred deferred;
	fuse_req_t req;
	fuse_ino_t ino;
	struct fuse_file_info fi;
	struct async_open *async; /* NULL without remote files */
};

/* An open that may need headers of remote items. */
struct async_open {
	struct ck_async_fetch fetch; /* first */
	struct open_request request;
};

static int do_open(struct open_request *r)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	pid_t thread = fuse_req_ctx(r->req)->pid;
	struct ck_node n;
	int rc = ck_node_find(fs, r->ino, &n);

	if (rc)
		return rc;
	r->deferred.tensor = n.about.number;
	rc = checked_open(fs, r->req, &n, &r->fi);
	if (!fs->writer || !ck_node_accepts(&n) || rc == CK_AFTER_RELEASE)
		return rc;
	if (rc == -ESTALE)
		ck_reopen_lease_grant(fs->reopen_leases, thread);
	else
		ck_reopen_lease_end(fs->reopen_leases, thread);
	if (rc == 0 && ck_write_handle_of(&r->fi))
		ck_write_handle_opened_by(fs, ck_write_handle_of(&r->fi),
					  r->req, r->fi.flags);
	return rc;
}

/* A shortage of memory or descriptors in the daemon is logged: the program gets
 * only an errno. */
static void log_shortage(const struct ck_fs *fs, fuse_ino_t ino, int err)
{
	struct ck_node n;

	if (!ck_is_shortage(-err) || ck_node_find(fs, ino, &n) ||
	    !ck_node_accepts(&n))
		return;
	ck_log("%s: cannot be opened: %s", ck_node_shown_name(fs, &n),
	       strerrordesc_np(err));
}

static int open_run(void *arg)
{
	return do_open(arg);
}

static void open_retry(struct ck_async_fetch *fetch)
{
	struct open_request *r = &((struct async_open *)fetch)->request;

	ck_deferred_answer(fetch->reply.fs->deferred, &r->deferred, sizeof(*r));
}

/* Returns 1 if the open continues later; it may be answered by then. */
static int open_try(struct open_request *r)
{
	struct async_open *async = r->async;

	if (!async)
		return do_open(r);
	if (r != &async->request)
		async->request = *r;
	return ck_async_fetch_run(&async->fetch, open_run, &async->request);
}

static void open_reply(struct open_request *r, int rc)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);

	if (rc)
		fuse_reply_err(r->req, -rc);
	else if (fuse_reply_open(r->req, &r->fi) == -ENOENT)
		/* interrupted: the kernel sends no release */
		ck_handle_drop(fs, &r->fi);
}

static int open_answer(struct ck_deferred *l)
{
	struct open_request *r = (struct open_request *)l;
	struct async_open *async = r->async;
	int rc = open_try(r);

	if (rc > 0)
		return 0;
	if (rc == CK_AFTER_RELEASE && !l->last)
		return rc;
	if (rc == CK_AFTER_RELEASE)
		rc = ck_write_handle_busy(fuse_req_userdata(r->req), l->tensor);
	if (rc)
		log_shortage(fuse_req_userdata(r->req), r->ino, -rc);
	open_reply(async ? &async->request : r, rc);
	if (async)
		ck_async_fetch_end(&async->fetch);
	free(async);
	return 0;
}

static void open_remote(const struct open_request *r)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	struct async_open *async = calloc(1, sizeof(*async));

	if (!async) {
		fuse_reply_err(r->req, ENOMEM);
		return;
	}
	ck_async_fetch_init(&async->fetch, fs, r->req, open_retry);
	async->request = *r;
	async->request.async = async;
	ck_deferred_answer(fs->deferred, &async->request.deferred,
			   sizeof(async->request));
}

void ck_fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct open_request r = { .deferred.answer = open_answer,
				  .req = req,
				  .ino = ino,
				  .fi = *fi };

	if (fs->route.remote)
		open_remote(&r);
	else
		ck_deferred_answer(fs->deferred, &r.deferred, sizeof(r));
}

void ck_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	ck_handle_put(fuse_req_userdata(req), (struct ck_handle *)fi->fh);
	fuse_reply_err(req, 0);
}

/* --- read ----------------------------------------------------------------- */

/* Number of bytes at vpos, at most `size`. The kernel reads beyond the end,
 * too: the second half of a large read of a short file. */
static size_t bytes_there(const struct ck_handle *h, uint64_t vpos, size_t size)
{
	uint64_t end = ck_open_slice_slice(h->reader.file.opened)->size;

	return vpos < end ? (size_t)ck_min(size, end - vpos) : 0;
}

static void reply_scratch(fuse_req_t req, struct ck_handle *h, uint64_t vpos,
			  size_t size)
{
	void *bytes = ck_reply_buffer(size);
	size_t len = size;
	int rc = bytes ? ck_scratch_read(h->scratch, vpos, &len, bytes)
		       : -ENOMEM;

	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_buf(req, bytes, len);
}

static void reply_slice(fuse_req_t req, struct ck_handle *h, uint64_t vpos,
			size_t size, bool may_end)
{
	struct ck_fs *fs = h->fs;
	struct ck_read r = { .from = h->reader.file.opened,
			     .vpos = vpos,
			     .len = size };
	int rc = -h->reader.file.err;

	if (rc == 0 && !h->reader.file.opened)
		rc = -EBADF;
	if (rc == 0 && ck_root_is_gone(ck_node_root(fs, &h->reader.file.node)))
		rc = -ESTALE;
	if (rc == 0)
		r.len = bytes_there(h, vpos, size);
	if (rc || r.len == 0) {
		ck_handle_reply(req, h, &r, size, rc);
		return;
	}
	if (fs->route.remote || fs->route.gather_engine) {
		ck_async_read(req, h, &r, size, may_end);
		return;
	}
	r.to = ck_reply_buffer(r.len);
	ck_handle_note(h, &r);
	rc = r.to ? ck_handle_read(h, &r, may_end) : -ENOMEM;
	ck_handle_reply(req, h, &r, size, rc);
}

void ck_fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_handle *h = (struct ck_handle *)fi->fh;

	(void)ino;
	atomic_fetch_add(&h->refs, 1);
	if (h->scratch)
		reply_scratch(req, h, (uint64_t)off, size);
	else if (h->wh && ck_write_handle_is_changed(h->wh))
		ck_fs_read_written(req, h->wh, (uint64_t)off, size);
	else
		reply_slice(req, h, (uint64_t)off, size, fi->lock_owner != 0);
	ck_handle_put(fs, h);
}
