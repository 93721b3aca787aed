/* SPDX-License-Identifier: MIT */
/*
 * sys: the system calls on a checkpoint's files, time and threads, and the
 * guard that turns a SIGBUS on a truncated mapping into -EIO. The state of the
 * guard belongs to the thread; the signal handler belongs to the process.
 */
#include "ckptfs/base.h"
#include "read_upto.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A path of more than CLIMB_MAX directories cannot exist. */
enum { PATH_BYTES = 4095, OPEN_TRIES = 64, CLIMB_MAX = 4096 };

ssize_t ck_pread_upto(int fd, void *buf, size_t len, uint64_t fpos)
{
	char *p = buf;
	size_t done = 0;

	if (fpos > INT64_MAX || len > INT64_MAX - fpos)
		return 0;
	while (done < len) {
		ssize_t n = pread(fd, p + done, len - done,
				  (off_t)(fpos + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int ck_pread_full(int fd, void *buf, size_t len, uint64_t fpos)
{
	ssize_t n = ck_pread_upto(fd, buf, len, fpos);

	if (n < 0)
		return (int)n;
	return (size_t)n < len ? -ENODATA : 0;
}

/* Writes at fpos, or at the position of the descriptor if fpos is negative. */
static int write_all(int fd, const char *p, size_t len, off_t fpos)
{
	while (len) {
		ssize_t n = fpos < 0 ? write(fd, p, len)
				     : pwrite(fd, p, len, fpos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
		fpos += fpos < 0 ? 0 : n;
	}
	return 0;
}

ssize_t ck_pwrite_upto(int fd, const void *buf, size_t len, uint64_t fpos,
		       int flags)
{
	struct iovec left;
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		left = (struct iovec){ (void *)((uintptr_t)buf + done),
				       len - done };
		n = pwritev2(fd, &left, 1, (off_t)(fpos + done), flags);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && done == 0)
			return -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int ck_read_all(int fd, size_t most, struct ck_buf *out)
{
	size_t before = out->len;
	char bytes[2048];
	ssize_t n = 0;

	while (out->len - before <= most && out->err == 0 &&
	       ((n = read(fd, bytes, sizeof(bytes))) > 0 ||
		(n < 0 && errno == EINTR)))
		ck_buf_add(out, bytes, n < 0 ? 0 : (size_t)n);
	if (n < 0)
		return -errno;
	if (out->err)
		return out->err;
	return out->len - before > most ? -EFBIG : 0;
}

int ck_write_full(int fd, const void *buf, size_t len)
{
	return write_all(fd, buf, len, -1);
}

int ck_pwrite_full(int fd, const void *buf, size_t len, uint64_t fpos)
{
	if (fpos > INT64_MAX || len > INT64_MAX - fpos)
		return -EFBIG;
	return write_all(fd, buf, len, (off_t)fpos);
}

struct timespec ck_time_in(clockid_t clock, unsigned msec)
{
	struct timespec at;

	clock_gettime(clock, &at);
	at.tv_sec += msec / 1000;
	at.tv_nsec += msec % 1000 * 1000000L;
	at.tv_sec += at.tv_nsec / 1000000000L;
	at.tv_nsec %= 1000000000L;
	return at;
}

uint64_t ck_msec_now(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int ck_thread_start(pthread_t *out, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	rc = pthread_create(out, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

int ck_random_hex(char out[static 17])
{
	uint64_t value;

	for (;;) {
		ssize_t n = getrandom(&value, sizeof(value), 0);

		if (n == sizeof(value))
			break;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	snprintf(out, 17, "%016jx", (uintmax_t)value);
	return 0;
}

/* True if a component of the path is "..". */
static bool climbs(struct ck_str path)
{
	for (size_t i = 0; i < path.len;) {
		const char *slash = memchr(path.p + i, '/', path.len - i);
		size_t end = slash ? (size_t)(slash - path.p) : path.len;
		struct ck_str part = { path.p + i, end - i };

		if (ck_str_is(part, ".."))
			return true;
		i = end + 1;
	}
	return false;
}

int ck_open_beneath(int dirfd, struct ck_str path, int flags,
		    enum ck_beneath how)
{
	struct open_how open_how = {
		.flags = (unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};
	ck_auto_free char *text = NULL;
	long fd = -1;

	if (path.len == 0 || path.len > PATH_BYTES || path.p[0] == '/' ||
	    memchr(path.p, '\0', path.len) || climbs(path))
		return -EPERM;
	text = strndup(path.p, path.len);
	if (!text)
		return -ENOMEM;
	if (how == CK_BENEATH_NO_SYMLINKS)
		open_how.resolve |= RESOLVE_NO_SYMLINKS;
	/* EAGAIN: a concurrent rename, or a lease on the file, which may last a
	 * minute. */
	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		fd = syscall(SYS_openat2, dirfd, text, &open_how,
			     sizeof(open_how));
		if (fd >= 0 || (errno != EINTR && errno != EAGAIN))
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

int ck_open_again(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int ck_open_unnamed(int dirfd)
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool ck_lies_in(int fd, const struct stat *what)
{
	struct stat at, above;
	bool found = fstat(fd, &at) == 0 && same(&at, what);

	for (int i = 0; i < CLIMB_MAX && !found; i++) {
		int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (up < 0)
			break;
		close(fd);
		fd = up;
		if (fstat(fd, &above) || same(&above, &at))
			break;
		at = above;
		found = same(&at, what);
	}
	close(fd);
	return found;
}

/* --- SIGBUS ------------------------------------------------------------- */

static _Thread_local sigjmp_buf guard_exit;
static _Thread_local volatile sig_atomic_t guard_on;

static struct sigaction before; /* the action that on_sigbus() replaced */

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t this;

	if (guard_on) {
		/* The jump does not restore the signal mask, because saving it
		 * at each guard would cost a system call. */
		sigemptyset(&this);
		sigaddset(&this, number);
		pthread_sigmask(SIG_UNBLOCK, &this, NULL);
		siglongjmp(guard_exit, 1);
	}
	/* Not in a guarded copy: as without this handler. */
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(number, info, context);
	} else if (before.sa_handler == SIG_DFL ||
		   before.sa_handler == SIG_IGN) {
		sigaction(number, &dfl, NULL);
		raise(number);
	} else {
		before.sa_handler(number);
	}
}

int ck_sigbus_install(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct sigaction act = { .sa_sigaction = on_sigbus,
				 .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct sigaction now;
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (sigaction(SIGBUS, NULL, &now))
		rc = -errno;
	else if (!(now.sa_flags & SA_SIGINFO) ||
		 now.sa_sigaction != on_sigbus) {
		before = now;
		rc = sigaction(SIGBUS, &act, NULL) ? -errno : 0;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

int ck_sigbus_guard(void (*copy)(void *arg), void *arg)
{
	if (sigsetjmp(guard_exit, 0)) {
		guard_on = 0;
		return -EIO;
	}
	guard_on = 1;
	copy(arg);
	guard_on = 0;
	return 0;
}
