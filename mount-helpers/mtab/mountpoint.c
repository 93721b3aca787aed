/* SPDX-License-Identifier: MIT */
/*
 * mountpoint: identifies the mount at a path, opens files in it and unmounts it. A path does
 * not identify a mount: another mount may cover it, and the owner of a directory above can
 * replace that directory at any time. Therefore a mount is identified by its mount id and
 * accessed through descriptors. No state; a function that opens a path can block.
 */
#include "base/system/fd_link.h"
#include "cli.h"
#include "mounts.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U /* Linux 6.8 */
#endif

enum { ROOT_FLAGS = O_PATH | O_NOFOLLOW | O_CLOEXEC };

/* The kernel answers this statx(2) without a request to the daemon. A user who has no access
 * to the mount gets an answer only if no attribute is requested; the mount id is always
 * included. */
static int ask_kernel(int fd, unsigned mask, struct statx *st)
{
	return statx(fd, "",
		     AT_EMPTY_PATH | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, mask,
		     st)
		       ? -errno
		       : 0;
}

int ck_shown_read(int fd, struct ck_shown *out)
{
	struct statx st;
	int rc = ask_kernel(fd, 0, &st);

	*out = (struct ck_shown){ 0 };
	if (rc)
		return rc;
	if (!(st.stx_mask & STATX_MNT_ID))
		return -ENOSYS;
	out->id = (int)st.stx_mnt_id;
	out->major = st.stx_dev_major;
	out->minor = st.stx_dev_minor;
	out->root = (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
	rc = ask_kernel(fd, STATX_MNT_ID_UNIQUE, &st);
	if (rc == 0 && st.stx_mask & STATX_MNT_ID_UNIQUE)
		out->unique = st.stx_mnt_id;
	return 0;
}

int ck_shown_at(const char *path, struct ck_shown *out)
{
	ck_auto_fd int fd = open(path, ROOT_FLAGS);

	*out = (struct ck_shown){ 0 };
	return fd < 0 ? -errno : ck_shown_read(fd, out);
}

static bool is_row(const struct ck_mount *m, const struct ck_shown *shown)
{
	return shown->root && m->id == shown->id && m->major == shown->major &&
	       m->minor == shown->minor;
}

const struct ck_mount *ck_mounts_shown(const struct ck_mounts *all,
				       const struct ck_shown *shown)
{
	for (size_t i = 0; i < all->n; i++)
		if (is_row(&all->rows[i], shown))
			return &all->rows[i];
	return NULL;
}

static bool shows(const struct ck_mount *m, const struct ck_shown *shown)
{
	return is_row(m, shown) && m->unique == shown->unique;
}

uint64_t ck_mount_unique(const struct ck_mount *m)
{
	struct ck_shown shown;

	if (m->unique || ck_shown_at(m->point, &shown) || !is_row(m, &shown))
		return m->unique;
	return shown.unique;
}

/* path: relative to dirfd. Returns an O_PATH descriptor, or: -ESTALE if another mount is
 * there; an errno of open(2) or statx(2). */
static int enter(int dirfd, const char *path, const struct ck_mount *m)
{
	int fd = openat(dirfd, path, ROOT_FLAGS);
	struct ck_shown shown = { 0 };
	int rc = fd < 0 ? -errno : ck_shown_read(fd, &shown);

	if (rc == 0 && !shows(m, &shown))
		rc = -ESTALE;
	if (rc && fd >= 0)
		close(fd);
	return rc ? rc : fd;
}

int ck_mount_enter(const struct ck_mount *m)
{
	return enter(AT_FDCWD, m->point, m);
}

int ck_mount_open(const struct ck_mount *m, const char *name, int flags)
{
	ck_auto_fd int root = ck_mount_enter(m);
	struct open_how how = {
		.flags = (unsigned)flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	long fd;

	if (root < 0)
		return root;
	fd = syscall(SYS_openat2, root, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

/* statfs(2) takes no lock of the mount, so this process can be killed while it waits for a
 * reply. */
static int statfs_work(void *arg, struct ck_buf *answer)
{
	ck_auto_fd int fd = ck_mount_enter(arg);
	struct statfs st;

	if (fd < 0)
		return fd;
	if (fstatfs(fd, &st))
		return -errno;
	/* A user who has no access to the mount gets zeros from the kernel. */
	if (st.f_blocks == 0)
		return -EACCES;
	(void)answer;
	return 0;
}

int ck_mount_ping(const struct ck_mount *m, unsigned msec)
{
	struct ck_mount copy = *m;
	struct ck_buf none = { 0 };
	int rc = ck_probe(statfs_work, &copy, msec, NULL, &none);

	ck_buf_fini(&none);
	return rc;
}

static int detach(const struct ck_mount *m, int flags)
{
	ck_auto_fd int fd = ck_mount_enter(m);
	char link[CK_FD_LINK_BYTES];

	if (fd < 0)
		return fd;
	ck_fd_link(fd, link);
	return umount2(link, flags) ? -errno : 0;
}

/* An open descriptor of the mount would keep it busy. A descriptor of the parent directory
 * fixes the path above. Between the comparison and umount2(2) the last name can be replaced
 * only by users who may write the parent, and not by rename(2), which the kernel refuses
 * for a mount point. */
static int end_idle(const struct ck_mount *m, int flags)
{
	ck_auto_free char *parent = strdup(m->point);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	ck_auto_free char *link = NULL;
	ck_auto_fd int dirfd = -1;
	int fd;

	if (!slash || !slash[1])
		return parent ? -EINVAL : -ENOMEM;
	*slash = '\0';
	dirfd = open(slash == parent ? "/" : parent,
		     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dirfd < 0)
		return -errno;
	if (asprintf(&link, "/proc/self/fd/%d/%s", dirfd, slash + 1) < 0)
		return -ENOMEM;
	fd = enter(dirfd, slash + 1, m);
	if (fd < 0)
		return fd;
	close(fd);
	return umount2(link, flags | UMOUNT_NOFOLLOW) ? -errno : 0;
}

int ck_mount_end(const struct ck_mount *m, int flags)
{
	return flags & MNT_DETACH ? detach(m, flags) : end_idle(m, flags);
}
