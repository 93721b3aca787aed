/* SPDX-License-Identifier: MIT */
/*
 * read: open, read, release. An open file is a handle: the slice that its view,
 * report or entry made (what the file consists of) and what was located of it so
 * far. A read is the mover's work: it brings the bytes into a buffer.
 *
 * What needs bytes of remote files goes on when they have come, see late.c.
 *
 * A commit changes nothing of that: whoever opened a file before reads what it
 * was then. The page cache belongs to the inode, and so to one version of a
 * tensor: an old inode is not opened again. ESTALE makes the kernel look the
 * name up anew, also where it has not been told of the commit yet.
 *
 * A tensor without fault is read through the page cache, which keeps its
 * bytes between opens. One with a fault is read directly, so that a read
 * fails if and only if it touches a byte that is lost; a page would fail
 * whole.
 */
#include "exported.h"
#include "handle.h"
#include "late.h"
#include <errno.h>
#include <fcntl.h>

/* Whether the caller may open it is judged before anything is done; and again,
 * since the data files may have been closed to him, or have turned up, while
 * they were opened. */
static int judged_open(struct ck_fs *fs, fuse_req_t req,
		       const struct ck_node *n, struct fuse_file_info *fi)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(ck_node_checkpoint(fs, n));
	const struct ck_handle *h;
	int rc;

	ck_control_notice(fs, ck_node_root(fs, n));
	rc = ck_access_judge_open(fs, req, c, n, fi->flags);
	if (rc == 0)
		rc = ck_handle_open(fs, n, fi);
	if (rc)
		return rc;
	/* By what it reads, if a commit came between. */
	h = (const struct ck_handle *)fi->fh;
	rc = ck_access_judge_open(
		fs, req, h->reader.file.catalog ? h->reader.file.catalog : c, n,
		fi->flags);
	if (rc)
		ck_handle_drop(fs, fi);
	return rc;
}

struct open_request {
	struct ck_later later;
	fuse_req_t req;
	fuse_ino_t ino;
	struct fuse_file_info fi;
	struct late_open *late; /* NULL: there are no remote files */
};

/* One that may need headers of remote items. */
struct late_open {
	struct ck_late_fetch fetch; /* first */
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
	r->later.tensor = n.about.number;
	rc = judged_open(fs, r->req, &n, &r->fi);
	if (!fs->writer || !ck_node_accepts(&n) || rc == CK_LATER)
		return rc;
	if (rc == -ESTALE)
		ck_turn_give(fs->turns, thread);
	else
		ck_turn_take(fs->turns, thread);
	if (rc == 0 && ck_handle_draft(&r->fi))
		ck_draft_opened_by(fs, ck_handle_draft(&r->fi), r->req,
				   r->fi.flags);
	return rc;
}

/* Shortage of memory or descriptors in the daemon: the program sees only an
 * errno, so the log says what it was. */
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

static void open_goes_on(struct ck_late_fetch *fetch)
{
	struct open_request *r = &((struct late_open *)fetch)->request;

	ck_later_answer(fetch->late.fs->laters, &r->later, sizeof(*r));
}

/* Or 1: it goes on later, and may be answered by now. */
static int open_at_last(struct open_request *r)
{
	struct late_open *late = r->late;

	if (!late)
		return do_open(r);
	if (r != &late->request)
		late->request = *r;
	return ck_late_run(&late->fetch, open_run, &late->request);
}

static void open_reply(struct open_request *r, int rc)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);

	if (rc)
		fuse_reply_err(r->req, -rc);
	else if (fuse_reply_open(r->req, &r->fi) == -ENOENT)
		/* interrupted: no release comes */
		ck_handle_drop(fs, &r->fi);
}

static int open_answer(struct ck_later *l)
{
	struct open_request *r = (struct open_request *)l;
	struct late_open *late = r->late;
	int rc = open_at_last(r);

	if (rc > 0)
		return 0;
	if (rc == CK_LATER && !l->last)
		return rc;
	if (rc == CK_LATER)
		rc = ck_draft_busy(fuse_req_userdata(r->req), l->tensor);
	if (rc)
		log_shortage(fuse_req_userdata(r->req), r->ino, -rc);
	open_reply(late ? &late->request : r, rc);
	if (late)
		ck_late_fetch_end(&late->fetch);
	free(late);
	return 0;
}

static void open_remote(const struct open_request *r)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	struct late_open *late = calloc(1, sizeof(*late));

	if (!late) {
		fuse_reply_err(r->req, ENOMEM);
		return;
	}
	ck_late_fetch_init(&late->fetch, fs, r->req, open_goes_on);
	late->request = *r;
	late->request.late = late;
	ck_later_answer(fs->laters, &late->request.later,
			sizeof(late->request));
}

void ck_fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct open_request r = {
		.later.answer = open_answer, .req = req, .ino = ino, .fi = *fi
	};

	if (fs->route.remote)
		open_remote(&r);
	else
		ck_later_answer(fs->laters, &r.later, sizeof(r));
}

void ck_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	ck_handle_put(fuse_req_userdata(req), (struct ck_handle *)fi->fh);
	fuse_reply_err(req, 0);
}

/* --- read ----------------------------------------------------------------- */

/* How many of `size` bytes at vpos there are. The kernel asks behind the end,
 * too: for the second half of a large read of a short file. */
static size_t bytes_there(const struct ck_handle *h, uint64_t vpos, size_t size)
{
	uint64_t end = ck_opened_slice(h->reader.file.opened)->size;

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
	if (fs->route.remote || fs->route.gatherer) {
		ck_late_read(req, h, &r, size, may_end);
		return;
	}
	r.to = ck_reply_buffer(r.len);
	ck_handle_note(h, &r);
	rc = r.to ? ck_host_read(ck_handle_files(h), &r) : -ENOMEM;
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
	else if (h->draft && ck_draft_is_changed(h->draft))
		ck_fs_read_draft(req, h->draft, (uint64_t)off, size);
	else
		reply_slice(req, h, (uint64_t)off, size, fi->lock_owner != 0);
	ck_handle_put(fs, h);
}
