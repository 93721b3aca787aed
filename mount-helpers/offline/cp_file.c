/* SPDX-License-Identifier: MIT */
/*
 * cp_file: the copy of one file. It is written under a temporary name, and renamed when all
 * bytes, its mode and its time are set and the source has not changed. One thread opens it,
 * several may copy ranges of it, and the last one of them ends it.
 */
#include "cp_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct ck_cp_file *ck_cp_file_make(const struct ck_named *from,
				   struct ck_cp_dir *into, const char *name)
{
	struct ck_cp_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->fd = -1;
	f->from.node = from->node;
	f->from.path = strdup(from->path);
	f->name = strdup(name);
	if (!f->from.path || !f->name) {
		free(f->from.path);
		free(f->name);
		free(f);
		return NULL;
	}
	f->into = ck_cp_dir_use(into);
	return f;
}

/* --- failures ----------------------------------------------------------------------- */

/* Reports the first failure of a file only. */
static void unread(struct ck_cp *c, struct ck_cp_file *f, int rc)
{
	if (!atomic_exchange(&f->failed, true))
		ck_cp_unread(c, &f->from, rc);
}

/* EFBIG concerns this file only, so the copy continues. If the source is damaged its size may
 * be wrong, too: that is reported as EIO of the source. */
static void unwritten(struct ck_cp *c, struct ck_cp_file *f, int err)
{
	if (err == EFBIG && f->source.faulty)
		unread(c, f, -EIO);
	else if (atomic_exchange(&f->failed, true))
		return;
	else if (err == EFBIG)
		ck_cp_refuse(c, f->into, f->name, strerror(err));
	else
		ck_cp_unwritten(c, f->into, f->name, err);
}

/* --- opening ------------------------------------------------------------------------- */

static int source_open(struct ck_cp *c, struct ck_cp_file *f)
{
	int rc = ck_session_file(&c->how.from->s, &f->from.node, &f->source);

	if (rc == 0)
		rc = -f->source.err;
	if (rc == 0)
		rc = ck_tree_stat(&f->from.node, &f->st);
	f->size = ck_session_size(&f->source);
	return rc;
}

int ck_cp_name(const struct ck_cp_mark *mark, char name[static CK_CP_NAME])
{
	const char *id = ck_cp_mark_id(mark);
	char hex[17];
	int rc = ck_random_hex(hex);

	snprintf(name, CK_CP_NAME, ".ckptfs-cp-%s%s%s", id, *id ? "-" : "",
		 rc ? "" : hex);
	return -rc;
}

static int target_open(const struct ck_cp *c, struct ck_cp_file *f)
{
	int err = ck_cp_name(c->how.mark, f->temporary);

	if (err)
		return err;
	f->fd = openat(f->into->fd, f->temporary,
		       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (f->fd < 0 ||
	    (f->size > CK_COPY_RANGE && ftruncate(f->fd, (off_t)f->size)))
		return errno;
	return 0;
}

/* NULL, or why the name in DEST may not be replaced. A checkpoint that is one file may have
 * copies beside it. */
static const char *refusal(const struct ck_cp *c, const struct ck_cp_file *f)
{
	struct stat st;

	if (fstatat(f->into->fd, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_dev == c->source.st_dev && st.st_ino == c->source.st_ino)
		return "is the source";
	return ck_cp_kept(f->into, f->name, 0);
}

bool ck_cp_file_open(struct ck_cp *c, struct ck_cp_file *f)
{
	const char *why;
	int rc = source_open(c, f), err;

	if (rc) {
		unread(c, f, rc);
		return false;
	}
	why = refusal(c, f);
	if (why) {
		ck_cp_refuse(c, f->into, f->name, why);
		return false;
	}
	if (ck_cp_mark_has(c, f))
		return false;
	err = target_open(c, f);
	if (err)
		unwritten(c, f, err);
	return err == 0;
}

/* --- bytes --------------------------------------------------------------------------- */

struct putting {
	int fd;
	uint64_t at;
	int rc; /* of writing */
};

static void put(void *arg, const struct iovec *bytes, uint32_t n)
{
	struct putting *p = arg;

	for (uint32_t i = 0; i < n && p->rc == 0; i++) {
		p->rc = ck_pwrite_full(p->fd, bytes[i].iov_base,
				       bytes[i].iov_len, p->at);
		p->at += bytes[i].iov_len;
	}
}

static bool copy_piece(struct ck_cp *c, struct ck_cp_file *f,
		       struct ck_reader *r, uint64_t at, size_t len,
		       void *buffer)
{
	struct putting p = { .fd = f->fd, .at = at };
	int rc = ck_reader_pass(r, at, len, buffer, put, &p);

	if (rc) {
		unread(c, f, rc);
		return false;
	}
	if (p.rc) {
		unwritten(c, f, -p.rc);
		return false;
	}
	ck_progress_add(c->how.progress, len);
	return true;
}

void ck_cp_file_range(struct ck_cp *c, struct ck_cp_file *f, uint64_t begin,
		      uint64_t end, void *buffer)
{
	struct ck_reader r = ck_reader_of(c->how.from, &f->source);
	bool fine = true;

	for (uint64_t at = begin; fine && at < end; at += CK_COPY_PIECE) {
		size_t len = (size_t)ck_min(CK_COPY_PIECE, end - at);

		if (ck_cp_stopping(c))
			atomic_store(&f->failed, true);
		fine = !atomic_load(&f->failed) &&
		       copy_piece(c, f, &r, at, len, buffer);
	}
	ck_reader_end(&r);
}

/* --- its end -------------------------------------------------------------------------- */

/* Some file systems report a full disk at close(2) only. Returns 0 or a positive errno. */
static int target_close(struct ck_cp_file *f)
{
	int fd = f->fd;

	f->fd = -1;
	return close(fd) && errno != EINTR ? errno : 0;
}

static int give_name(struct ck_cp *c, struct ck_cp_file *f)
{
	int err = ck_cp_set_mode(f->fd, &f->st);
	struct stat done;

	if (err == 0 && c->how.sync && fsync(f->fd))
		err = errno;
	if (err == 0 && fstat(f->fd, &done))
		err = errno;
	if (err == 0)
		err = target_close(f);
	if (err == 0)
		ck_cp_mark_name_file(c, f, &done);
	if (err == 0 &&
	    renameat(f->into->fd, f->temporary, f->into->fd, f->name))
		err = errno;
	if (err == 0)
		ck_cp_mark_add(c, f, &done);
	return err;
}

/* Returns true if the file got its name. */
static bool complete(struct ck_cp *c, struct ck_cp_file *f)
{
	int rc, err;

	if (atomic_load(&f->failed))
		return false;
	/* A source that changed after it was read may also have changed
	 * before. */
	rc = ck_offline_check(&f->source);
	if (rc) {
		unread(c, f, rc);
		return false;
	}
	err = give_name(c, f);
	if (err)
		unwritten(c, f, err);
	return err == 0;
}

void ck_cp_file_end(struct ck_cp *c, struct ck_cp_file *f)
{
	if (f->fd >= 0 && !complete(c, f))
		(void)unlinkat(f->into->fd, f->temporary, 0);
	if (f->fd >= 0)
		close(f->fd);
	ck_tree_file_close(&f->source);
	ck_cp_dir_put(c, f->into);
	free(f->from.path);
	free(f->name);
	free(f);
}
