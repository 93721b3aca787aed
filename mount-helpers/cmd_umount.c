/* SPDX-License-Identifier: MIT */
/*
 * umount: ends a mount of ours, and no other: a wrong path given to this
 * command must not unmount somebody's disk.
 */
#include "commands.h"
#include <errno.h>
#include <mntent.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define TYPE "fuse.ckptfs"

/* The last mount on a path is the one that shows. */
static bool is_ours(const char *path)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	bool ours = false;
	struct mntent *m;

	if (!f)
		return false;
	while ((m = getmntent(f)))
		if (strcmp(m->mnt_dir, path) == 0)
			ours = strcmp(m->mnt_type, TYPE) == 0;
	endmntent(f);
	return ours;
}

/* The path without symbolic links; of a dead mount's root nothing can be
 * asked, so that only its parent is resolved. Owned by the caller; NULL and
 * errno. */
static char *resolve(const char *path)
{
	ck_auto_free char *copy = strdup(path);
	ck_auto_free char *parent = NULL;
	char *whole = realpath(path, NULL);
	char *slash;

	if (whole || !copy || errno != ENOTCONN)
		return whole;
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	parent = realpath(!slash ? "." : *copy ? copy : "/", NULL);
	if (!parent || asprintf(&whole, "%s/%s", parent + (parent[1] == '\0'),
				slash ? slash + 1 : path) < 0)
		return NULL;
	return whole;
}

/* The only program that may unmount for an ordinary user. It says what is
 * wrong. */
static int run_fusermount(const char *path)
{
	pid_t child = fork();
	int status = 0;

	if (child < 0)
		return ck_trouble("umount: no process: %s", strerror(errno));
	if (child == 0) {
		execlp("fusermount3", "fusermount3", "-u", "--", path, NULL);
		ck_trouble("fusermount3: %s", strerror(errno));
		_exit(CK_EXIT_TROUBLE);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? CK_EXIT_FINE : CK_EXIT_TROUBLE;
}

int ck_cmd_umount(int argc, char **argv)
{
	ck_auto_free char *path = NULL;
	const char *name;

	if (argc != 2)
		return ck_usage(argv[0]);
	name = ck_show(ck_str_from(argv[1]));
	path = resolve(argv[1]);
	if (!path)
		return ck_trouble("%s: %s", name, strerror(errno));
	if (!is_ours(path))
		return ck_trouble("%s: not the mount point of a checkpoint",
				  name);
	if (geteuid() != 0)
		return run_fusermount(path);
	if (umount2(path, UMOUNT_NOFOLLOW))
		return ck_trouble("%s: %s%s", name, strerror(errno),
				  errno == EBUSY ? "; some process has a file "
						   "or its directory there"
						 : "");
	return CK_EXIT_FINE;
}
