/* SPDX-License-Identifier: MIT */
/*
 * memory: whole pages, and what a thread keeps for itself until it ends, so that
 * what it does again and again costs no system call for memory and no page
 * faults on fresh pages. A part of base.
 */
#ifndef CKPTFS_MEMORY_H
#define CKPTFS_MEMORY_H

#include <stddef.h>

/* Anonymous zeroed memory in whole pages, huge ones where the kernel likes.
 * NULL when out of memory. ck_pages_free(NULL, 0) is allowed. */
void *ck_pages_alloc(size_t len);
void ck_pages_free(void *p, size_t len);
/* The same wish for memory of malloc(), before it is touched. NULL is allowed. */
void ck_pages_wish(void *p, size_t len);

/* Such memory that is made larger when more is needed. Zero-initialise. */
struct ck_pages {
	void *bytes; /* owned */
	size_t len;
};

/* At least len bytes of any content: what was there may be lost. Valid until it
 * is called again. NULL when out of memory. */
void *ck_pages_reserve(struct ck_pages *p, size_t len);
void ck_pages_fini(struct ck_pages *p);

/* Zeroed memory for the calling thread alone. When the thread ends, fini() has
 * to free what the memory owns, and then it is freed. NULL when out of memory.
 * Meant to be asked for once, and kept in a _Thread_local variable. */
void *ck_thread_keep(size_t size, void (*fini)(void *kept));

#endif
