/* SPDX-License-Identifier: MIT */
/*
 * area_list: listings of files/. The cookie of an entry is the one that the source has for
 * it (d_off), so telldir(3) and seekdir(3) work as they do there. An open directory keeps a
 * descriptor of the source and the entries that were read and not sent yet.
 *
 * A listing with attributes has names and types alone, too: since attributes are not cached,
 * the kernel would request them again.
 *
 * A directory where another file system is mounted has no entries.
 */
#include "area_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* A reply being filled. */
struct reply {
	struct ck_area_handle *handle;
	fuse_req_t req;
	bool plus; /* in the form of a listing with attributes */
	char *buf;
	size_t room, used;
};

/* --- entries of the source ------------------------------------------------------------ */

/* Moves to a cookie, if the listing is not there. */
static int list_seek(struct ck_area_list *l, int fd, off_t off)
{
	if (off == l->next)
		return 0;
	l->at = l->used = 0;
	if (lseek(fd, off, SEEK_SET) < 0)
		return -errno;
	l->next = off;
	return 0;
}

/* The entry at the position; NULL at the end. */
static int list_entry(struct ck_area_list *l, int fd, struct dirent64 **out)
{
	ssize_t n;

	if (l->at == l->used) {
		l->at = l->used = 0;
		n = getdents64(fd, l->bytes, sizeof(l->bytes));
		if (n < 0)
			return -errno;
		l->used = (size_t)n;
	}
	*out = l->at < l->used ? (struct dirent64 *)(void *)(l->bytes + l->at)
			       : NULL;
	return 0;
}

static void list_advance(struct ck_area_list *l, const struct dirent64 *e)
{
	l->at += e->d_reclen;
	l->next = e->d_off;
}

/* --- entries of the reply ------------------------------------------------------------- */

/* In a listing with attributes inode 0 means that it has none. */
static struct fuse_entry_param entry_plain(const struct dirent64 *e)
{
	return (struct fuse_entry_param){
		.ino = 0,
		.attr = { .st_ino = e->d_ino | CK_AREA_INO,
			  .st_mode = (mode_t)DTTOIF(e->d_type) },
	};
}

/* Returns false if there is no room for the entry. */
static bool entry_add(struct reply *r, const struct dirent64 *e)
{
	size_t left = r->room - r->used, len;
	struct fuse_entry_param entry;

	len = r->plus ? fuse_add_direntry_plus(r->req, NULL, 0, e->d_name, NULL,
					       0)
		      : fuse_add_direntry(r->req, NULL, 0, e->d_name, NULL, 0);
	if (len > left)
		return false;
	entry = entry_plain(e);
	if (r->plus)
		fuse_add_direntry_plus(r->req, r->buf + r->used, left,
				       e->d_name, &entry, e->d_off);
	else
		fuse_add_direntry(r->req, r->buf + r->used, left, e->d_name,
				  &entry.attr, e->d_off);
	r->used += len;
	return true;
}

/* Under the lock of the listing. */
static int fill(struct reply *r, off_t off)
{
	struct ck_area_list *l = r->handle->list;
	struct dirent64 *e = NULL;
	int rc = list_seek(l, r->handle->fd, off);

	while (rc == 0) {
		rc = list_entry(l, r->handle->fd, &e);
		if (rc || !e || !entry_add(r, e))
			break;
		list_advance(l, e);
	}
	/* the next request fails */
	return r->used ? 0 : rc;
}

static int do_readdir(struct reply *r, off_t off)
{
	struct ck_area_list *l = r->handle->list;
	int rc;

	if (r->handle->fd < 0)
		return 0;
	r->buf = malloc(r->room ? r->room : 1);
	if (!r->buf)
		return -ENOMEM;
	pthread_mutex_lock(&l->lock);
	rc = fill(r, off);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

static void reply_readdir(struct ck_area_job *j, bool plus)
{
	struct reply r = {
		.handle = (struct ck_area_handle *)j->fi.fh,
		.req = j->req,
		.plus = plus,
		.room = j->size,
	};
	int rc = do_readdir(&r, j->off);

	if (rc)
		fuse_reply_err(j->req, -rc);
	else
		fuse_reply_buf(j->req, r.buf, r.used);
	free(r.buf);
}

static void readdir_run(struct ck_area_job *j)
{
	reply_readdir(j, false);
}

static void readdirplus_run(struct ck_area_job *j)
{
	reply_readdir(j, true);
}

static void list_defer(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       const struct fuse_file_info *fi,
		       void (*run)(struct ck_area_job *j))
{
	struct ck_area_job *j = ck_area_job_make(req, ino, run, NULL, fi);

	if (!j)
		return;
	j->size = size;
	j->off = off;
	ck_area_job_queue(j);
}

static void area_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			 struct fuse_file_info *fi)
{
	list_defer(req, ino, size, off, fi, readdir_run);
}

static void area_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size,
			     off_t off, struct fuse_file_info *fi)
{
	list_defer(req, ino, size, off, fi, readdirplus_run);
}

/* --- opening --------------------------------------------------------------------------- */

static int do_opendir(struct ck_area *a, struct ck_area_node *n,
		      struct fuse_file_info *fi)
{
	struct ck_area_handle *h;
	struct stat st;
	int fd = ck_area_open(a, n, O_RDONLY, &st), rc;

	if (fd < 0 && fd != -EXDEV)
		return fd;
	rc = ck_area_handle_make(a, n, fd < 0 ? -1 : fd, &h);
	if (rc)
		return rc;
	h->list = calloc(1, sizeof(*h->list));
	if (!h->list) {
		ck_area_handle_free(a, h);
		return -ENOMEM;
	}
	pthread_mutex_init(&h->list->lock, NULL);
	fi->fh = (uintptr_t)h;
	return 0;
}

static void opendir_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	int rc = n ? do_opendir(j->area, n, &j->fi) : -ESTALE;

	ck_area_put(&j->area->table, n);
	if (rc)
		fuse_reply_err(j->req, -rc);
	else if (fuse_reply_open(j->req, &j->fi) == -ENOENT)
		/* interrupted: the kernel sends no releasedir */
		ck_area_handle_free(j->area, (struct ck_area_handle *)j->fi.fh);
}

static void area_opendir(fuse_req_t req, fuse_ino_t ino,
			 struct fuse_file_info *fi)
{
	ck_area_defer(req, ino, opendir_run, NULL, fi);
}

static void releasedir_run(struct ck_area_job *j)
{
	ck_area_handle_free(j->area, (struct ck_area_handle *)j->fi.fh);
	fuse_reply_err(j->req, 0);
}

/* If memory is exhausted the end of the mount closes the directory. */
static void area_releasedir(fuse_req_t req, fuse_ino_t ino,
			    struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, releasedir_run, NULL,
						 fi);

	if (!j)
		return;
	j->always = true;
	ck_area_job_queue(j);
}

void ck_area_list_ops(struct fuse_lowlevel_ops *ops)
{
	ops->opendir = area_opendir;
	ops->readdir = area_readdir;
	ops->readdirplus = area_readdirplus;
	ops->releasedir = area_releasedir;
}
