/* SPDX-License-Identifier: MIT */
/*
 * metadata: the file that gives a checkpoint its owner, times and modes, and
 * that is another one when the checkpoint was saved anew. Which file that is,
 * and what it says, the format knows.
 */
#include "format_internal.h"

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

/* The kernel's words for what S-F1 and S-F2 refuse would mislead. */
static const char *open_error(int err)
{
	switch (err) {
	case ELOOP:
		return "is a symbolic link; option shardlinks=beneath follows "
		       "those that stay in the checkpoint";
	case EXDEV: return "leads out of the checkpoint";
	default: return strerror(err);
	}
}

static int set_name(struct ck_checkpoint *cp, const char *name,
		    struct ck_diag *d)
{
	cp->metadata_name = strdup(name);
	return cp->metadata_name ? 0 : ck_fail(d, ENOMEM, "out of memory");
}

static int open_as(const struct ck_checkpoint *cp, enum ck_beneath how,
		   int *out, struct stat *st, struct ck_diag *d)
{
	ck_auto_fd int fd = ck_open_beneath(
		cp->dirfd, ck_str_from(cp->metadata_name), OPEN_FLAGS, how);

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
		     const struct ck_brought *brought, int *fd,
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
		ck_time_newest(st->st_mtim, brought->said.mtime),
		now.mode & ~ck_metadata_closed(cp), now.uid, now.gid
	};
	ck_files_show_as(cp->files, (struct ck_ids){ now.uid, now.gid });
	return 0;
}

int ck_metadata_take(struct ck_checkpoint *cp, struct ck_catalog *c,
		     const char *name, const struct ck_brought *brought,
		     struct ck_diag *d)
{
	const struct ck_file_info *said = &brought->said;

	c->meta = (struct ck_attr){ said->mtime, said->mode, said->uid,
				    said->gid };
	cp->metadata = (struct stat){ .st_mode = S_IFREG | said->mode,
				      .st_uid = said->uid,
				      .st_gid = said->gid,
				      .st_size = (off_t)said->size,
				      .st_mtim = said->mtime };
	ck_files_show_as(cp->files, (struct ck_ids){ said->uid, said->gid });
	return set_name(cp, name, d);
}

int ck_metadata_open_again(const struct ck_checkpoint *cp, int *fd,
			   struct stat *st, struct ck_diag *d)
{
	int rc = open_as(cp, CK_BENEATH_SYMLINKS, fd, st, d);

	if (rc || ck_metadata_is_same(st, &cp->metadata))
		return rc;
	close(*fd);
	return ck_fail(d, ESTALE, "%s: is not the file that was read",
		       shown(cp));
}

/* --- what becomes of it ----------------------------------------------------- */

int ck_metadata_changed(const struct ck_checkpoint *cp, const struct stat *was)
{
	struct stat st;

	if (cp->metadata_far)
		return ck_metadata_changed_far(cp);
	if (fstatat(cp->dirfd, cp->metadata_name, &st, 0))
		return -errno;
	if (!ck_metadata_is_same(&st, was))
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
