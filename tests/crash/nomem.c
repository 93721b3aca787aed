/* SPDX-License-Identifier: MIT */
/*
 * nomem: an LD_PRELOAD library that makes the n-th allocation of a program
 * fail. The file in CRASH_NOMEM has the settings and the count. The harness
 * maps it, too, so that it can start and count in a daemon that runs already.
 * Without that variable no allocation fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* The file. */
struct orders {
	_Atomic uint64_t armed; /* 0: allocations are not counted */
	_Atomic uint64_t count; /* allocations since then */
	_Atomic uint64_t at;	/* the first failing one, or 0 */
	_Atomic uint64_t times; /* number of failing ones */
	_Atomic uint64_t hits;	/* number of those that have failed */
};

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static struct orders *orders;

/* Allocations of the loader, before this constructor, never fail. */
__attribute__((constructor)) static void open_orders(void)
{
	const char *path = getenv("CRASH_NOMEM");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED,
		   fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		orders = map;
}

static bool fails(void)
{
	uint64_t n, at;

	if (!orders || !atomic_load(&orders->armed))
		return false;
	n = atomic_fetch_add(&orders->count, 1) + 1;
	at = atomic_load(&orders->at);
	if (at == 0 || n < at || n - at >= atomic_load(&orders->times))
		return false;
	atomic_fetch_add(&orders->hits, 1);
	errno = ENOMEM;
	return true;
}

EXPORT void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t size)
{
	return fails() ? NULL : __libc_realloc(p, size);
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : __libc_memalign(align, size);
}

EXPORT void *memalign(size_t align, size_t size)
{
	return fails() ? NULL : __libc_memalign(align, size);
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	void *p = fails() ? NULL : __libc_memalign(align, size);

	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}
