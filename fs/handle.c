/* SPDX-License-Identifier: MIT */
/*
 * handle: open files. A handle has the version of the file that was opened
 * (file_reader.h), and for a file open for writing its write handle or its
 * scratch file.
 *
 * Lifetime: made by open(2) or create(2). References: one of the kernel, until
 * release, and one of each read in flight. The last one closes the file. The
 * list of handles is for the end of the mount, when the kernel sends no
 * release.
 *
 * Page cache: only a tensor without fault is read through it. A file with a
 * fault is read directly, so that a read fails if and only if it touches a lost
 * byte; a page would fail whole. Files that are written are read directly, too.
 *
 * Threads: any; references are atomic, the list is under ck_fs.handles_lock.
 */
#include "handle.h"
#include <errno.h>
#include <fcntl.h>

/* The node stays in use as long as the handle. The thread of a read may drop
 * the handle later than the kernel closes the file and forgets its node. */
static struct ck_handle *handle_make(struct ck_fs *fs, const struct ck_node *n)
{
	struct ck_handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	ck_file_reader_init(&h->reader, fs, n);
	h->fs = fs;
	h->remote.slice = n->number;
	h->remote.reader = h;
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

static void exports_put(struct ck_handle *h)
{
	while (h->exports) {
		struct ck_handle_export *next = h->exports->next;

		h->fs->options->gather_engine->exports->put(h->fs->exports,
							    h->exports->export);
		free(h->exports);
		h->exports = next;
	}
}

void ck_handle_put(struct ck_fs *fs, struct ck_handle *h)
{
	if (atomic_fetch_sub(&h->refs, 1) != 1)
		return;
	handle_unlink(fs, h);
	if (h->wh)
		ck_write_handle_put(fs, h->wh);
	if (h->scratch)
		ck_scratch_drop(fs, h->scratch);
	exports_put(h);
	ck_file_reader_fini(&h->reader);
	free(h);
}

void ck_handles_close(struct ck_fs *fs)
{
	while (fs->handles)
		ck_handle_put(fs, fs->handles);
}

struct ck_write_handle *ck_write_handle_of(const struct fuse_file_info *fi)
{
	const struct ck_handle *h = (const struct ck_handle *)fi->fh;

	return h->wh;
}

struct ck_scratch *ck_handle_scratch(const struct fuse_file_info *fi)
{
	const struct ck_handle *h = (const struct ck_handle *)fi->fh;

	return h->scratch;
}

/* --- open ----------------------------------------------------------------- */

/* If the file can be opened in spite of an error, that error is in the log. */
static int file_open(struct ck_handle *h)
{
	const struct ck_file_content *about = &h->reader.file.node.about;
	int rc = ck_file_reader_open(&h->reader);

	if (rc)
		return rc;
	h->direct = h->reader.file.err || h->reader.file.faulty ||
		    about->live ||
		    (h->fs->options->direct &&
		     ck_node_accepts(&h->reader.file.node));
	atomic_store(&h->logged, h->reader.file.err && about->made);
	return 0;
}

static bool is_for_writing(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);
}

/* Written bytes bypass the page cache, which has the committed version for
 * readers. O_RDWR reads the committed version, too. */
static int open_for_writing(struct ck_fs *fs, const struct ck_node *n,
			    int flags, struct ck_handle *h)
{
	int rc = (flags & O_ACCMODE) == O_RDWR ? file_open(h) : 0;

	if (rc == 0)
		rc = ck_write_handle_open(fs, n, &h->wh);
	if (rc == 0 && ck_whiteout_is_recreated(fs, n))
		rc = ck_write_handle_recreate(fs, h->wh);
	if (rc == 0)
		ck_whiteout_opened(fs, n);
	h->direct = true;
	return rc;
}

/* Not through the page cache: bytes written through a mapping would be lost
 * when the file becomes a tensor. */
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
	rc = ck_file_reader_pin(&h->reader);
	if (rc)
		return rc;
	return is_for_writing(flags) ? open_for_writing(fs, n, flags, h)
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
	fi->keep_cache = !h->direct || h->wh;
	fi->noflush = !h->wh && !h->scratch;
	return 0;
}

void ck_handle_drop(struct ck_fs *fs, struct fuse_file_info *fi)
{
	ck_handle_put(fs, (struct ck_handle *)fi->fh);
}

/* --- replies -------------------------------------------------------------- */

/* Only the first failure of a handle is logged: a scan of a broken tensor would
 * log one for each block. */
static void log_failure(struct ck_handle *h, uint64_t vpos, size_t size,
			int err)
{
	if (err == EINTR || atomic_exchange(&h->logged, true))
		return;
	ck_log("%s: %s; reading %zu bytes at %ju%s",
	       ck_node_shown_name(h->fs, &h->reader.file.node), strerror(err),
	       size, (uintmax_t)vpos,
	       err == ENODATA || err == EIO || err == EBADMSG
		       ? "; " CK_CONTROL_DIR "/damage names the cause"
		       : "");
}

struct ck_files *ck_handle_files(const struct ck_handle *h)
{
	return ck_node_checkpoint(h->fs, &h->reader.file.node)->files;
}

void ck_handle_note(struct ck_handle *h, const struct ck_read *r)
{
	if (ck_handle_files(h) == h->fs->cp->files)
		ck_ahead_note(h->fs->ahead, &h->reader.stream, r);
}

/* Sets r->len to the bytes before the first one that cannot be read, and reads them. rc: the error of
 * the whole read, which is returned if there are none. */
static int read_before_fault(struct ck_handle *h, struct ck_read *r, int rc)
{
	uint64_t good = 0, bad = r->len;

	while (bad - good > 1) {
		r->len = good + (bad - good) / 2;
		if (ck_host_read(ck_handle_files(h), r))
			bad = r->len;
		else
			good = r->len;
	}
	r->len = good;
	return good ? ck_host_read(ck_handle_files(h), r) : rc;
}

int ck_handle_read(struct ck_handle *h, struct ck_read *r, bool is_direct)
{
	int rc = ck_host_read(ck_handle_files(h), r);

	if (!h->direct || !is_direct ||
	    (rc != -ENODATA && rc != -EIO && rc != -EBADMSG))
		return rc;
	return read_before_fault(h, r, rc);
}

static void count(const struct ck_handle *h, const struct ck_read *r, int rc)
{
	if (!ck_node_is_report(&h->reader.file.node))
		ck_stats_answered(ck_files_stats(ck_handle_files(h)), r->len,
				  rc);
}

void ck_handle_reply(fuse_req_t req, struct ck_handle *h,
		     const struct ck_read *r, size_t size, int rc)
{
	count(h, r, rc);
	if (rc == -ESTALE && h->reader.file.opened)
		ck_tree_file_changed(&h->reader.file);
	if (rc) {
		log_failure(h, r->vpos, size, -rc);
		fuse_reply_err(req, -rc);
		return;
	}
	fuse_reply_buf(req, r->to, r->len);
}
