/* SPDX-License-Identifier: MIT */
/*
 * taken: how much memory the libraries take. The linker hands their calls to this file
 * (--wrap, tests/unit/meson.build has the list); what libc takes for itself does not
 * count.
 */
#ifndef CK_TAKEN_H
#define CK_TAKEN_H

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
	bool on;
	size_t total;	   /* bytes asked for */
	int64_t now, most; /* bytes in use, more than when it began */
	unsigned
		fails; /* the so-manieth call from now on has none; 0: all have */
} taken;

/* Whether this call is the one that fails. */
static inline bool taken_fails(void)
{
	return taken.on && taken.fails && --taken.fails == 0;
}

static inline void taken_begin(void)
{
	taken.fails = 0;
	taken.total = 0;
	taken.now = taken.most = 0;
	taken.on = true;
}

static inline void taken_note(void *p, size_t asked)
{
	if (!taken.on || !p)
		return;
	taken.total += asked;
	taken.now += (int64_t)malloc_usable_size(p);
	if (taken.now > taken.most)
		taken.most = taken.now;
}

static inline void taken_back(void *p)
{
	if (taken.on && p)
		taken.now -= (int64_t)malloc_usable_size(p);
}

#define TAKEN(type, name, ...)                                                 \
	type __real_##name(__VA_ARGS__);                                       \
	type __wrap_##name(__VA_ARGS__);                                       \
	type __wrap_##name(__VA_ARGS__)

TAKEN(void *, malloc, size_t len)
{
	void *p = taken_fails() ? NULL : __real_malloc(len);

	taken_note(p, len);
	return p;
}

TAKEN(void *, calloc, size_t n, size_t len)
{
	void *p = taken_fails() ? NULL : __real_calloc(n, len);

	taken_note(p, n * len);
	return p;
}

TAKEN(void *, realloc, void *old, size_t len)
{
	void *p;

	if (taken_fails())
		return NULL;
	taken_back(old);
	p = __real_realloc(old, len);
	taken_note(p, len);
	return p;
}

TAKEN(void *, reallocarray, void *old, size_t n, size_t len)
{
	void *p;

	if (taken_fails())
		return NULL;
	taken_back(old);
	p = __real_reallocarray(old, n, len);
	taken_note(p, n * len);
	return p;
}

TAKEN(void *, aligned_alloc, size_t at, size_t len)
{
	void *p = taken_fails() ? NULL : __real_aligned_alloc(at, len);

	taken_note(p, len);
	return p;
}

TAKEN(char *, strndup, const char *text, size_t len)
{
	char *p = taken_fails() ? NULL : __real_strndup(text, len);

	taken_note(p, len);
	return p;
}

TAKEN(void, free, void *p)
{
	taken_back(p);
	__real_free(p);
}

#endif
