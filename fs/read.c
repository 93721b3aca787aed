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

/* --- who may read it ------------------------------------------------------- */

/* Of the file, by what is known now of those who may read what it was opened as. */
static mode_t handle_mode(const struct ck_handle *h)
{
	struct ck_node_stat known;

	ck_tree_rights(h->file.catalog, &h->file.node, &known);
	return known.mode;
}

/* Another number as soon as another catalog says who may read what; never 0. */
static uint64_t judged_as(const struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	return ((c->generation + 1) << 32) + ck_checkpoint_access(cp);
}

/* -ESTALE: a data file was seen only now, and with it who may read the tensor. */
static int located(struct ck_tree_file *f)
{
	struct ck_handle *h = (struct ck_handle *)f;
	uint64_t known = judged_as(ck_node_checkpoint(h->fs, &f->node));

	/* A file of many tensors comes here for each of them. */
	if (atomic_load(&h->judged) == known)
		return 0;
	if (handle_mode(h) != h->shown)
		return -ESTALE;
	atomic_store(&h->judged, known);
	return 0;
}

/* --- handles -------------------------------------------------------------- */

/* The node is in use as long as the handle, which the thread of a read may have longer
 * than the kernel has the file: it closes that, and forgets it, once it has the answer. */
static struct ck_handle *handle_make(struct ck_fs *fs, const struct ck_node *n)
{
	struct ck_handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->file.node = *n;
	h->file.located = located;
	h->fs = fs;
	h->remote.slice = n->number;
	h->remote.reader = h;
	if (!ck_node_is_scratch(n))
		ck_tree_hold(fs->tree, n->number);
	atomic_init(&h->refs, 1);
	pthread_mutex_lock(&fs->handles_lock);
	h->next = fs->handles;
	if (h->next)
		h->next->prev = h;
	fs->handles = h;
	pthread_mutex_unlock(&fs->handles_lock);
	return h;
}

static void handle_unlink(struct ck_fs *fs, struct ck_handle *h)
{
	pthread_mutex_lock(&fs->handles_lock);
	if (h->prev)
		h->prev->next = h->next;
	else
		fs->handles = h->next;
	if (h->next)
		h->next->prev = h->prev;
	pthread_mutex_unlock(&fs->handles_lock);
}

void ck_handle_put(struct ck_fs *fs, struct ck_handle *h)
{
	if (atomic_fetch_sub(&h->refs, 1) != 1)
		return;
	handle_unlink(fs, h);
	if (h->draft)
		ck_draft_put(fs, h->draft);
	if (h->scratch)
		ck_scratch_drop(fs, h->scratch);
	ck_exported_end(h);
	ck_tree_file_close(&h->file);
	if (!ck_node_is_scratch(&h->file.node))
		ck_tree_forget(fs->tree, h->file.node.number, 1);
	free(h);
}

void ck_handles_close(struct ck_fs *fs)
{
	while (fs->handles)
		ck_handle_put(fs, fs->handles);
}

struct ck_draft *ck_handle_draft(const struct fuse_file_info *fi)
{
	const struct ck_handle *h = (const struct ck_handle *)fi->fh;

	return h->draft;
}

struct ck_scratch *ck_handle_scratch(const struct fuse_file_info *fi)
{
	const struct ck_handle *h = (const struct ck_handle *)fi->fh;

	return h->scratch;
}

/* --- open ------------------------------------------------------------------ */

/* What is wrong with a file that can be opened all the same is in the log. */
static int file_open(struct ck_handle *h)
{
	const struct ck_about *about = &h->file.node.about;
	int rc;

	h->shown = handle_mode(h);
	rc = ck_tree_file_open(&h->file);
	if (rc)
		return rc;
	h->direct = h->file.err || h->file.faulty || about->live ||
		    (h->fs->options->direct && ck_node_accepts(&h->file.node));
	atomic_store(&h->logged, h->file.err && about->made);
	return 0;
}

static bool is_for_writing(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);
}

/* What is written goes past the page cache, where those who read the present
 * version have it; O_RDWR reads that version, too. */
static int draft_open(struct ck_fs *fs, const struct ck_node *n, int flags,
		      struct ck_handle *h)
{
	int rc = (flags & O_ACCMODE) == O_RDWR ? file_open(h) : 0;

	if (rc == 0)
		rc = ck_draft_open(fs, n, &h->draft);
	if (rc == 0 && ck_node_made(fs, n))
		rc = ck_draft_begin(fs, h->draft);
	if (rc == 0)
		ck_node_begun(fs, n);
	h->direct = true;
	return rc;
}

/* Not through the page cache: what a mapping was given would be missing when
 * the file becomes a tensor. */
static int scratch_open(struct ck_fs *fs, const struct ck_node *n,
			struct ck_handle *h)
{
	h->direct = true;
	h->scratch = ck_scratch_hold(fs, ck_node_scratch(n));
	return h->scratch ? 0 : -ESTALE;
}

