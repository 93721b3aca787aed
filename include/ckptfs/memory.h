/* SPDX-License-Identifier: MIT */
/*
 * memory: whole pages, and memory of one thread that lives until the thread
 * ends. Repeated work thus needs no system call for memory, and has no page
 * faults on fresh pages. A part of base.
 */
#ifndef CKPTFS_MEMORY_H
#define CKPTFS_MEMORY_H

#include <stddef.h>

/* Anonymous zeroed memory in whole pages, with a hint for huge pages. NULL when
 * out of memory. ck_pages_free(NULL, 0) is allowed. */
void *ck_pages_alloc(size_t len);
void ck_pages_free(void *p, size_t len);
/* The same hint for memory of malloc() that is not touched yet. NULL is
 * allowed. */
void ck_pages_wish(void *p, size_t len);

/* A scratch area of such pages that grows on demand. Zero-initialise. */
struct ck_pages {
	void *bytes; /* owned */
	size_t len;
};

/* At least len bytes of undefined content; the old content may be lost. Valid
 * until the next call. NULL when out of memory. */
void *ck_pages_reserve(struct ck_pages *p, size_t len);
void ck_pages_fini(struct ck_pages *p);

/* Zeroed memory of the calling thread. When the thread ends, fini() frees the
 * resources that the memory owns, and then the memory is freed. NULL when out
 * of memory. Call once, and store the result in a _Thread_local variable. */
void *ck_thread_keep(size_t size, void (*fini)(void *kept));

#endif
