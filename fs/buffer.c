/* SPDX-License-Identifier: MIT */
/*
 * buffer: where the bytes of a reply are put together. Each thread that answers
 * reads keeps one, so that a read costs no system call for memory and no page
 * faults on fresh pages.
 */
#include "internal.h"

struct buffer {
	void *bytes;
	size_t len;
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_err;

static void buffer_free(void *p)
{
	struct buffer *b = p;

	ck_pages_free(b->bytes, b->len);
	free(b);
}

static void make_key(void)
{
	key_err = pthread_key_create(&key, buffer_free);
}

/* This thread's; NULL: out of memory. */
static struct buffer *buffer_get(void)
{
	struct buffer *b;

	if (pthread_once(&once, make_key) || key_err)
		return NULL;
	b = pthread_getspecific(key);
	if (b)
		return b;
	b = calloc(1, sizeof(*b));
	if (b && pthread_setspecific(key, b)) {
		free(b);
		return NULL;
	}
	return b;
}

void *ck_reply_buffer(size_t len)
{
	struct buffer *b = buffer_get();

	if (!b)
		return NULL;
	if (b->bytes && b->len >= len)
		return b->bytes;
	ck_pages_free(b->bytes, b->len);
	b->bytes = ck_pages_alloc(len);
	b->len = b->bytes ? len : 0;
	return b->bytes;
}
