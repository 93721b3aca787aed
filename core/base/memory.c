/* SPDX-License-Identifier: MIT */
/*
 * memory: pages from the kernel, and memory that is freed when its thread ends,
 * which a _Thread_local variable alone cannot do: a pthread key has the list of
 * such memory of each thread. Any thread; a struct ck_pages has one user at a
 * time.
 */
#include "ckptfs/memory.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- pages ------------------------------------------------------------------ */

void *ck_pages_alloc(size_t len)
{
	void *p = mmap(NULL, len ? len : 1, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, len, MADV_HUGEPAGE); /* a hint; may fail */
	return p;
}

void ck_pages_free(void *p, size_t len)
{
	if (p)
		munmap(p, len ? len : 1);
}

void ck_pages_wish(void *p, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t before = (page - (uintptr_t)p % page) % page;

	if (p && len > before)
		(void)madvise((char *)p + before, (len - before) / page * page,
			      MADV_HUGEPAGE);
}

void *ck_pages_reserve(struct ck_pages *p, size_t len)
{
	if (p->bytes && p->len >= len)
		return p->bytes;
	ck_pages_fini(p);
	p->bytes = ck_pages_alloc(len);
	p->len = p->bytes ? len : 0;
	return p->bytes;
}

void ck_pages_fini(struct ck_pages *p)
{
	ck_pages_free(p->bytes, p->len);
	*p = (struct ck_pages){ 0 };
}

/* --- memory of a thread ----------------------------------------------------- */

struct kept {
	struct kept *next;
	void (*fini)(void *memory);
	alignas(max_align_t) unsigned char memory[];
};

static pthread_key_t key; /* list of the thread's struct kept */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_err;

static void free_all(void *list)
{
	struct kept *k, *next;

	for (k = list; k; k = next) {
		next = k->next;
		k->fini(k->memory);
		free(k);
	}
}

static void make_key(void)
{
	key_err = pthread_key_create(&key, free_all);
}

void *ck_thread_keep(size_t size, void (*fini)(void *kept))
{
	struct kept *k;

	if (pthread_once(&once, make_key) || key_err)
		return NULL;
	k = calloc(1, sizeof(*k) + size);
	if (!k)
		return NULL;
	k->fini = fini;
	k->next = pthread_getspecific(key);
	if (pthread_setspecific(key, k)) {
		free(k);
		return NULL;
	}
	return k->memory;
}
