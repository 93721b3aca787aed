/* SPDX-License-Identifier: MIT */
/*
 * mountpoint_check: refuses mount points that cannot work (S-F5). Inside its
 * own source the daemon would reach its own mount on the way to a shard, and
 * wait for itself. Over its source the mount would hide it, and over files it
 * would hide them. No state, no locks.
 */
#include "../internal.h"
#include "base/system/fd_link.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static int dir_open(int dirfd, const char *path)
{
	return openat(dirfd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* True also for a directory that cannot be listed. */
static bool is_empty(int place)
{
	int fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	bool found = false;

	if (fd >= 0 && !dir)
		close(fd);
	while (dir && !found && (e = readdir(dir)))
		found = strcmp(e->d_name, ".") != 0 &&
			strcmp(e->d_name, "..") != 0;
	if (dir)
		closedir(dir);
	return !found;
}

int ck_fs_check_mountpoint(const struct ck_checkpoint *cp,
			   const char *mountpoint, bool nonempty,
			   struct ck_diag *d)
{
	ck_auto_fd int place = dir_open(AT_FDCWD, mountpoint);
	const char *name = ck_show(ck_str_from(mountpoint));
	struct stat place_st;
	struct statfs dead;

	/* A mount whose daemon is dead may still have cached attributes. Only
	 * statfs(2) is never answered from a cache. */
	if (place < 0 || fstat(place, &place_st) || fstatfs(place, &dead))
		return ck_fail(d, errno, "%s: %s%s", name, strerror(errno),
			       errno == ENOTCONN
				       ? "; a mount whose daemon is gone, "
					 "umount it first"
				       : "");
	if (ck_checkpoint_holds(cp, dir_open(place, ".")))
		return ck_fail(d, EINVAL,
			       "%s: the mount point lies in the checkpoint",
			       name);
	if (ck_lies_in(dir_open(cp->dirfd, "."), &place_st))
		return ck_fail(d, EINVAL,
			       "%s: the checkpoint lies in the mount point",
			       name);
	if (!nonempty && !is_empty(place))
		return ck_fail(d, ENOTEMPTY,
			       "%s: not empty; what is there would be hidden, "
			       "which -o nonempty allows",
			       name);
	return 0;
}

int ck_fs_check_proc(const struct ck_checkpoint *cp, struct ck_diag *d)
{
	struct stat by_number, dir;
	char path[CK_FD_LINK_BYTES];

	ck_fd_link(cp->dirfd, path);
	if (stat(path, &by_number) == 0 && fstat(cp->dirfd, &dir) == 0 &&
	    by_number.st_dev == dir.st_dev && by_number.st_ino == dir.st_ino)
		return 0;
	return ck_fail(d, ENOENT,
		       "option write: needs /proc, which is not "
		       "mounted");
}
