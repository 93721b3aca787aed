/* SPDX-License-Identifier: MIT */
/*
 * area_attr: changes of attributes in files/ of a writable mount. The kernel has checked that
 * the sender may make them. Without KILLPRIV_V2 (kernel_ops.c) it also says which set-ID bits
 * a change of the owner drops.
 *
 * With `uid` or `gid` the owner that is shown is not that of the source: it cannot be
 * changed.
 *
 * Threads: any thread of files/; requests share no state.
 */
#include "area_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

/* --- attributes ----------------------------------------------------------------------- */

/* Sets *uid and *gid to the ids to set, -1 for none. */
static int owner_of(const struct ck_area_job *j, uid_t *uid, gid_t *gid)
{
	const struct ck_mount_options *o = j->area->fs->options;

	*uid = j->flags & FUSE_SET_ATTR_UID ? j->attr.st_uid : (uid_t)-1;
	*gid = j->flags & FUSE_SET_ATTR_GID ? j->attr.st_gid : (gid_t)-1;
	if (o->have_uid && *uid != (uid_t)-1 && *uid != o->uid)
		return -EPERM;
	if (o->have_gid && *gid != (gid_t)-1 && *gid != o->gid)
		return -EPERM;
	if (o->have_uid)
		*uid = (uid_t)-1;
	if (o->have_gid)
		*gid = (gid_t)-1;
	return 0;
}

/* With KILLPRIV_V2 chown(2) of no id is a request without attributes, which the kernel lets
 * each user send. So is the first part of a write. Only the owner, root, and one who may write
 * may drop set-ID bits. */
static int nothing_check(const struct ck_area_job *j, struct ck_area_node *n,
			 int fd, mode_t bits)
{
	uid_t sender = fuse_req_ctx(j->req)->uid;
	struct stat shown;
	int rc;

	if (!bits || sender == 0)
		return 0;
	rc = ck_area_fd_stat(j->area, fd, &shown);
	if (rc || sender == shown.st_uid)
		return rc;
	return ck_area_handle_writes(j->area, n) ? 0 : -EPERM;
}

/* Drops set-ID bits, but for a directory. */
static int owner_set(const struct ck_area_job *j, struct ck_area_node *n,
		     int fd)
{
	struct stat st;
	mode_t bits;
	uid_t uid;
	gid_t gid;
	int rc = owner_of(j, &uid, &gid);

	if (rc || (j->flags && uid == (uid_t)-1 && gid == (gid_t)-1))
		return rc;
	if (fstat(fd, &st))
		return -errno;
	bits = S_ISDIR(st.st_mode) ? 0 : ck_area_setid_of(j->req, &st);
	if (!j->flags)
		rc = nothing_check(j, n, fd, bits);
	if (rc == 0 && fchownat(fd, "", uid, gid, AT_EMPTY_PATH))
		rc = -errno;
	return rc ? rc : ck_area_bits_drop(fd, bits);
}

static struct timespec time_of(const struct ck_area_job *j, int set, int now,
			       struct timespec t)
{
	if (j->flags & now)
		t.tv_nsec = UTIME_NOW;
	else if (!(j->flags & set))
		t.tv_nsec = UTIME_OMIT;
	return t;
}

static int times_set(const struct ck_area_job *j, int fd)
{
	const struct timespec times[] = {
		time_of(j, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW,
			j->attr.st_atim),
		time_of(j, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW,
			j->attr.st_mtim),
	};

	return utimensat(fd, "", times, AT_EMPTY_PATH) ? -errno : 0;
}

static int size_set(const struct ck_area_job *j, int fd, const char *link)
{
	int rc = ck_area_setid_drop(j, fd);

	if (rc)
		return rc;
	if (j->has_fi)
		return ftruncate(ck_area_handle_of(&j->fi)->fd, j->attr.st_size)
			       ? -errno
			       : 0;
	return truncate(link, j->attr.st_size) ? -errno : 0;
}

/* umask= and an ACL may hide bits, so that a sender who adds a bit to the mode that is shown
 * would remove others. Bits of the owner, and those of group and others, that are as they are
 * shown stay as they are. */
