/* SPDX-License-Identifier: MIT */
/*
 * read: open, read, release. An open file is a handle: the slice that its
 * view made (what the file consists of) and the layouts of the tensors in it
 * (where their boxes lie), or the snapshot of a report. A read is the mover's
 * work: it gathers the bytes into a buffer of the thread.
 *
 * A commit changes nothing of that: whoever opened a file before reads what it
 * was then. The page cache belongs to the inode, and so to one version of a
 * tensor: an old inode is not opened again. ESTALE makes the kernel look the
 * name up anew, also where it has not been told of the commit yet.
 *
 * A tensor without fault is read through the page cache, which keeps its
 * bytes between opens. One with a fault is read directly, so that a read
 * fails if and only if it touches a byte that is lost; a page would fail
 * whole. Nothing here ever answers EINTR: what a page fault waits for would
 * then be a SIGBUS in the program, and local files answer soon enough.
 */
#include "boxes.h"
#include <errno.h>
#include <fcntl.h>

/* A reply wakes the reader before our call returns, so the file may be closed
 * while a read of it still ends here: each read holds a reference. */
struct ck_handle {
	struct ck_handle *next, *prev; /* under ck_fs.handles_lock */
	atomic_uint refs;
	struct ck_snapshot *text; /* a report; NULL: a tensor */
	int err;		  /* what every read answers, or 0 */
	bool direct;		  /* not through the page cache */
	uint32_t tensor;
	atomic_bool logged; /* a failure was put into the log */
	struct ck_slice *slice;
	struct ck_node node;
	mode_t shown;			  /* of the node, as it was opened */
	_Atomic(struct ck_boxes *) boxes; /* where they lie; or NULL */
	struct ck_draft *draft;		  /* what is written; or NULL */
	struct ck_scratch *scratch;	  /* or NULL */
	struct ck_ahead_stream stream;	  /* fs->ahead protects it */
};

/* --- handles -------------------------------------------------------------- */

