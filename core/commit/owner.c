/* SPDX-License-Identifier: MIT */
/*
 * owner: whose new files are. They have the owner, group, mode and ACL of the
 * .metadata that they come to belong to, as it is when they do: who has given
 * it to another, or closed it to others, finds that done to them.
 */
#include "commit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ACL "system.posix_acl_access"

/* --- what .metadata has ------------------------------------------------------ */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* 0 bytes: it has none. */
static int read_acl(int fd, struct ck_buf *out)
{
	ck_auto_free void *acl = malloc(XATTR_SIZE_MAX);
	ssize_t n;

	out->len = 0;
	if (!acl)
		return -ENOMEM;
	n = fgetxattr(fd, ACL, acl, XATTR_SIZE_MAX);
	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
	ck_buf_add(out, acl, (size_t)n);
	return out->err;
}

/* Of the open file, as it is now. */
static int look(struct ck_owner *o, struct ck_diag *d)
{
	int rc = fstat(o->fd, &o->st) ? -errno : read_acl(o->fd, &o->acl);

	return rc ? ck_fail(d, -rc, ".metadata: owner and ACL: %s",
			    strerror(-rc))
		  : 0;
}

int ck_owner_find(struct ck_owner *o, struct ck_writer *w, struct ck_diag *d)
{
	int rc;

	o->fd = ck_open_beneath(w->dirfd, CK_STR(".metadata"),
				O_RDONLY | O_NONBLOCK | O_NOCTTY,
				CK_BENEATH_NO_SYMLINKS);
	if (o->fd < 0)
		return ck_fail(d, -o->fd, ".metadata: %s", strerror(-o->fd));
	rc = look(o, d);
	if (rc)
		return rc;
	ck_checkpoint_lock(w->cp);
	if (!is_same_file(&o->st, &w->cp->metadata))
		rc = ck_fail(d, ESTALE,
			     ".metadata was changed by somebody else");
	ck_checkpoint_unlock(w->cp);
	return rc;
}

int ck_owner_renew(struct ck_owner *o, bool *changed, struct ck_diag *d)
{
	struct stat was = o->st;
	struct ck_buf acl = o->acl;
	int rc;

	o->acl = (struct ck_buf){ 0 };
	rc = look(o, d);
	*changed = was.st_uid != o->st.st_uid || was.st_gid != o->st.st_gid ||
		   was.st_mode != o->st.st_mode || acl.len != o->acl.len ||
		   (acl.len && memcmp(acl.data, o->acl.data, acl.len) != 0);
	ck_buf_fini(&acl);
	return rc;
}

void ck_owner_fini(struct ck_owner *o)
{
	ck_fd_cleanup(&o->fd);
	ck_buf_fini(&o->acl);
}

/* --- what new files get -------------------------------------------------------- */

/* An unnamed file may have got an ACL from its directory. */
static int give_acl(const struct ck_owner *o, int fd)
{
	int rc = o->acl.len ? fsetxattr(fd, ACL, o->acl.data, o->acl.len, 0)
			    : fremovexattr(fd, ACL);

	if (rc && !o->acl.len && (errno == ENODATA || errno == EOPNOTSUPP))
		return 0;
	return rc ? -errno : 0;
}

/* On the way nobody may do more with it than before or afterwards. */
static int give(const struct ck_owner *o, int fd, struct ck_diag *d)
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
			       ".metadata, %u and %u: %s",
			       want->st_uid, want->st_gid, strerror(errno));
	return 0;
}

int ck_file_own(const struct ck_owner *o, int fd, struct ck_diag *d)
{
	int rc = give(o, fd, d);

	if (rc)
		return rc;
	rc = give_acl(o, fd);
	if (rc)
		return ck_fail(d, -rc, "the ACL of .metadata: %s",
			       strerror(-rc));
	if (fchmod(fd, o->st.st_mode & 0777))
		return ck_fail(d, errno, "a new file: %s", strerror(errno));
	return 0;
}

int ck_owner_try(struct ck_writer *w, int *fd, struct ck_owner *o,
		 struct ck_diag *d)
{
	int rc = ck_owner_find(o, w, d);

	if (rc == 0)
		rc = ck_file_make(w, fd, d);
	return rc ? rc : ck_file_own(o, *fd, d);
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
	struct ck_owner owner = { .fd = -1 };
	ck_auto_fd int fd = -1;
	struct stat st;
	int rc;

	if (fstatat(w->dirfd, ".metadata", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    is_known(w, &st))
		return 0;
	rc = ck_owner_try(w, &fd, &owner, d);
	pthread_mutex_lock(&w->lock);
	if (rc == 0)
		w->owned = owner.st;
	pthread_mutex_unlock(&w->lock);
	ck_owner_fini(&owner);
	/* A disk that is full now may have room when something is written. */
	return rc == -ENOSPC || rc == -EDQUOT ? 0 : rc;
}
