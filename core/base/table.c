/* SPDX-License-Identifier: MIT */
/*
 * table: an open-addressing hash table of numbers, at most half full, which
 * grows by four. The seed is chosen at the first growth. table.h states the
 * rules for threads.
 */
#include "ckptfs/table.h"

#include <errno.h>

enum { FIRST = 64 };

static uint32_t *slot_of(const struct ck_table *t, struct ck_str text)
{
	size_t i = ck_hash64_seeded(text, t->seed) & (t->n - 1);

	while (t->slots[i] && !ck_str_eq(text, t->key(t->arg, t->slots[i] - 1)))
		i = (i + 1) & (t->n - 1);
	return &t->slots[i];
}

/* Grows the table if one more entry would make it more than half full. */
static int grow(struct ck_table *t)
{
	struct ck_table wide = *t;

	if (2 * (t->used + 1) <= t->n)
		return 0;
	if (t->n == 0)
		wide.seed = ck_hash_seed();
	wide.n = t->n ? 4 * t->n : FIRST;
	wide.slots = calloc(wide.n, sizeof(*wide.slots));
	if (!wide.slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		if (t->slots[i])
			*slot_of(&wide,
				 t->key(t->arg, t->slots[i] - 1)) = t->slots[i];
	free(t->slots);
	*t = wide;
	return 0;
}

int64_t ck_table_find(const struct ck_table *t, struct ck_str text)
{
	return t->n ? (int64_t)*slot_of(t, text) - 1 : -1;
}

int ck_table_add(struct ck_table *t, struct ck_str text, uint32_t number,
		 uint32_t *out)
{
	int rc = grow(t);
	uint32_t *slot;

	if (rc)
		return rc;
	slot = slot_of(t, text);
	if (!*slot) {
		*slot = number + 1;
		t->used++;
	}
	*out = *slot - 1;
	return 0;
}

void ck_table_fini(struct ck_table *t)
{
	free(t->slots);
	t->slots = NULL;
	t->n = t->used = 0;
}

/* --- texts ------------------------------------------------------------------------- */

static struct ck_str text_of(const void *arg, uint32_t number)
{
	const struct ck_texts *t = arg;

	return t->all[number];
}

int ck_texts_add(struct ck_texts *t, struct ck_str text, bool copy,
		 uint32_t *number)
{
	int64_t found = ck_table_find(&t->table, text);
	struct ck_str *all;

	*number = (uint32_t)found;
	if (found >= 0)
		return 0;
	all = ck_grow(t->all, &t->cap, t->n, 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	t->all = all;
	all[t->n] = copy ? ck_arena_copy(&t->copies, text) : text;
	if (copy && !all[t->n].p)
		return -ENOMEM;
	t->table.key = text_of;
	t->table.arg = t;
	t->n++;
	return ck_table_add(&t->table, all[t->n - 1], t->n - 1, number);
}

void ck_texts_fini(struct ck_texts *t)
{
	ck_table_fini(&t->table);
	ck_arena_fini(&t->copies);
	free(t->all);
}
