/* SPDX-License-Identifier: MIT */
/*
 * arena: a list of blocks that double in size up to 1 MiB and are freed
 * together. An object larger than a block gets a separate block behind the
 * head, so that the rest of the head stays in use. ck_grow() and ck_trim()
 * resize flat arrays. An arena and an array have one user at a time.
 */
#include "ckptfs/base.h"

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct ck_arena_block {
	struct ck_arena_block *next;
	size_t size; /* of data */
	_Alignas(8) char data[];
};

static struct ck_arena_block *block_make(struct ck_arena *a, size_t size)
{
	struct ck_arena_block *block;
	size_t bytes;

	if (__builtin_add_overflow(size, sizeof(*block), &bytes))
		return NULL;
	block = malloc(bytes);
	if (!block)
		return NULL;
	block->size = size;
	a->total += bytes;
	return block;
}

static void *alloc_apart(struct ck_arena *a, size_t size)
{
	struct ck_arena_block *block = block_make(a, size);

	if (!block)
		return NULL;
	block->next = a->head->next;
	a->head->next = block;
	return block->data;
}

static bool grow(struct ck_arena *a)
{
	size_t size = FIRST_BLOCK;
	struct ck_arena_block *block;

	if (a->head)
		size = ck_min(a->head->size * 2, LARGEST_BLOCK);
	block = block_make(a, size);
	if (!block)
		return false;
	block->next = a->head;
	a->head = block;
	a->left = size;
	return true;
}

void *ck_arena_alloc(struct ck_arena *a, size_t size)
{
	void *p;

	if (__builtin_add_overflow(size, (size_t)7, &size))
		return NULL;
	size &= ~(size_t)7;
	if (!a->head && !grow(a))
		return NULL;
	if (size > a->left && size > a->head->size / 4)
		return alloc_apart(a, size);
	if (size > a->left && !grow(a))
		return NULL;
	p = a->head->data + (a->head->size - a->left);
	a->left -= size;
	return p;
}

struct ck_str ck_arena_copy(struct ck_arena *a, struct ck_str s)
{
	char *copy = ck_arena_alloc(a, s.len + 1);

	if (!copy)
		return (struct ck_str){ NULL, 0 };
	if (s.len)
		memcpy(copy, s.p, s.len);
	copy[s.len] = '\0';
	return (struct ck_str){ copy, s.len };
}

void ck_arena_fini(struct ck_arena *a)
{
	struct ck_arena_block *next;

	for (struct ck_arena_block *b = a->head; b; b = next) {
		next = b->next;
		free(b);
	}
	*a = (struct ck_arena){ 0 };
}

void *ck_grow(void *array, size_t *cap, size_t used, size_t more, size_t size)
{
	size_t want = *cap ? *cap : 16;
	size_t bytes;
	void *p;

	if (array && *cap - used >= more)
		return array;
	while (want - used < more)
		if (__builtin_mul_overflow(want, 2, &want))
			return NULL;
	if (__builtin_mul_overflow(want, size, &bytes))
		return NULL;
	p = realloc(array, bytes);
	if (p)
		*cap = want;
	return p;
}

void *ck_trim(void *array, size_t count, size_t size)
{
	void *p = count ? realloc(array, count * size) : NULL;

	return p ? p : array;
}
