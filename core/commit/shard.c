/* SPDX-License-Identifier: MIT */
/*
 * shard: the new files of a commit. They have no name until all that is in
 * them is whole, so that whatever ends before leaves nothing.
 */
#include "commit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { NAME_TRIES = 8 };

#define ACL "system.posix_acl_access"

/* --- files ----------------------------------------------------------------- */

int ck_file_make(const struct ck_writer *w, int *fd, struct ck_diag *d)
{
	*fd = ck_open_unnamed(w->dirfd);
	if (*fd >= 0)
		return 0;
	if (*fd == -EISDIR || *fd == -EOPNOTSUPP)
		return ck_fail(d, EOPNOTSUPP,
			       "%s: its file system has no files without name",
			       ck_show(ck_str_from(w->cp->path)));
	return ck_fail(d, -*fd, "%s: no new file: %s",
		       ck_show(ck_str_from(w->cp->path)), strerror(-*fd));
}

/* --- owner, group, mode, ACL ------------------------------------------------ */

/* An unnamed file may have got an ACL from its directory. */
static int copy_acl(const struct ck_writer *w, int fd)
{
	ck_auto_fd int from = ck_open_beneath(w->dirfd, CK_STR(".metadata"),
					      O_RDONLY, CK_BENEATH_SYMLINKS);
	ck_auto_free void *acl = malloc(XATTR_SIZE_MAX);
	ssize_t n;

	if (from < 0 || !acl)
		return from < 0 ? from : -ENOMEM;
	n = fgetxattr(from, ACL, acl, XATTR_SIZE_MAX);
	if (n < 0 && errno != ENODATA && errno != EOPNOTSUPP)
		return -errno;
	if (n >= 0)
		return fsetxattr(fd, ACL, acl, (size_t)n, 0) ? -errno : 0;
	if (fremovexattr(fd, ACL) && errno != ENODATA && errno != EOPNOTSUPP)
		return -errno;
	return 0;
}

int ck_file_own(const struct ck_writer *w, int fd, struct ck_diag *d)
{
	const struct stat *want = &w->cp->metadata;
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return ck_fail(d, errno, "a new file: %s", strerror(errno));
	if ((st.st_uid != want->st_uid || st.st_gid != want->st_gid) &&
	    fchown(fd, want->st_uid, want->st_gid))
		return ck_fail(d, errno,
			       "a new file cannot have the owner and group of "
			       ".metadata, %u and %u: %s",
			       want->st_uid, want->st_gid, strerror(errno));
	if (fchmod(fd, want->st_mode & 0777))
		return ck_fail(d, errno, "a new file: %s", strerror(errno));
	rc = copy_acl(w, fd);
	return rc ? ck_fail(d, -rc, "the ACL of .metadata: %s", strerror(-rc))
		  : 0;
}

/* --- all of a batch ---------------------------------------------------------- */

int ck_batch_own(const struct ck_writer *w, struct ck_batch *b,
		 struct ck_diag *d)
{
	int rc = 0;

	for (uint32_t i = 0; i < b->nshards && !rc; i++)
		if (b->shards[i].fd >= 0)
			rc = ck_file_own(w, b->shards[i].fd, d);
	return rc;
}

int ck_batch_sync(struct ck_batch *b, struct ck_diag *d)
{
	for (uint32_t i = 0; i < b->nshards; i++)
		if (b->shards[i].fd >= 0 && fsync(b->shards[i].fd))
			return ck_fail(d, errno, "a new data file: fsync: %s",
				       strerror(errno));
	return 0;
}

/* --- names --------------------------------------------------------------------- */

int ck_file_link(const struct ck_writer *w, int fd, const char *name,
		 struct ck_diag *d)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, w->dirfd, name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return ck_fail(d, errno, "%s: %s", name, strerror(errno));
}

static int shard_link(const struct ck_writer *w, uint64_t generation,
		      struct ck_shard *shard, struct ck_diag *d)
{
	char hex[17], name[CK_NAME_LEN];
	int rc = -EEXIST;

	for (int i = 0; i < NAME_TRIES && rc == -EEXIST; i++) {
		rc = ck_random_hex(hex);
		if (rc)
			return ck_fail(d, -rc, "no random number");
		ck_name_make(name, shard->rank, generation, hex);
		rc = ck_file_link(w, shard->fd, name, d);
	}
	if (rc == 0)
		memcpy(shard->name, name, sizeof(name));
	return rc;
}

int ck_batch_link(const struct ck_writer *w, uint64_t generation,
		  struct ck_batch *b, struct ck_diag *d)
{
	int rc = 0;

	for (uint32_t i = 0; i < b->nshards && !rc; i++)
		if (b->shards[i].fd >= 0)
			rc = shard_link(w, generation, &b->shards[i], d);
	return rc;
}

void ck_batch_unlink(const struct ck_writer *w, struct ck_batch *b)
{
	for (uint32_t i = 0; i < b->nshards; i++) {
		if (b->shards[i].name[0])
			(void)unlinkat(w->dirfd, b->shards[i].name, 0);
		b->shards[i].name[0] = '\0';
	}
}
