/* SPDX-License-Identifier: MIT */
/*
 * ownership: owner, group, mode and ACL of new files. They are those of the current
 * .metadata at the rename; a chown or chmod of .metadata until then applies to the
 * new files. If bytes of other files are copied into a new file, only users with
 * read access to each of those may read it. Stateless, except ck_writer.owned under
 * its lock.
 */
#include "base/system/rights.h"
#include "commit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ACL "system.posix_acl_access"

/* --- the metadata file ------------------------------------------------------------ */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the ACL of an open file. */
static int read_acl(int fd, struct ck_buf *out)
{
	out->len = 0;
	return ck_acl_read(fd, "", AT_EMPTY_PATH, out);
}

static bool is_same_acl(const struct ck_buf *a, const struct ck_buf *b)
{
	return a->len == b->len &&
	       (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Reads owner and ACL of the open file now. */
static int look(struct ck_ownership *o, struct ck_diag *d)
{
	int rc = fstat(o->fd, &o->st) ? -errno : read_acl(o->fd, &o->acl);

	return rc ? ck_fail(d, -rc, "%s: owner and ACL: %s", o->name,
			    strerror(-rc))
		  : 0;
}

int ck_owner_find(struct ck_ownership *o, struct ck_writer *w,
		  struct ck_diag *d)
{
	struct stat known = ck_checkpoint_metadata(w->cp);
	int rc;

	o->name = ck_metadata_name(w->cp);
	o->fd = ck_open_beneath(w->dirfd, ck_str_from(o->name),
				O_RDONLY | O_NONBLOCK | O_NOCTTY,
				CK_BENEATH_NO_SYMLINKS);
	if (o->fd < 0)
		return ck_fail(d, -o->fd, "%s: %s", o->name, strerror(-o->fd));
	rc = look(o, d);
	if (rc)
		return rc;
	if (!is_same_file(&o->st, &known))
		return ck_fail(d, ESTALE, "%s was changed by somebody else",
			       o->name);
	return 0;
}

int ck_owner_renew(struct ck_ownership *o, bool *changed, struct ck_diag *d)
{
	struct stat was = o->st;
	struct ck_buf acl = o->acl;
	int rc;

	o->acl = (struct ck_buf){ 0 };
	rc = look(o, d);
	*changed = was.st_uid != o->st.st_uid || was.st_gid != o->st.st_gid ||
		   was.st_mode != o->st.st_mode || !is_same_acl(&acl, &o->acl);
	ck_buf_fini(&acl);
	return rc;
}

void ck_owner_fini(struct ck_ownership *o)
{
	ck_fd_cleanup(&o->fd);
	ck_buf_fini(&o->acl);
}

/* --- limits of new files ------------------------------------------------ */

/* Read bits that users may get on a new file with the owner and group of .metadata,
 * given the mode of an old file. A user who may be in several classes of the old
 * file gets only bits that all of these classes have. */
static mode_t readers(const struct stat *old, const struct stat *meta)
{
	bool user = old->st_mode & S_IRUSR, group = old->st_mode & S_IRGRP;
	bool others = old->st_mode & S_IROTH, all = group && others;

	if (old->st_uid != meta->st_uid && !user)
		return 0;
	if (old->st_uid != meta->st_uid)
		user = all;
	if (old->st_gid != meta->st_gid)
		group = others = all;
	return (user ? S_IRUSR : 0) | (group ? S_IRGRP : 0) |
	       (others ? S_IROTH : 0);
}

/* ACLs are compared for equality only: if they differ, only the owner may read. */
static void narrow(struct ck_mode_cap *limit, const struct ck_ownership *o,
		   const struct stat *old, const struct ck_buf *acl)
{
	bool owned = old->st_uid == o->st.st_uid && old->st_gid == o->st.st_gid;

	limit->mode &= readers(old, &o->st) | (0777 & ~0444U);
	if (is_same_acl(acl, &o->acl) && (owned || acl->len == 0))
		return;
	limit->no_acl = true;
	limit->mode &= 0700;
	if (acl->len && old->st_uid != o->st.st_uid)
		limit->mode &= ~(mode_t)S_IRUSR;
}

/* Removes users without search permission on the path of the old file; an ACL may
 * name some of them. */
static void narrow_by_way(struct ck_mode_cap *limit,
			  const struct ck_ownership *o, mode_t closed)
{
	limit->mode &= ~closed;
	if (!closed || o->acl.len == 0)
		return;
	limit->no_acl = true;
	limit->mode &= 0700;
}

static int limit_by(struct ck_mode_cap *limit, const struct ck_ownership *o,
		    struct ck_files *files, uint32_t number)
{
	const struct ck_ids ids = { o->st.st_uid, o->st.st_gid };
	struct ck_buf acl = { 0 };
	struct ck_file file;
	struct stat st;
	int rc = ck_files_get(files, number, &file);

	if (rc)
		return rc;
	rc = fstat(file.fd, &st) ? -errno : read_acl(file.fd, &acl);
	ck_files_put(files, &file);
	if (rc == 0) {
		narrow(limit, o, &st, &acl);
		narrow_by_way(limit, o, ck_files_closed(files, number, ids));
	}
	ck_buf_fini(&acl);
	return rc;
}

int ck_limits_find(struct ck_mode_cap *limits, const struct ck_ownership *o,
		   struct ck_writer *w, const struct ck_batch *b,
		   struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(w->cp);
	int rc = 0;

	for (uint32_t i = 0; i < b->nshards; i++)
		limits[i] = (struct ck_mode_cap){ .mode = 0777 };
	/* Until the switch the current catalog has the old locations. */
	for (size_t i = 0; i < b->nkept && !rc; i++)
		rc = limit_by(&limits[b->kept[i].shard], o, w->cp->files,
			      ck_catalog_item(c, b->kept[i].chunk)->file);
	return rc ? ck_fail(d, -rc, "who may read what is carried over: %s",
			    strerror(-rc))
		  : 0;
}

/* --- new files -------------------------------------------------------------------- */

/* An unnamed file may have inherited an ACL from its directory. */
static int give_acl(const struct ck_buf *acl, int fd)
{
	int rc = acl->len ? fsetxattr(fd, ACL, acl->data, acl->len, 0)
			  : fremovexattr(fd, ACL);

	if (rc && !acl->len && (errno == ENODATA || errno == EOPNOTSUPP))
		return 0;
	return rc ? -errno : 0;
}

/* During the change no user has more rights than before or after. */
static int give(const struct ck_ownership *o, int fd, struct ck_diag *d)
{
	const struct stat *want = &o->st;
	struct stat st;

	if (fstat(fd, &st))
		return ck_fail(d, errno, "a new file: %s", strerror(errno));
	if (st.st_mode & 077 && fchmod(fd, 0))
		return ck_fail(d, errno, "a new file: %s", strerror(errno));
	if ((st.st_uid != want->st_uid || st.st_gid != want->st_gid) &&
	    fchown(fd, want->st_uid, want->st_gid))
		return ck_fail(d, errno,
			       "a new file cannot have the owner and group of "
			       "%s, %u and %u: %s",
			       o->name, want->st_uid, want->st_gid,
			       strerror(errno));
	return 0;
}

int ck_file_own(const struct ck_ownership *o, const struct ck_mode_cap *limit,
		int fd, struct ck_diag *d)
{
	static const struct ck_buf none;
	mode_t most = limit ? limit->mode : 0777;
	int rc = give(o, fd, d);

	if (rc)
		return rc;
	rc = give_acl(limit && limit->no_acl ? &none : &o->acl, fd);
	if (rc)
		return ck_fail(d, -rc, "the ACL of %s: %s", o->name,
			       strerror(-rc));
	if (fchmod(fd, o->st.st_mode & most & 0777))
		return ck_fail(d, errno, "a new file: %s", strerror(errno));
	return 0;
}

int ck_owner_try(struct ck_writer *w, int *fd, struct ck_ownership *o,
		 struct ck_diag *d)
{
	int rc = ck_owner_find(o, w, d);

	if (rc == 0)
		rc = ck_file_make(w, fd, d);
	return rc ? rc : ck_file_own(o, NULL, *fd, d);
}

static bool is_known(struct ck_writer *w, const struct stat *st)
{
	bool known;

	pthread_mutex_lock(&w->lock);
	known = w->owned.st_ino == st->st_ino &&
		w->owned.st_ctim.tv_sec == st->st_ctim.tv_sec &&
		w->owned.st_ctim.tv_nsec == st->st_ctim.tv_nsec;
	pthread_mutex_unlock(&w->lock);
	return known;
}

int ck_owner_check(struct ck_writer *w, struct ck_diag *d)
{
	struct ck_ownership owner = { .fd = -1 };
	ck_auto_fd int fd = -1;
	struct stat st;
	int rc;

	if (fstatat(w->dirfd, ck_metadata_name(w->cp), &st,
		    AT_SYMLINK_NOFOLLOW) == 0 &&
	    is_known(w, &st))
		return 0;
	rc = ck_owner_try(w, &fd, &owner, d);
	pthread_mutex_lock(&w->lock);
	if (rc == 0)
		w->owned = owner.st;
	pthread_mutex_unlock(&w->lock);
	ck_owner_fini(&owner);
	/* A full disk may have space at the time of a write. */
	return rc == -ENOSPC || rc == -EDQUOT ? 0 : rc;
}
