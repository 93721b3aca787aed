/* SPDX-License-Identifier: MIT */
/*
 * payload_alloc: an array of the requests in flight, searched linearly (some
 * hundreds at most), and a byte per block of the shared memory. No thread of
 * its own; the lock of the link guards it.
 */
#include "payload_alloc.h"

#include <errno.h>

int ck_payload_alloc_make(struct ck_payload_alloc *r, uint64_t size)
{
	*r = (struct ck_payload_alloc){ .nblocks = (uint32_t)(size /
							      CK_ROOM_BLOCK) };
	r->taken = calloc(r->nblocks + 1UL, 1);
	return r->taken ? 0 : -ENOMEM;
}

void ck_payload_alloc_fini(struct ck_payload_alloc *r)
{
	free(r->taken);
	free(r->list);
	*r = (struct ck_payload_alloc){ 0 };
}

/* Returns the first of n adjacent free blocks, or nblocks if there is no such
 * run. */
static uint32_t blocks_find(const struct ck_payload_alloc *r, uint32_t n)
{
	uint32_t run = 0;

	if (n == 0)
		return 0;
	for (uint32_t i = 0; i < r->nblocks; i++) {
		run = r->taken[i] ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	return r->nblocks;
}

int ck_payload_alloc_take(struct ck_payload_alloc *r, uint32_t peer,
			  uint64_t id, uint32_t body, uint64_t bytes,
			  uint64_t *place)
{
	uint64_t n = (bytes + CK_ROOM_BLOCK - 1) / CK_ROOM_BLOCK;
	struct ck_payload_room *list;
	uint32_t first;

	if (n > r->nblocks)
		return -EAGAIN;
	first = blocks_find(r, (uint32_t)n);
	if (n && first == r->nblocks)
		return -EAGAIN;
	list = ck_grow(r->list, &r->cap, r->n, 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	r->list = list;
	list[r->n++] = (struct ck_payload_room){ id, peer, first, (uint32_t)n,
						 body };
	memset(r->taken + first, 1, n);
	*place = (uint64_t)first * CK_ROOM_BLOCK;
	return 0;
}

static size_t index_of(const struct ck_payload_alloc *r, uint32_t peer,
		       uint64_t id)
{
	size_t i = 0;

	while (i < r->n && (r->list[i].id != id || r->list[i].peer != peer))
		i++;
	return i;
}

bool ck_payload_alloc_find(const struct ck_payload_alloc *r, uint32_t peer,
			   uint64_t id, uint64_t *place, uint64_t *bytes)
{
	size_t i = index_of(r, peer, id);

	if (i == r->n || r->list[i].n == 0)
		return false;
	*place = (uint64_t)r->list[i].first * CK_ROOM_BLOCK;
	*bytes = (uint64_t)r->list[i].n * CK_ROOM_BLOCK;
	return true;
}

static void give(struct ck_payload_alloc *r, size_t i)
{
	memset(r->taken + r->list[i].first, 0, r->list[i].n);
	r->list[i] = r->list[--r->n];
}

void ck_payload_alloc_give(struct ck_payload_alloc *r, uint32_t peer,
			   uint64_t id)
{
	size_t i = index_of(r, peer, id);

	if (i < r->n)
		give(r, i);
}

void ck_payload_alloc_give_all(struct ck_payload_alloc *r, uint32_t peer)
{
	for (size_t i = r->n; i > 0 && i--;)
		if (r->list[i].peer == peer)
			give(r, i);
}

struct ck_payload_alloc_sum ck_payload_alloc_of(
	const struct ck_payload_alloc *r, uint32_t peer)
{
	struct ck_payload_alloc_sum sum = { 0 };

	for (size_t i = 0; i < r->n; i++) {
		const struct ck_payload_room *row = &r->list[i];

		if (row->peer != peer)
			continue;
		sum.requests++;
		sum.bodies += row->body;
		sum.bytes += (uint64_t)row->n * CK_ROOM_BLOCK;
	}
	return sum;
}
