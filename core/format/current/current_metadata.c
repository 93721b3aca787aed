/* SPDX-License-Identifier: MIT */
/*
 * current_metadata: opens, reads and revalidates the metadata file. Its name is set once, by
 * the thread that loads the checkpoint. Its last stat, cp->metadata, is under cp->lock: a
 * commit replaces it, and any thread may compare the file with it.
 */
#include "current_metadata.h"
#include "base/system/reach.h"
#include "ckptfs/memory.h"
#include "current.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

const char *ck_metadata_name(const struct ck_checkpoint *cp)
{
	return cp->metadata_name;
}

static const char *shown(const struct ck_checkpoint *cp)
{
	return ck_show(ck_str_from(cp->metadata_name));
}

bool ck_metadata_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* --- reading --------------------------------------------------------------- */

/* The kernel's texts for links that are refused (S-F1, S-F2 in tests/SECURITY.md) would
 * mislead. */
static const char *open_error(int err)
{
	switch (err) {
	case ELOOP:
		return "is a symbolic link; option shardlinks=beneath follows "
		       "those that stay in the checkpoint, linkroot=DIR also "
		       "those that lead to a file beneath DIR";
	case EXDEV:
		return "leads out of the checkpoint; option linkroot=DIR follows "
		       "those that lead to a file beneath DIR";
	default: return strerror(err);
	}
}

static int set_name(struct ck_checkpoint *cp, const char *name,
		    struct ck_diag *d)
{
	free(cp->metadata_name);
	cp->metadata_name = strdup(name);
	return cp->metadata_name ? 0 : ck_fail(d, ENOMEM, "out of memory");
}

static int open_as(const struct ck_checkpoint *cp, enum ck_beneath how,
		   int *out, struct stat *st, struct ck_diag *d)
{
	const struct ck_reach reach = { cp->dirfd, how, cp->linkroot };
	ck_auto_fd int fd = ck_open_reached(
		&reach, ck_str_from(cp->metadata_name), OPEN_FLAGS);

	if (fd < 0)
		return ck_fail(d, -fd, "%s: %s", shown(cp), open_error(-fd));
	if (fstat(fd, st))
		return ck_fail(d, errno, "%s: %s", shown(cp), strerror(errno));
	if (!S_ISREG(st->st_mode))
		return ck_fail(d, EBADMSG, "%s: is no regular file", shown(cp));
	*out = fd;
	fd = -1;
	return 0;
}

int ck_metadata_open(struct ck_checkpoint *cp, struct ck_catalog *c,
		     const char *name, const struct ck_format_options *options,
		     const struct ck_fetched_metadata *fetched, int *fd,
		     struct ck_diag *d)
{
	struct ck_file_access now = { 0 };
	struct stat *st = &cp->metadata;
	int rc = set_name(cp, name, d);

	if (rc == 0)
		rc = open_as(cp, options->shardlinks, fd, st, d);
	if (rc)
		return rc;
	ck_file_access_note(&now, st, *fd, "", AT_EMPTY_PATH);
	c->meta = (struct ck_attr){
		ck_time_newest(st->st_mtim, fetched->info.mtime),
		now.mode & ~ck_metadata_closed(cp), now.uid, now.gid
	};
	ck_files_show_as(cp->files, (struct ck_ids){ now.uid, now.gid });
	return 0;
}

int ck_metadata_take(struct ck_checkpoint *cp, struct ck_catalog *c,
		     const char *name,
		     const struct ck_fetched_metadata *fetched,
		     struct ck_diag *d)
{
	const struct ck_file_info *info = &fetched->info;

	c->meta = (struct ck_attr){ info->mtime, info->mode, info->uid,
				    info->gid };
	cp->metadata = (struct stat){ .st_mode = S_IFREG | info->mode,
				      .st_uid = info->uid,
				      .st_gid = info->gid,
				      .st_size = (off_t)info->size,
				      .st_mtim = info->mtime };
	ck_files_show_as(cp->files, (struct ck_ids){ info->uid, info->gid });
	return set_name(cp, name, d);
}

/* Reads all bytes of the file. If h is not NULL, hashes each block while it is in the CPU
 * cache. Returns 0, or: -ESTALE if the file changed meanwhile; errors of read(2). */
static int read_same(int fd, const struct stat *st, char *to,
		     struct ck_hasher *h)
{
	size_t size = (size_t)st->st_size;
	size_t block = h ? (size_t)256 << 10 : size;
	struct stat after;

	for (size_t at = 0; at < size; at += block) {
		size_t len = ck_min(block, size - at);
		int rc = ck_pread_full(fd, to + at, len, at);

		if (rc)
			return rc;
		if (h)
			ck_hasher_add(h, (struct ck_str){ to + at, len });
	}
	if (fstat(fd, &after))
		return -errno;
	return ck_metadata_is_same(&after, st) ? 0 : -ESTALE;
}

int ck_metadata_text_read(int fd, const struct stat *st, const char *name,
			  uint64_t most, struct ck_metadata_text *out,
			  struct ck_diag *d)
{
	int rc;

	if ((uint64_t)st->st_size > most)
		return ck_fail(d, EBADMSG,
			       "%s: %ju bytes, expected at most %ju",
			       ck_show(ck_str_from(name)),
			       (uintmax_t)st->st_size, (uintmax_t)most);
	out->len = (size_t)st->st_size;
	out->pages = ck_pages_alloc(out->len);
	if (!out->pages)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = read_same(fd, st, out->pages, out->hasher);
	return rc ? ck_fail(d, -rc, "%s: %s", ck_show(ck_str_from(name)),
			    strerror(-rc))
		  : 0;
}

