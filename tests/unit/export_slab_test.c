/* SPDX-License-Identifier: MIT */
/*
 * Slabs and the table of exports. Places of random sizes are taken and released: they do not
 * overlap, free ones are reused, and unused slabs are freed. Exports are found by their
 * slices, and idle ones by their age.
 */
#include "boxes.h"
#include "tap.h"

#include "gpu/export/export.h"

enum { N = 600, STEPS = 20000, SLABS = 64 };

static struct ck_gather_memory memories[SLABS];
static bool lost[SLABS], in_use[SLABS];

static bool holds(struct ck_gather_engine *g, const struct ck_gather_memory *m)
{
	(void)g;
	return !lost[m - memories];
}

static struct ck_gather_engine gather_engine = { .holds = holds };

struct world {
	struct ck_slab *slabs;
	struct ck_export list[N];
	bool there[N];
	unsigned wrong, made;
};

static bool overlap(const struct ck_export *a, const struct ck_export *b)
{
	return a->memory == b->memory && a->at < b->at + b->bytes &&
	       b->at < a->at + a->bytes;
}

static unsigned check_place(const struct world *w, unsigned i)
{
	const struct ck_export *e = &w->list[i];
	unsigned wrong = e->at % 256 != 0 || e->at + e->bytes > CK_SLAB ||
			 e->room < e->bytes;

	for (unsigned k = 0; k < N; k++)
		wrong += k != i && w->there[k] && overlap(e, &w->list[k]);
	return wrong;
}

static struct ck_gather_memory *memory_new(void)
{
	unsigned i = 0;

	while (i < SLABS && in_use[i])
		i++;
	if (i == SLABS)
		return NULL;
	in_use[i] = true;
	lost[i] = false;
	return &memories[i];
}

static void place(struct world *w, unsigned i, uint64_t bytes, char device)
{
	struct ck_export *e = &w->list[i];
	struct ck_gather_memory *memory;

	*e = (struct ck_export){ .bytes = bytes, .uuid = { (uint8_t)device } };
	if (!ck_slab_take(w->slabs, &gather_engine, e)) {
		memory = memory_new();
		if (!memory)
			return;
		w->made++;
		w->wrong += ck_slab_add(&w->slabs, memory, e) != 0;
	}
	w->there[i] = true;
	w->wrong += check_place(w, i) + e->slab->uuid[0] - (uint8_t)device;
}

static void leave(struct world *w, unsigned i)
{
	struct ck_gather_memory *unused;

	w->list[i].slab->users--;
	unused = ck_slab_put(&w->slabs, &w->list[i], false);

	w->there[i] = false;
	w->wrong += unused && unused != w->list[i].memory;
	for (unsigned k = 0; k < N && unused; k++)
		w->wrong += w->there[k] && w->list[k].memory == unused;
	if (unused)
		in_use[unused - memories] = false;
}

static unsigned used(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SLABS; i++)
		n += in_use[i];
	return n;
}

static void test_places(void)
{
	static struct world w;
	uint64_t random = tap_seed(11);

	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)boxes_below(&random, N);
		uint64_t most = boxes_one_in(&random, 8) ? CK_SLAB_MOST : 9000;

		if (w.there[i])
			leave(&w, i);
		else
			place(&w, i, 1 + boxes_below(&random, most),
			      (char)('a' + i % 2));
		if (boxes_one_in(&random, 2000)) /* the worker process ends */
			memset(lost, 1, sizeof(lost));
	}
	for (unsigned i = 0; i < N; i++)
		if (w.there[i])
			leave(&w, i);
	eq_u64(w.wrong, 0);
	eq_u64(used(), 0);
	ok(!w.slabs);
	ok(w.made > 10);
}

/* Places are taken one after the other, without gaps. */
static void test_full(void)
{
	static struct world w;

	for (unsigned i = 0; i < CK_SLAB_UNITS; i++)
		place(&w, i, CK_SLAB_UNIT, 'a');
	eq_u64(w.made, 1);
	place(&w, CK_SLAB_UNITS, 1, 'a');
	eq_u64(w.made, 2);
	leave(&w, 7);
	place(&w, 7, CK_SLAB_UNIT, 'a');
	eq_u64(w.made, 2);
	eq_u64(w.wrong, 0);
}

/* A write to a released place is still in flight: the place is not reused. */
static void test_spoiled(void)
{
	static struct world w;
	uint64_t at;

	for (unsigned i = 0; i < 4; i++)
		place(&w, i, CK_SLAB_UNIT, 'a');
	at = w.list[1].at;
	w.list[1].slab->users--;
	w.there[1] = false;
	ok(!ck_slab_put(&w.slabs, &w.list[1], true));
	for (unsigned i = 4; i < CK_SLAB_UNITS; i++) {
		place(&w, i, CK_SLAB_UNIT, 'a');
		w.wrong += w.list[i].at == at;
	}
	eq_u64(w.made, 1);
	place(&w, 1, CK_SLAB_UNIT, 'a'); /* the slab has no other place */
	eq_u64(w.made, 2);
	eq_u64(w.wrong, 0);
	for (unsigned i = 0; i < CK_SLAB_UNITS; i++)
		leave(&w, i);
	ok(!w.slabs); /* the slab is freed nevertheless */
}

/* --- the table of exports --------------------------------------------------------------------- */

static bool is_found(const struct ck_export_table *t, const struct ck_export *e)
{
	const struct ck_export *at = ck_export_table_find(t, e->slice);

	while (at && at != e)
		at = at->next;
	return at;
}

static void test_table(void)
{
	static struct ck_export list[N];
	struct ck_export_table t;
	unsigned found = 0;

	eq_i64(ck_export_table_make(&t), 0);
	for (unsigned i = 0; i < N; i++) {
		list[i] = (struct ck_export){ .slice = i / 2 * 64, .room = i };
		ck_export_table_add(&t, &list[i]);
		if (i % 3 == 0)
			ck_export_table_idle(&t, &list[i]);
	}
	for (unsigned i = 0; i < N; i++)
		found += is_found(&t, &list[i]);
	eq_u64(found, N);
	ok(t.oldest == &list[0] && t.newest == &list[N / 3 * 3 - 3]);
	ck_export_table_use(&t, &list[0]);
	ck_export_table_remove(&t, &list[3]);
	ok(t.oldest == &list[6] && !is_found(&t, &list[3]));
	ck_export_table_idle(&t, &list[0]);
	ok(t.newest == &list[0]);
	for (unsigned i = 0; i < N; i++)
		if (i != 3)
			ck_export_table_remove(&t, &list[i]);
	ok(t.n == 0 && t.idle == 0 && !t.oldest && !t.newest);
	ck_export_table_fini(&t);
}

int main(void)
{
	test_places();
	test_full();
	test_spoiled();
	test_table();
	return tap_done();
}
