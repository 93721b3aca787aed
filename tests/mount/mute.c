/* SPDX-License-Identifier: MIT */
/*
 * mute: an LD_PRELOAD library. The daemon is killed as it gives its n-th
 * answer, where MUTE_AT says n: a request of the kernel stays unanswered. With
 * MUTE_LATE its first answer comes half a second late; with MUTE_KEEPER the
 * thread that waits for the kernel's first question is late, instead; with
 * MUTE_END the process takes so long to end. With MUTE_EPOCH the kernel does not
 * know FUSE_NOTIFY_INC_EPOCH, as before Linux 6.16. With MUTE_SYNC each fsync(2)
 * takes 0.4 s, so that commits take long; with MUTE_FORK the n-th new process is
 * late, and called so. With MUTE_TABLE the n-th opening of the kernel's table of
 * mounts fails. With MUTE_HURRY a command that waits takes a fifth of
 * the time. With MUTE_PREAD each pread(2) takes so many milliseconds, as on a
 * slow source; with MUTE_WRITE each pwrite(2), as on a slow target. While there is
 * a file of the name that MUTE_HOLD has, each pread(2) of a data file that no
 * commit made waits, or with MUTE_WRITE each pwrite(2). With MUTE_NAME the calls that
 * wait are pread(2), pwritev2(2), fsync(2) and fdatasync(2) of files with that text in
 * their paths.
 */
/* Its definitions of some calls would be in the way of ours. */
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t writev(int fd,
						      const struct iovec *iov,
						      int n)
{
	static atomic_int answers;
	const char *at = getenv("MUTE_AT");
	int answer = atomic_fetch_add(&answers, 1) + 1;

	if (at && answer == atoi(at))
		kill(getpid(), SIGKILL);
	if (getenv("MUTE_LATE") && answer == 1)
		usleep(500 * 1000);
	return syscall(SYS_writev, fd, iov, n);
}

__attribute__((destructor)) static void end(void)
{
	if (getenv("MUTE_END"))
		usleep(500 * 1000);
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes,
						     size_t len)
{
	const struct fuse_out_header *word = bytes;

	if (len == sizeof(*word) && word->len == len && word->error == 8 &&
	    word->unique == 0 && getenv("MUTE_EPOCH")) {
		errno = EINVAL;
		return -1;
	}
	return syscall(SYS_write, fd, bytes, len);
}

/* After five minutes the test has ended. */
static void held(void)
{
	const char *file = getenv("MUTE_HOLD");

	for (int i = 0; file && access(file, F_OK) == 0 && i < 30000; i++)
		usleep(10 * 1000);
}

static bool is_data(int fd)
{
	const char *name = getenv("MUTE_NAME");
	char link[32], path[512];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	if (name)
		return strstr(path, name);
	return strstr(path, ".distcp") && !strstr(basename(path), "ckptfs");
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void *to,
						     size_t len, off_t pos)
{
	const char *msec = getenv("MUTE_PREAD");

	if (!getenv("MUTE_WRITE") && getenv("MUTE_HOLD") && is_data(fd))
		held();
	if (msec)
		usleep((useconds_t)atoi(msec) * 1000);
	return syscall(SYS_pread64, fd, to, len, pos);
}

static bool is_named(int fd)
{
	return getenv("MUTE_NAME") && is_data(fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
	if (is_named(fd))
		held();
	if (getenv("MUTE_SYNC"))
		usleep(400 * 1000);
	return (int)syscall(SYS_fsync, fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
	if (is_named(fd))
		held();
	return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) ssize_t pwritev2(int fd,
							const struct iovec *iov,
							int n, off_t pos,
							int flags)
{
	if (is_named(fd))
		held();
	return syscall(SYS_pwritev2, fd, iov, n, pos, (off_t)0, flags);
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *from,
						      size_t len, off_t pos)
{
	const char *msec = getenv("MUTE_WRITE");

	if (msec)
		held();
	if (msec)
		usleep((useconds_t)atoi(msec) * 1000);
	return syscall(SYS_pwrite64, fd, from, len, pos);
}

/* The first thread waits for the end of the session. */
__attribute__((visibility("default"))) int sem_wait(sem_t *sem)
{
	while (sem_trywait(sem))
		if (usleep(1000))
			return -1; /* EINTR, which ends a session */
	if (getenv("MUTE_KEEPER") && gettid() != getpid())
		usleep(500 * 1000);
	return 0;
}

__attribute__((visibility("default"))) pid_t fork(void)
{
	pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
	const char *at = getenv("MUTE_FORK");
	static int forks;
	pid_t process;

	forks++;
	process = real();
	if (process == 0 && at && forks == atoi(at)) {
		prctl(PR_SET_NAME, "late");
		usleep(500 * 1000);
	}
	return process;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
							 struct timespec *out)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, out);
	long long nsec;

	if (rc == 0 && clock == CLOCK_MONOTONIC && getenv("MUTE_HURRY")) {
		nsec = (out->tv_sec * 1000000000LL + out->tv_nsec) * 5;
		out->tv_sec = (time_t)(nsec / 1000000000);
		out->tv_nsec = (long)(nsec % 1000000000);
	}
	return rc;
}

__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t n,
						int msec)
{
	if (msec > 0 && getenv("MUTE_HURRY"))
		msec = msec / 5 + 1;
	return (int)syscall(SYS_poll, fds, n, msec);
}

__attribute__((visibility("default"))) FILE *fopen(const char *path,
						   const char *mode)
{
	FILE *(*real)(const char *, const char *) =
		(FILE * (*)(const char *, const char *))
			dlsym(RTLD_NEXT, "fopen");
	const char *at = getenv("MUTE_TABLE");
	static int tables;

	if (at && strstr(path, "/mountinfo") && ++tables == atoi(at)) {
		errno = EACCES;
		return NULL;
	}
	return real(path, mode);
}
