/* SPDX-License-Identifier: MIT */
/*
 * mountpoint: which mount shows at a path. The text of a path says little: another
 * mount may cover the one that was mounted there, and who owns a directory of
 * the path may put another in its place at any time. So what the commands do
 * goes by the number that the kernel gave the mount, through descriptors.
 */
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

/* Asks the kernel alone, never the daemon. To a user whom the mount does not
 * let in the kernel answers only if no attribute is asked for; it gives the
 * number of the mount unasked. */
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

/* path: beneath dirfd. The descriptor, or -errno; -ESTALE: another mount shows
 * there. */
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

/* statfs(2) takes no lock of the mount, so that this process can be killed
 * while nobody answers. */
static int statfs_work(void *arg, struct ck_buf *answer)
{
	ck_auto_fd int fd = ck_mount_enter(arg);
	struct statfs st;

	if (fd < 0)
		return fd;
	if (fstatfs(fd, &st))
		return -errno;
	/* To a user whom the mount does not let in the kernel answers in place
	 * of the daemon: with zeros. */
	if (st.f_blocks == 0)
		return -EACCES;
	(void)answer;
	return 0;
}

int ck_mount_asked(const struct ck_mount *m, unsigned msec)
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
	char link[64];

	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return umount2(link, flags) ? -errno : 0;
}

/* A descriptor of the mount would keep it busy. One of the directory that it
 * is in makes all above it certain; the last name can be exchanged between the
 * comparison and the unmounting only by those who may write that directory, and not
 * by renaming, which the kernel refuses for a mount point. */
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
