/* SPDX-License-Identifier: MIT */
/*
 * umount: ends a mount of ours, and no other: a wrong path given to this
 * command must not unmount somebody's disk.
 */
#include "ckptfs/fs.h"
#include "commands.h"
#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* What is staged would be lost without a word, or committed when nobody is told
 * of an error any more. */
static int settle(const char *path)
{
	struct ck_buf commit = { 0 }, staged = { 0 };
	int rc = CK_EXIT_FINE;

	/* Of one whose process is dead nothing can be asked. */
	if (ck_status_field(path, "commit", &commit) &&
	    ck_status_field(path, "staged tensors", &staged) &&
	    strcmp(staged.data, "0") != 0) {
		if (strcmp(commit.data, "fsync") == 0)
			rc = ck_order(path, path, CK_ORDER_COMMIT, false);
		else
			rc = ck_trouble("%s: tensors are staged and not "
					"committed: %s; first commit, or "
					"abort",
					ck_show(ck_str_from(path)),
					staged.data);
	}
	ck_buf_fini(&commit);
	ck_buf_fini(&staged);
	return rc;
}

int ck_cmd_umount(int argc, char **argv)
{
	ck_auto_free char *path = NULL;
	const char *name;

	if (argc != 2)
		return ck_usage(argv[0]);
	path = ck_mount_point(argv[1]);
	if (!path || settle(path))
		return CK_EXIT_TROUBLE;
	name = ck_show(ck_str_from(argv[1]));
	if (geteuid() != 0)
		return run_fusermount(path);
	if (umount2(path, UMOUNT_NOFOLLOW))
		return ck_trouble("%s: %s%s", name, strerror(errno),
				  errno == EBUSY ? "; some process has a file "
						   "or its directory there"
						 : "");
	return CK_EXIT_FINE;
}
