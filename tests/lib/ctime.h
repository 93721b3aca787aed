/* SPDX-License-Identifier: MIT */
/*
 * ctime: files that are changed so that only their ctime shows it. Its clock stands still for
 * some milliseconds: each change here waits for it.
 */
#ifndef CK_TEST_CTIME_H
#define CK_TEST_CTIME_H

#include "ckptfs/base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static inline struct stat ctime_stat(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		abort();
	return st;
}

/* A later change of the file has another ctime. */
static inline void ctime_wait(int dirfd, const char *name)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	struct stat st = ctime_stat(dirfd, name);
	struct timespec now;

	do {
		nanosleep(&moment, NULL);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec < st.st_ctim.tv_sec ||
		 (now.tv_sec == st.st_ctim.tv_sec &&
		  now.tv_nsec <= st.st_ctim.tv_nsec));
}

static inline void ctime_chmod(int dirfd, const char *name, mode_t mode)
{
	ctime_wait(dirfd, name);
	if (fchmodat(dirfd, name, mode, 0))
		abort();
}

/* Writes over bytes of a file, and restores its times. */
static inline void ctime_write(int dirfd, const char *name, const void *bytes,
			       size_t len, off_t at)
{
	struct stat st = ctime_stat(dirfd, name);
	struct timespec times[2] = { st.st_atim, st.st_mtim };
	int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

	ctime_wait(dirfd, name);
	if (fd < 0 || pwrite(fd, bytes, len, at) != (ssize_t)len ||
	    futimens(fd, times))
		abort();
	close(fd);
}

#endif