static int mode_set(const struct ck_area_job *j, int fd, const char *link)
{
	static const mode_t classes[] = { 0700, 0077 };
	mode_t mode = j->attr.st_mode & 07777;
	struct stat st, shown;
	int rc = fstat(fd, &st) ? -errno : ck_area_fd_stat(j->area, fd, &shown);

	if (rc)
		return rc;
	for (size_t i = 0; i < CK_ARRAY_SIZE(classes); i++)
		if (!((mode ^ shown.st_mode) & classes[i]))
			mode = (mode & ~classes[i]) | (st.st_mode & classes[i]);
	return chmod(link, mode) ? -errno : 0;
}

/* A change of the owner drops set-ID bits, so the mode is set after it. */
static int attributes_set(const struct ck_area_job *j, struct ck_area_node *n,
			  int fd)
{
	enum {
		OWNER = FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID,
		TIMES = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME |
			FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW,
	};

	char link[CK_FD_LINK_BYTES];
	int rc = 0;

	ck_fd_link(fd, link);
	if (j->flags & OWNER || !j->flags)
		rc = owner_set(j, n, fd);
	if (rc == 0 && (j->flags & FUSE_SET_ATTR_MODE))
		rc = mode_set(j, fd, link);
	if (rc == 0 && (j->flags & FUSE_SET_ATTR_SIZE))
		rc = size_set(j, fd, link);
	if (rc == 0 && (j->flags & TIMES))
		rc = times_set(j, fd);
	return rc;
}

static int do_setattr(struct ck_area_job *j, struct ck_area_node *n,
		      struct stat *out)
{
	int rc = ck_area_may_change(j->area, n), fd;

	if (rc)
		return rc;
	fd = ck_area_pin(j->area, n);
	if (fd < 0)
		return fd;
	rc = attributes_set(j, n, fd);
	if (rc == 0)
		rc = ck_area_fd_stat(j->area, fd, out);
	ck_area_fd_unpin(&j->area->table, n);
	return rc;
}

static void setattr_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	struct stat st;
	int rc = n ? do_setattr(j, n, &st) : -ESTALE;

	ck_area_put(&j->area->table, n);
	if (rc)
		fuse_reply_err(j->req, -rc);
	else
		fuse_reply_attr(j->req, &st, 0);
}

static void area_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
			 int to_set, struct fuse_file_info *fi)
{
	struct ck_area_job *j = ck_area_job_make(req, ino, setattr_run, NULL,
						 fi);

	if (!j)
		return;
	j->attr = *attr;
	j->flags = to_set;
	ck_area_job_queue(j);
}

/* --- extended attributes --------------------------------------------------------------- */

/* bytes: NULL to remove the attribute. */
static int do_setxattr(struct ck_area_job *j, struct ck_area_node *n)
{
	char link[CK_FD_LINK_BYTES];
	int rc = ck_area_may_change(j->area, n), fd;

	if (rc)
		return rc;
	fd = ck_area_pin(j->area, n);
	if (fd < 0)
		return fd;
	ck_fd_link(fd, link);
	rc = j->bytes ? setxattr(link, j->name, j->bytes, j->size, j->flags)
		      : removexattr(link, j->name);
	rc = rc ? -errno : 0;
	ck_area_fd_unpin(&j->area->table, n);
	return rc;
}

static void setxattr_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	int rc = n ? do_setxattr(j, n) : -ESTALE;

	ck_area_put(&j->area->table, n);
	fuse_reply_err(j->req, -rc);
}

/* Attributes of other names are not those of a mount. */
static int name_check(const struct ck_area *a, const char *name)
{
	if (a->fs->options->noxattr)
		return ENOSYS;
	return ck_str_starts(ck_str_from(name), CK_STR("user.")) ? 0
								 : EOPNOTSUPP;
}

static void area_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
			  const char *value, size_t size, int flags)
{
	int err = name_check(ck_area_of(req), name);
	struct ck_area_job *j;

	if (err) {
		fuse_reply_err(req, err);
		return;
	}
	j = ck_area_job_make(req, ino, setxattr_run, name, NULL);
	if (!j)
		return;
	j->bytes = value;
	j->size = size;
	j->flags = flags;
	ck_area_job_queue(j);
}

static void area_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	int err = name_check(ck_area_of(req), name);

	if (err)
		fuse_reply_err(req, err);
	else
		ck_area_defer(req, ino, setxattr_run, name, NULL);
}

void ck_area_attr_ops(struct fuse_lowlevel_ops *ops)
{
	ops->setattr = area_setattr;
	ops->setxattr = area_setxattr;
	ops->removexattr = area_removexattr;
}