static struct ck_handle *handle_make(struct ck_fs *fs)
{
	struct ck_handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
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

static void handle_put(struct ck_fs *fs, struct ck_handle *h)
{
	if (atomic_fetch_sub(&h->refs, 1) != 1)
		return;
	handle_unlink(fs, h);
	ck_boxes_free(fs, atomic_load(&h->boxes));
	free(h->slice);
	ck_snapshot_put(h->text);
	if (h->draft)
		ck_draft_put(fs, h->draft);
	if (h->scratch)
		ck_scratch_drop(fs, h->scratch);
	free(h);
}

void ck_handles_close(struct ck_fs *fs)
{
	while (fs->handles)
		handle_put(fs, fs->handles);
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

static int report_open(struct ck_fs *fs, uint32_t report, struct ck_handle *h)
{
	h->direct = ck_reports[report].live;
	return ck_control_get(fs, report, false, &h->text);
}

static mode_t mode_of(const struct ck_fs *fs, const struct ck_node *n)
{
	struct stat st;

	ck_node_stat(fs, n, 0, &st);
	return st.st_mode;
}

static int boxes_find(struct ck_fs *fs, struct ck_handle *h)
{
	struct ck_boxes *boxes;
	bool faulty = false;
	int rc = ck_boxes_get(fs, &h->node, h->slice, &boxes, &faulty);

	if (rc)
		return rc;
	atomic_store(&h->boxes, boxes);
	h->direct = h->direct || faulty;
	return 0;
}

static int tensor_open(struct ck_fs *fs, const struct ck_node *n,
		       struct ck_handle *h)
{
	const struct ck_tensor *t = &fs->catalog->tensors[n->tensor];
	int rc;

	h->node = *n;
	h->shown = mode_of(fs, n);
	h->direct = fs->options->direct || t->err != 0;
	/* Boxes that lie are refused here; a dtype that cannot be shown is
	 * answered by read, which must then reach us: its size is 0. */
	if (t->err && t->err != EBADMSG)
		return -t->err;
	if (t->err) {
		h->err = t->err;
		return 0;
	}
	rc = n->kind == CK_NODE_BOX
		     ? ck_local_slice(fs->local, n->index, &h->slice)
		     : ck_views[n->index]->slice(fs->catalog, n->tensor,
						 &h->slice);
	return rc ? rc : boxes_find(fs, h);
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
	int rc = (flags & O_ACCMODE) == O_RDWR ? tensor_open(fs, n, h) : 0;

	if (rc == 0)
		rc = ck_draft_open(fs, n, &h->draft);
	if (rc == 0 && ck_node_made(fs, n))
		rc = ck_draft_begin(fs, h->draft);
	if (rc == 0)
		ck_node_begun(fs, n);
	h->direct = true;
	return rc;
}

static int tensor_open_as(struct ck_fs *fs, const struct ck_node *n, int flags,
			  struct ck_handle *h)
{
	h->tensor = n->tensor;
	if (n->version != ck_node_version(fs, n))
		return -ESTALE;
	if (is_for_writing(flags))
		return draft_open(fs, n, flags, h);
	return tensor_open(fs, n, h);
}

/* JSON that cannot be made is refused here; an item is what it is, and what is
 * wrong with it is answered by read. What could not be asked is refused. */
static int object_open(struct ck_fs *fs, const struct ck_node *n,
		       struct ck_handle *h)
{
	bool passing;
	int rc = ck_object_open(fs, n, &h->text, &passing);

	if (rc == 0 || n->index == 0 || passing)
		return rc;
	h->err = -rc;
	h->direct = true;
	atomic_store(&h->logged, true); /* it was */
	return 0;
}

/* Not through the page cache: what a mapping was given would be missing when
 * the file becomes a tensor. */
static int scratch_open(struct ck_fs *fs, const struct ck_node *n,
			struct ck_handle *h)
{
	h->direct = true;
	h->scratch = ck_scratch_hold(fs, n->tensor);
	return h->scratch ? 0 : -ESTALE;
}

static int node_open(struct ck_fs *fs, const struct ck_node *n, int flags,
		     struct ck_handle *h)
{
	if (n->kind == CK_NODE_SCRATCH)
		return scratch_open(fs, n, h);
	if (n->kind == CK_NODE_REPORT)
		return report_open(fs, n->index, h);
	if (n->kind == CK_NODE_OBJECT)
		return object_open(fs, n, h);
	return tensor_open_as(fs, n, flags, h);
}

int ck_handle_open(struct ck_fs *fs, const struct ck_node *n,
		   struct fuse_file_info *fi)
{
	bool writable = fs->writer &&
			(n->kind == CK_NODE_SCRATCH || ck_node_is_tensor(n));
	struct ck_handle *h;
	int rc;

	if (ck_node_is_dir(n))
		return -EISDIR;
	if (is_for_writing(fi->flags) && !writable)
		return -EROFS;
	h = handle_make(fs);
	if (!h)
		return -ENOMEM;
	rc = node_open(fs, n, fi->flags, h);
	if (rc) {
		handle_put(fs, h);
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
	handle_put(fs, (struct ck_handle *)fi->fh);
}

/* Whether the caller may open it is judged before anything is done; and again,
 * since the data files may have been closed to him, or have turned up, while
 * they were opened. */
static int judged_open(struct ck_fs *fs, fuse_req_t req,
		       const struct ck_node *n, struct fuse_file_info *fi)
{
	int rc;

	ck_control_notice(fs);
	rc = ck_access_judge_open(fs, req, n, fi->flags);
	if (rc == 0)
		rc = ck_handle_open(fs, n, fi);
	if (rc)
		return rc;
	rc = ck_access_judge_open(fs, req, n, fi->flags);
	if (rc)
		ck_handle_drop(fs, fi);
	return rc;
}

struct open_request {
	struct ck_later later;
	fuse_req_t req;
	fuse_ino_t ino;
	struct fuse_file_info fi;
};

static int do_open(struct open_request *r)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	pid_t thread = fuse_req_ctx(r->req)->pid;
	struct ck_node n;
	int rc;

	if (!ck_node_find(fs, r->ino, &n))
		return -ENOENT;
	r->later.tensor = n.tensor;
	rc = judged_open(fs, r->req, &n, &r->fi);
	if (!fs->writer || !ck_node_is_tensor(&n) || rc == CK_LATER)
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

	if (!ck_is_shortage(-err) || !ck_node_find(fs, ino, &n) ||
	    !ck_node_is_tensor(&n))
		return;
	ck_log("%s: cannot be opened: %s", ck_tensor_name(fs, n.tensor),
	       strerrordesc_np(err));
}

static int open_answer(struct ck_later *l)
{
	struct open_request *r = (struct open_request *)l;
	int rc = do_open(r);

	if (rc == CK_LATER && !l->last)
		return rc;
	if (rc == CK_LATER)
		rc = ck_draft_busy(fuse_req_userdata(r->req), l->tensor);
	if (rc)
		log_shortage(fuse_req_userdata(r->req), r->ino, -rc);
	if (rc)
		fuse_reply_err(r->req, -rc);
	else if (fuse_reply_open(r->req, &r->fi) == -ENOENT)
		/* interrupted: no release comes */
		ck_handle_drop(fuse_req_userdata(r->req), &r->fi);
	return 0;
}

void ck_fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct open_request r = {
		.later.answer = open_answer, .req = req, .ino = ino, .fi = *fi
	};

	ck_later_answer(fuse_req_userdata(req), &r.later, sizeof(r));
}

void ck_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	handle_put(fuse_req_userdata(req), (struct ck_handle *)fi->fh);
	fuse_reply_err(req, 0);
}