int ck_metadata_read(struct ck_checkpoint *cp, struct ck_catalog *c,
		     const char *name, uint64_t most,
		     const struct ck_format_options *options,
		     struct ck_metadata_text *out, struct ck_diag *d)
{
	struct ck_fetched_metadata fetched = { 0 };
	ck_auto_fd int fd = -1;
	int rc = 0;

	if (cp->elsewhere)
		rc = cp->elsewhere->metadata(cp->elsewhere, ck_str_from(name),
					     most, &fetched.info,
					     &fetched.pages, d);
	if (rc == 0 && fetched.pages) {
		out->pages = fetched.pages;
		out->len = (size_t)fetched.info.size;
		cp->metadata_remote = true;
		return ck_metadata_take(cp, c, name, &fetched, d);
	}
	if (rc == 0)
		rc = ck_metadata_open(cp, c, name, options, &fetched, &fd, d);
	if (rc)
		return rc;
	ck_metadata_hash_begin(out);
	rc = ck_metadata_text_read(fd, &cp->metadata, name, most, out, d);
	ck_metadata_hash_end(cp, out, rc == 0);
	return rc;
}

int ck_metadata_text_of(int fd, const char *name, uint64_t most,
			struct ck_metadata_text *out, struct ck_diag *d)
{
	const char *shows = ck_show(ck_str_from(name));
	struct stat st;

	if (fstat(fd, &st))
		return ck_fail(d, errno, "%s: %s", shows, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return ck_fail(d, EBADMSG, "%s: is no regular file", shows);
	return ck_metadata_text_read(fd, &st, name, most, out, d);
}

/* Reads a file of this host. */
static int read_here(const struct ck_checkpoint *cp, const char *name,
		     uint64_t most, struct ck_metadata_text *out,
		     struct ck_diag *d)
{
	ck_auto_fd int fd = ck_open_reached(&cp->reach, ck_str_from(name),
					    OPEN_FLAGS);

	return fd < 0 ? ck_fail(d, -fd, "%s: %s", ck_show(ck_str_from(name)),
				open_error(-fd))
		      : ck_metadata_text_of(fd, name, most, out, d);
}

int ck_metadata_read_other(const struct ck_checkpoint *cp, const char *name,
			   uint64_t most, struct ck_metadata_text *out,
			   struct ck_diag *d)
{
	struct ck_file_info info = { 0 };
	int rc = 0;

	if (cp->elsewhere)
		rc = cp->elsewhere->text(cp->elsewhere, ck_str_from(name), most,
					 &info, &out->pages, d);
	if (rc == 0 && out->pages) {
		out->len = (size_t)info.size;
		return 0;
	}
	return rc ? rc : read_here(cp, name, most, out, d);
}

void ck_metadata_text_fini(struct ck_metadata_text *text)
{
	if (text->pages)
		ck_pages_free(text->pages, text->len);
	*text = (struct ck_metadata_text){ 0 };
}

int ck_metadata_directory(struct ck_checkpoint *cp, struct ck_catalog *c)
{
	struct ck_file_access now = { 0 };
	struct stat *st = &cp->metadata;
	int rc = set_name(cp, ".", NULL);

	if (rc == 0 && fstat(cp->dirfd, st))
		rc = -errno;
	if (rc)
		return rc;
	ck_file_access_note(&now, st, cp->dirfd, ".", 0);
	c->meta = (struct ck_attr){ st->st_mtim, now.mode, now.uid, now.gid };
	ck_files_show_as(cp->files, (struct ck_ids){ now.uid, now.gid });
	return 0;
}

int ck_metadata_open_again(const struct ck_checkpoint *cp, int *fd,
			   struct stat *st, struct ck_diag *d)
{
	const struct stat was = ck_checkpoint_metadata(cp);
	int rc = open_as(cp, CK_BENEATH_SYMLINKS, fd, st, d);

	if (rc || ck_metadata_is_same(st, &was))
		return rc;
	close(*fd);
	return ck_fail(d, ESTALE, "%s: is not the file that was read",
		       shown(cp));
}

/* --- revalidation ------------------------------------------------------------- */

int ck_metadata_changed(const struct ck_checkpoint *cp, const struct stat *was)
{
	struct stat st;

	if (cp->metadata_remote)
		return ck_metadata_changed_remote(cp);
	if (fstatat(cp->dirfd, cp->metadata_name, &st, 0))
		return -errno;
	/* A directory changes its size and mtime with its entries. */
	if (S_ISDIR(was->st_mode)
		    ? st.st_ino != was->st_ino
		    : !ck_metadata_is_same(&st, was) ||
			      ck_metadata_is_rewritten(cp, &st, was))
		return 1;
	ck_access_note_metadata(cp, &st);
	return 0;
}

int ck_checkpoint_same(const struct ck_checkpoint *cp, struct ck_diag *d)
{
	struct stat was = ck_checkpoint_metadata(cp);
	int rc = ck_metadata_changed(cp, &was);

	if (rc == 0)
		return 0;
	if (rc > 0)
		return ck_fail(d, ESTALE, "%s was changed by somebody else",
			       shown(cp));
	if (rc == -ENOENT)
		return ck_fail(d, ESTALE, "%s was removed by somebody else",
			       shown(cp));
	return ck_fail(d, -rc, "%s: %s", shown(cp), strerror(-rc));
}
