/* SPDX-License-Identifier: MIT */
/*
 * export_slab: ranges of slabs (export.h), found by first fit. Callers hold
 * ck_exports.lock.
 */
#include "export.h"

#include <errno.h>

static uint32_t units_of(uint64_t bytes)
{
	return (uint32_t)((bytes + CK_SLAB_UNIT - 1) / CK_SLAB_UNIT);
}

static bool is_taken(const struct ck_slab *s, uint32_t unit)
{
	return s->taken[unit / 64] >> unit % 64 & 1;
}

/* Inverts the bits of a range, which is all taken or all free. */
static void turn(struct ck_slab *s, uint32_t unit, uint32_t n)
{
	for (; n; unit++, n--)
		s->taken[unit / 64] ^= (uint64_t)1 << unit % 64;
}

/* Finds the first free range of n units. Returns false if no range is long enough. */
static bool find_place(const struct ck_slab *s, uint32_t n, uint32_t *place)
{
	uint32_t there = 0;

	if (n > CK_SLAB_UNITS - s->used)
		return false;
	for (uint32_t i = 0; i < CK_SLAB_UNITS && there < n; i++) {
		there = is_taken(s, i) ? 0 : there + 1;
		*place = i + 1 - there;
	}
	return there == n;
}

static void take(struct ck_slab *s, uint32_t place, uint32_t n,
		 struct ck_export *e)
{
	turn(s, place, n);
	s->used += n;
	s->users++;
	e->slab = s;
	e->memory = s->memory;
	e->at = (uint64_t)place * CK_SLAB_UNIT;
	e->room = (uint64_t)n * CK_SLAB_UNIT;
}

bool ck_slab_take(struct ck_slab *first, struct ck_gather_engine *g,
		  struct ck_export *e)
{
	uint32_t n = units_of(e->bytes), place = 0;

	for (struct ck_slab *s = first; s; s = s->next) {
		if (memcmp(s->uuid, e->uuid, sizeof(s->uuid)) != 0 ||
		    !find_place(s, n, &place) || !g->holds(g, s->memory))
			continue;
		take(s, place, n, e);
		return true;
	}
	return false;
}

int ck_slab_add(struct ck_slab **first, struct ck_gather_memory *memory,
		struct ck_export *e)
{
	struct ck_slab *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->memory = memory;
	memcpy(s->uuid, e->uuid, sizeof(s->uuid));
	s->next = *first;
	*first = s;
	take(s, 0, units_of(e->bytes), e);
	return 0;
}

struct ck_gather_memory *ck_slab_put(struct ck_slab **first,
				     const struct ck_export *e, bool spoiled)
{
	struct ck_gather_memory *memory = e->memory;
	struct ck_slab *s = e->slab;
	uint32_t n = units_of(e->bytes);

	if (!spoiled)
		turn(s, (uint32_t)(e->at / CK_SLAB_UNIT), n);
	s->used -= n;
	if (s->used)
		return NULL;
	while (*first != s)
		first = &(*first)->next;
	*first = s->next;
	free(s);
	return memory;
}
