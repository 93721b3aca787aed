/* SPDX-License-Identifier: MIT */
/*
 * What a read or write needs besides the bytes of its caller is kept for each
 * thread, so that it costs no system call for memory and no page faults on fresh
 * pages.
 */
#include "scratch.h"
#include "load.h"

#include <errno.h>
#include <pthread.h>

enum { COPIES_KEPT = 8192 };

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_err;

static void scratch_free(void *p)
{
	struct ck_scratch *s = p;

	ck_plan_fini(&s->plan);
	ck_pages_free(s->filled, s->filled_len);
	free(s->used);
	free(s->from);
	free(s->where);
	free(s->block);
	free(s);
}

static void make_key(void)
{
	key_err = pthread_key_create(&key, scratch_free);
}

struct ck_scratch *ck_scratch_get(void)
{
	struct ck_scratch *s;

	if (pthread_once(&once, make_key) || key_err)
		return NULL;
	s = pthread_getspecific(key);
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (s && pthread_setspecific(key, s)) {
		free(s);
		return NULL;
	}
	return s;
}

static int reserve_from(struct ck_scratch *s, size_t n)
{
	const uint8_t **from;

	if (n <= s->from_cap)
		return 0;
	from = reallocarray(s->from, n, sizeof(*from));
	if (!from)
		return -ENOMEM;
	s->from = from;
	s->from_cap = n;
	return 0;
}

static int reserve_where(struct ck_scratch *s, size_t n)
{
	uint32_t *where;

	if (n <= s->where_cap)
		return 0;
	where = calloc(n, sizeof(*where));
	if (!where)
		return -ENOMEM;
	free(s->where);
	s->where = where;
	s->where_cap = n;
	return 0;
}

int ck_scratch_reserve(struct ck_scratch *s, size_t ncopies, size_t nfiles)
{
	int rc = reserve_from(s, ncopies);

	return rc ? rc : reserve_where(s, nfiles);
}

uint8_t *ck_scratch_block(struct ck_scratch *s)
{
	if (!s->block)
		s->block = malloc(CK_LOAD_BLOCK);
	return s->block;
}

void ck_scratch_trim(struct ck_scratch *s)
{
	if (s->plan.copies_cap <= COPIES_KEPT &&
	    s->plan.loops_cap <= COPIES_KEPT)
		return;
	ck_plan_fini(&s->plan);
	free(s->from);
	s->from = NULL;
	s->from_cap = 0;
}

void *ck_scratch_fill(struct ck_scratch *s, size_t len)
{
	if (s->filled && s->filled_len >= len)
		return s->filled;
	ck_pages_free(s->filled, s->filled_len);
	s->filled = ck_pages_alloc(len);
	s->filled_len = s->filled ? len : 0;
	return s->filled;
}
