/* SPDX-License-Identifier: MIT */
/*
 * rows: random changes of values that share rows, compared with plain arrays. Values are
 * derived from each other, and some are freed meanwhile. Each row holds a reference to a
 * counted object, and all objects are freed at the end.
 */
#include "base/rows.h"
#include "tap.h"

#include <pthread.h>

struct thing {
	uint32_t refs; /* atomic */
	uint64_t value;
};

struct row {
	uint64_t value;
	struct thing *own; /* NULL in rows of zeros */
};

static int64_t things; /* atomic: number of objects */

static struct thing *thing_make(uint64_t value)
{
	struct thing *t = malloc(sizeof(*t));

	*t = (struct thing){ 1, value };
	__atomic_fetch_add(&things, 1, __ATOMIC_RELAXED);
	return t;
}

static void hold(const void *row)
{
	const struct row *r = row;

	if (r->own)
		__atomic_fetch_add(&r->own->refs, 1, __ATOMIC_RELAXED);
}

static void drop(const void *row)
{
	const struct row *r = row;

	if (!r->own || __atomic_sub_fetch(&r->own->refs, 1, __ATOMIC_ACQ_REL))
		return;
	__atomic_fetch_sub(&things, 1, __ATOMIC_RELAXED);
	free(r->own);
}

static const struct ck_rows_type small = { sizeof(struct row), 1, hold, drop };
static const struct ck_rows_type plain = { sizeof(uint64_t), 6, NULL, NULL };

/* --- against plain arrays -------------------------------------------------- */

enum { VALUES = 6, ROWS = 5000, STEPS = 200000 };

/* A value and its expected content. */
struct pair {
	struct ck_rows rows;
	uint64_t *model; /* ROWS */
};

static bool row_is(const struct ck_rows *r, uint32_t i, uint64_t value)
{
	const struct row *row = ck_rows_at(r, i);

	return row->value == value && row->own->value == value;
}

static size_t wrong_rows(const struct pair *p)
{
	size_t wrong = 0;

	for (uint32_t i = 0; i < p->rows.n; i++)
		wrong += !row_is(&p->rows, i, p->model[i]);
	return wrong;
}

static int add(struct pair *p, uint64_t value)
{
	struct row row = { value, thing_make(value) };

	if (p->rows.n == ROWS) {
		drop(&row);
		return 0;
	}
	p->model[p->rows.n] = value;
	return ck_rows_add(&p->rows, &row);
}

static bool change(struct pair *p, uint32_t i, uint64_t value)
{
	struct row *row = ck_rows_edit(&p->rows, i);

	if (!row)
		return false;
	drop(row);
	*row = (struct row){ value, thing_make(value) };
	p->model[i] = value;
	return true;
}

/* Replaces one value by a share of another one. */
static void become(struct pair *to, const struct pair *from)
{
	if (to == from)
		return;
	ck_rows_fini(&to->rows);
	to->rows = ck_rows_share(&from->rows);
	memcpy(to->model, from->model, ROWS * sizeof(*to->model));
}

static void test_model(void)
{
	struct pair all[VALUES];
	uint64_t random = 1;
	size_t wrong = 0;

	for (size_t i = 0; i < VALUES; i++)
		all[i] = (struct pair){ { .type = &small },
					calloc(ROWS, sizeof(uint64_t)) };
	for (uint64_t step = 1; step <= STEPS; step++) {
		struct pair *p = &all[tap_random(&random) % VALUES];
		uint64_t what = tap_random(&random) % 100;

		if (what < 40 || p->rows.n == 0)
			wrong += add(p, step) != 0;
		else if (what < 98)
			wrong += !change(
				p, (uint32_t)(tap_random(&random) % p->rows.n),
				step);
		else
			become(p, &all[tap_random(&random) % VALUES]);
		if (step % 1000 == 0)
			for (size_t i = 0; i < VALUES; i++)
				wrong += wrong_rows(&all[i]);
	}
	eq_u64(wrong, 0);
	ok(things > 0);
	for (size_t i = 0; i < VALUES; i++) {
		ck_rows_fini(&all[i].rows);
		free(all[i].model);
	}
	eq_u64((uint64_t)things, 0);
}

/* --- shared blocks ---------------------------------------------------------- */

/* Changing a row copies only its block. */
static void test_shares(void)
{
	struct ck_rows old = { .type = &plain }, next;
	uint64_t *row;
	size_t moved = 0;

	for (uint64_t i = 0; i < 100000; i++)
		if (ck_rows_add(&old, &i))
			break;
	eq_u64(old.n, 100000);
	next = ck_rows_share(&old);
	row = ck_rows_edit(&next, 50000);
	*row = 1;
	ok(ck_rows_edit(&next, 50000) == row); /* not shared any more */
	for (uint32_t i = 0; i < old.n; i++)
		moved += ck_rows_at(&old, i) != ck_rows_at(&next, i);
	eq_u64(moved, 64);
	eq_u64(*(const uint64_t *)ck_rows_at(&old, 50000), 50000);
	ck_rows_fini(&old);
	eq_u64(*(const uint64_t *)ck_rows_at(&next, 50000), 1);
	eq_u64(*(const uint64_t *)ck_rows_at(&next, 50001), 50001);
	ck_rows_fini(&next);
	eq_u64(next.n, 0);
	ck_rows_fini(&next);
}

/* --- threads ------------------------------------------------------------------ */

enum { THREADS = 4, ROUNDS = 300 };

struct worker {
	const struct ck_rows *from;
	uint64_t number;
	size_t wrong;
};

/* Shares, changes and frees values of a common one. */
static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t random = w->number;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct ck_rows mine = ck_rows_share(w->from);
		uint32_t i = (uint32_t)(tap_random(&random) % mine.n);
		struct row *row = ck_rows_edit(&mine, i);

		drop(row);
		*row = (struct row){ round, thing_make(round) };
		for (uint32_t k = 0; k < mine.n; k++)
			w->wrong += !row_is(&mine, k, k == i ? round : k);
		ck_rows_fini(&mine);
	}
	return NULL;
}

static void test_threads(void)
{
	struct ck_rows common = { .type = &small };
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	size_t wrong = 0;

	for (uint64_t i = 0; i < 100; i++) {
		struct row row = { i, thing_make(i) };

		wrong += ck_rows_add(&common, &row) != 0;
	}
	for (size_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ &common, i + 1, 0 };
		pthread_create(&threads[i], NULL, work, &workers[i]);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		wrong += workers[i].wrong;
	}
	eq_u64(wrong, 0);
	ck_rows_fini(&common);
	eq_u64((uint64_t)things, 0);
}

/* --- canary ---------------------------------------------------------------- */

/* The comparison detects a changed row. */
static void test_canary(void)
{
	struct pair p = { { .type = &small }, calloc(ROWS, sizeof(uint64_t)) };

	for (uint64_t i = 0; i < 10; i++)
		if (add(&p, i))
			break;
	eq_u64(wrong_rows(&p), 0);
	p.model[7]++;
	eq_u64(wrong_rows(&p), 1);
	ck_rows_fini(&p.rows);
	free(p.model);
}

int main(void)
{
	test_canary();
	test_model();
	test_shares();
	test_threads();
	return tap_done();
}