static int node_open(struct ck_fs *fs, const struct ck_node *n, int flags,
		     struct ck_handle *h)
{
	int rc;

	if (ck_node_is_scratch(n))
		return scratch_open(fs, n, h);
	rc = ck_tree_pin(fs->tree, n, &h->file.catalog);
	if (rc)
		return rc;
	return is_for_writing(flags) ? draft_open(fs, n, flags, h)
				     : file_open(h);
}

int ck_handle_open(struct ck_fs *fs, const struct ck_node *n,
		   struct fuse_file_info *fi)
{
	bool writable = fs->writer &&
			(ck_node_is_scratch(n) || ck_node_accepts(n));
	struct ck_handle *h;
	int rc;

	if (ck_node_is_dir(n))
		return -EISDIR;
	if (is_for_writing(fi->flags) && !writable)
		return -EROFS;
	h = handle_make(fs, n);
	if (!h)
		return -ENOMEM;
	rc = node_open(fs, n, fi->flags, h);
	if (rc) {
		ck_handle_put(fs, h);
		return rc;
	}
	fi->fh = (uintptr_t)h;
	fi->direct_io = h->direct;
	fi->keep_cache = !h->direct || h->draft;
	fi->noflush = !h->draft && !h->scratch;
	return 0;
}

void ck_handle_drop(struct ck_fs *fs, struct fuse_file_info *fi)
{
	ck_handle_put(fs, (struct ck_handle *)fi->fh);
}

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
		fs, req, h->file.catalog ? h->file.catalog : c, n, fi->flags);
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

	ck_later_answer(fetch->late.fs, &r->later, sizeof(*r));
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
	ck_later_answer(fs, &late->request.later, sizeof(late->request));
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
		ck_later_answer(fs, &r.later, sizeof(r));
}

void ck_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	ck_handle_put(fuse_req_userdata(req), (struct ck_handle *)fi->fh);
	fuse_reply_err(req, 0);
}

/* --- read ----------------------------------------------------------------- */

/* The first failure of a handle is worth a line; a scan of a broken tensor
 * would fill the log with one for each block. */
static void log_failure(struct ck_handle *h, uint64_t vpos, size_t size,
			int err)
{
	if (err == EINTR || atomic_exchange(&h->logged, true))
		return;
	ck_log("%s: %s; reading %zu bytes at %ju%s",
	       ck_node_shown_name(h->fs, &h->file.node), strerror(err), size,
	       (uintmax_t)vpos,
	       err == ENODATA || err == EIO || err == EBADMSG
		       ? "; " CK_CONTROL_DIR "/damage names the cause"
		       : "");
}

int ck_handle_read(struct ck_fs *fs, const struct fuse_file_info *fi,
		   uint64_t vpos, size_t len, void *to)
{
	struct ck_handle *h = (struct ck_handle *)fi->fh;
	struct ck_read r = {
		.from = h->file.opened, .vpos = vpos, .len = len, .to = to
	};

	if (h->file.err)
		return -h->file.err;
	ck_ahead_note(fs->ahead, &h->stream, &r);
	return ck_move_read(&fs->route, &r);
}

/* How many of `size` bytes at vpos there are. The kernel asks behind the end,
 * too: for the second half of a large read of a short file. */
static size_t bytes_there(const struct ck_handle *h, uint64_t vpos, size_t size)
{
	uint64_t end = ck_opened_slice(h->file.opened)->size;

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

struct ck_files *ck_handle_files(const struct ck_handle *h)
{
	return ck_node_checkpoint(h->fs, &h->file.node)->files;
}

void ck_handle_note(struct ck_handle *h, const struct ck_read *r)
{
	if (ck_handle_files(h) == h->fs->cp->files)
		ck_ahead_note(h->fs->ahead, &h->stream, r);
}

static void count(const struct ck_handle *h, const struct ck_read *r, int rc)
{
	if (!ck_node_is_report(&h->file.node))
		ck_stats_answered(ck_files_stats(ck_handle_files(h)), r->len,
				  rc);
}

void ck_handle_reply(fuse_req_t req, struct ck_handle *h,
		     const struct ck_read *r, size_t size, int rc)
{
	count(h, r, rc);
	if (rc == -ESTALE && h->file.opened)
		ck_tree_file_changed(&h->file);
	if (rc) {
		log_failure(h, r->vpos, size, -rc);
		fuse_reply_err(req, -rc);
		return;
	}
	fuse_reply_buf(req, r->to, r->len);
}

static void reply_slice(fuse_req_t req, struct ck_handle *h, uint64_t vpos,
			size_t size, bool may_end)
{
	struct ck_fs *fs = h->fs;
	struct ck_read r = { .from = h->file.opened,
			     .vpos = vpos,
			     .len = size };
	int rc = -h->file.err;

	if (rc == 0 && !h->file.opened)
		rc = -EBADF;
	if (rc == 0 && ck_root_is_gone(ck_node_root(fs, &h->file.node)))
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
