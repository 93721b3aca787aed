/* SPDX-License-Identifier: MIT */
/*
 * export_table: a hash table of exports, chained in buckets (export.h). Callers hold
 * ck_exports.lock.
 */
#include "export.h"

#include <errno.h>

enum { FIRST = 64 }; /* buckets */

static struct ck_export **bucket_of(const struct ck_export_table *t,
				    uint64_t slice)
{
	uint64_t mixed;

	/* Numbers of slices follow each other in steps; the upper bits of this do not. */
	(void)__builtin_mul_overflow(slice, 0x9e3779b97f4a7c15U, &mixed);

	return &t->buckets[(mixed >> 32) & (t->cap - 1)];
}

int ck_export_table_make(struct ck_export_table *t)
{
	*t = (struct ck_export_table){ .cap = FIRST };
	t->buckets = calloc(FIRST, sizeof(struct ck_export *));
	return t->buckets ? 0 : -ENOMEM;
}

void ck_export_table_fini(struct ck_export_table *t)
{
	free(t->buckets);
	*t = (struct ck_export_table){ 0 };
}

static void push(struct ck_export_table *t, struct ck_export *e)
{
	struct ck_export **to = bucket_of(t, e->slice);

	e->next = *to;
	*to = e;
}

/* Without memory for more of them the chains become longer. */
static void grow(struct ck_export_table *t)
{
	struct ck_export **old = t->buckets;
	struct ck_export **new = calloc(2 * t->cap, sizeof(struct ck_export *));
	size_t n = t->cap;

	if (!new)
		return;
	t->buckets = new;
	t->cap = 2 * n;
	for (size_t i = 0; i < n; i++)
		while (old[i]) {
			struct ck_export *e = old[i];

			old[i] = e->next;
			push(t, e);
		}
	free(old);
}

void ck_export_table_add(struct ck_export_table *t, struct ck_export *e)
{
	if (t->n++ >= t->cap)
		grow(t);
	push(t, e);
}

void ck_export_table_remove(struct ck_export_table *t, struct ck_export *e)
{
	struct ck_export **at = bucket_of(t, e->slice);

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	t->n--;
	ck_export_table_use(t, e);
}

struct ck_export *ck_export_table_find(const struct ck_export_table *t,
				       uint64_t slice)
{
	return *bucket_of(t, slice);
}

void ck_export_table_idle(struct ck_export_table *t, struct ck_export *e)
{
	e->older = t->newest;
	e->newer = NULL;
	*(t->newest ? &t->newest->newer : &t->oldest) = e;
	t->newest = e;
	t->idle += e->room;
	e->idle = true;
}

void ck_export_table_use(struct ck_export_table *t, struct ck_export *e)
{
	if (!e->idle)
		return;
	*(e->older ? &e->older->newer : &t->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &t->newest) = e->older;
	t->idle -= e->room;
	e->idle = false;
}