/* --- read ----------------------------------------------------------------- */

static void reply_text(fuse_req_t req, const struct ck_buf *text, uint64_t vpos,
		       size_t size)
{
	uint64_t begin = ck_min(vpos, text->len);
	uint64_t len = ck_min(size, text->len - begin);

	fuse_reply_buf(req, len ? text->data + begin : NULL, len);
}

/* The first failure of a handle is worth a line; a scan of a broken tensor
 * would fill the log with one for each block. */
static void log_failure(struct ck_fs *fs, struct ck_handle *h, uint64_t vpos,
			size_t size, int err)
{
	if (atomic_exchange(&h->logged, true))
		return;
	ck_log("%s: %s; reading %zu bytes at %ju",
	       ck_tensor_name(fs, h->tensor), strerror(err), size,
	       (uintmax_t)vpos);
}

static int boxes_read(struct ck_fs *fs, struct ck_handle *h,
		      const struct ck_boxes *boxes, uint64_t vpos, size_t len,
		      void *bytes)
{
	struct ck_read r = { fs->catalog, fs->cp->files, h->slice,
			     boxes->layouts };

	ck_ahead_note(fs->ahead, &h->stream, &r, vpos, len);
	return ck_host_read(&r, vpos, len, bytes);
}

/* A box that could not be asked for at the open, or at a read before, is asked
 * for again by a read that needs it. What was found stays with the handle,
 * and so does what it stands for: others may be reading from that. */
static int boxes_read_again(struct ck_fs *fs, struct ck_handle *h,
			    struct ck_boxes *old, uint64_t vpos, size_t len,
			    void *bytes)
{
	struct ck_boxes *boxes;
	bool faulty = false;
	int rc = ck_boxes_get(fs, &h->node, h->slice, &boxes, &faulty);

	if (rc)
		return rc;
	/* A data file may have been seen only now, and with it who may read
	 * the tensor. */
	if (mode_of(fs, &h->node) != h->shown)
		rc = -ESTALE;
	else
		rc = boxes_read(fs, h, boxes, vpos, len, bytes);
	boxes->older = old;
	if (rc || !atomic_compare_exchange_strong(&h->boxes, &old, boxes)) {
		boxes->older = NULL;
		ck_boxes_free(fs, boxes);
	}
	return rc;
}

static int tensor_read(struct ck_fs *fs, struct ck_handle *h, uint64_t vpos,
		       size_t len, void *to)
{
	struct ck_boxes *boxes = atomic_load(&h->boxes);
	int rc;

	if (h->err)
		return -h->err;
	rc = boxes_read(fs, h, boxes, vpos, len, to);
	if (rc && boxes->passing)
		rc = boxes_read_again(fs, h, boxes, vpos, len, to);
	return rc;
}

int ck_handle_read(struct ck_fs *fs, const struct fuse_file_info *fi,
		   uint64_t vpos, size_t len, void *to)
{
	return tensor_read(fs, (struct ck_handle *)fi->fh, vpos, len, to);
}

/* How many of `size` bytes at vpos there are. The kernel asks behind the end,
 * too: for the second half of a large read of a short file. */
static size_t bytes_there(const struct ck_handle *h, uint64_t vpos, size_t size)
{
	if (h->err)
		return size;
	return vpos < h->slice->size
		       ? (size_t)ck_min(size, h->slice->size - vpos)
		       : 0;
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

static void reply_tensor(fuse_req_t req, struct ck_handle *h, uint64_t vpos,
			 size_t size)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	size_t len = bytes_there(h, vpos, size);
	void *bytes = len ? ck_reply_buffer(len) : NULL;
	int rc = bytes ? tensor_read(fs, h, vpos, len, bytes)
		 : len ? -ENOMEM
		       : 0;

	if (rc) {
		log_failure(fs, h, vpos, size, -rc);
		fuse_reply_err(req, -rc);
		return;
	}
	fuse_reply_buf(req, bytes, len);
}

void ck_fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_handle *h = (struct ck_handle *)fi->fh;

	(void)ino;
	atomic_fetch_add(&h->refs, 1);
	if (h->text)
		reply_text(req, &h->text->text, (uint64_t)off, size);
	else if (h->scratch)
		reply_scratch(req, h, (uint64_t)off, size);
	else
		reply_tensor(req, h, (uint64_t)off, size);
	handle_put(fs, h);
}
