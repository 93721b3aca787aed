/* SPDX-License-Identifier: MIT */
/*
 * shortage: the n-th call of a kind fails, once or from then on. The linker
 * hands the calls of the libraries to this file (--wrap, tests/unit/meson.build
 * has the list); the code under test does not know.
 *
 *	trap_arm(MEMORY, 3, false);
 *	rc = ck_thing(...);		its fourth allocation fails
 *	trap.on = false;
 *	ok(rc == -ENOMEM || !trap.fired);
 */
#ifndef CK_SHORTAGE_H
#define CK_SHORTAGE_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum what { MEMORY, DESCRIPTORS, READS };

static struct {
	bool on, fired, for_good; /* for_good: all that follow fail too */
	enum what what;
	unsigned left; /* calls that succeed first */
} trap;

static const char *const what_names[] = { "memory", "descriptors", "reads" };

static bool fails(enum what what, int err)
{
	if (!trap.on || trap.what != what)
		return false;
	if (trap.fired && !trap.for_good)
		return false;
	if (!trap.fired && trap.left > 0 && trap.left--)
		return false;
	trap.fired = true;
	errno = err;
	return true;
}

#define REAL(type, name, ...)                                                  \
	type __real_##name(__VA_ARGS__);                                       \
	type __wrap_##name(__VA_ARGS__)

REAL(void *, malloc, size_t size);
REAL(void *, calloc, size_t n, size_t size);
REAL(void *, realloc, void *p, size_t size);
REAL(void *, reallocarray, void *p, size_t n, size_t size);
REAL(char *, strndup, const char *text, size_t len);
REAL(char *, realpath, const char *path, char *out);
REAL(void *, mmap64, void *at, size_t len, int prot, int flags, int fd,
     off_t pos);
REAL(ssize_t, pread64, int fd, void *buf, size_t len, off_t pos);
REAL(int, fstat64, int fd, struct stat *st);
REAL(int, open64, const char *path, int flags, ...);
REAL(long, syscall, long number, ...);

void *__wrap_malloc(size_t size)
{
	return fails(MEMORY, ENOMEM) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails(MEMORY, ENOMEM) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails(MEMORY, ENOMEM) ? NULL : __real_realloc(p, size);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return fails(MEMORY, ENOMEM) ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strndup(const char *text, size_t len)
{
	return fails(MEMORY, ENOMEM) ? NULL : __real_strndup(text, len);
}

char *__wrap_realpath(const char *path, char *out)
{
	return fails(MEMORY, ENOMEM) ? NULL : __real_realpath(path, out);
}

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd,
		    off_t pos)
{
	if (fails(MEMORY, ENOMEM))
		return MAP_FAILED;
	return __real_mmap64(at, len, prot, flags, fd, pos);
}

ssize_t __wrap_pread64(int fd, void *buf, size_t len, off_t pos)
{
	return fails(READS, EIO) ? -1 : __real_pread64(fd, buf, len, pos);
}

int __wrap_fstat64(int fd, struct stat *st)
{
	return fails(READS, EIO) ? -1 : __real_fstat64(fd, st);
}

int __wrap_open64(const char *path, int flags, ...)
{
	return fails(DESCRIPTORS, EMFILE) ? -1 : __real_open64(path, flags);
}

/* openat2() only. */
long __wrap_syscall(long number, ...)
{
	long a[4];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_openat2 && fails(DESCRIPTORS, EMFILE))
		return -1;
	return __real_syscall(number, a[0], a[1], a[2], a[3]);
}

/* Call n of the kind fails, counted from 0. */
static void trap_arm(enum what what, unsigned n, bool for_good)
{
	trap.what = what;
	trap.left = n;
	trap.for_good = for_good;
	trap.fired = false;
	trap.on = true;
}

#endif
