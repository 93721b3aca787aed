/* SPDX-License-Identifier: MIT */
/*
 * The table of directories against a plain list of places, with three that are
 * remembered and versions that often need another number: what is in use is there, a
 * place has one present number, no number is given twice, a parent is what is in its
 * place now, and what nobody uses goes.
 */
#include "dirs.h"
#include "tap.h"

#include <errno.h>

enum {
	ROUNDS = TAP_SLOW ? 40 : 300,
	STEPS = 400,
	ENTRIES = 3, /* in each directory */
	NUMBERS = 3000,
};

/* Of each number that was given. */
struct given {
	uint32_t place;	 /* the first number of its place */
	uint32_t parent; /* place */
	uint32_t entry;
	uint64_t uses;
	uint32_t present; /* of a place: its newest number */
};

static struct ck_dirs dirs;
static struct given given[NUMBERS];
static uint32_t ngiven;
static uint64_t generation;
static size_t wrong;

/* A number was answered: the present one of its place. */
static void note(const struct ck_dir_row *row, uint32_t parent, uint32_t entry)
{
	struct given *g = &given[row->number];

	if (row->number >= ngiven) {
		/* One after the other. */
		wrong += row->number != ngiven;
		ngiven = row->number + 1;
		*g = (struct given){ .place = row->place,
				     .parent = parent,
				     .entry = entry };
		given[row->place].present = row->number;
	}
	wrong += g->parent != parent || g->entry != entry ||
		 given[g->place].present != row->number;
	g->uses++;
}

static void get(uint32_t in, uint32_t entry, bool listed)
{
	static const struct ck_dir dir;
	uint32_t parent = given[in].place, known = 0, before = ngiven;
	struct ck_dir_row row;

	for (uint32_t i = 1; i < before; i++)
		if (given[i].uses && given[i].parent == parent &&
		    given[i].entry == entry)
			known = given[given[i].place].present;
	if (listed) {
		known = ck_dirs_listed(&dirs, in, entry, &dir, generation);
		wrong += known == 0;
	}
	if (ck_dirs_get(&dirs, in, entry, &dir, generation, &row)) {
		wrong++;
		return;
	}
	/* Its number stays while it is in use, and when it was just listed. */
	wrong += known && row.number != known;
	note(&row, parent, entry);
}

static void renew(uint32_t number)
{
	struct ck_dir_row row;
	int rc = ck_dirs_renew(&dirs, number, generation, generation, 1, &row);

	if (number == 0 && rc == -ENFILE)
		return;
	wrong += rc != 0;
	if (rc == 0)
		note(&row, given[number].parent, given[number].entry);
}

static void parent_check(uint32_t number)
{
	uint32_t parent, place = given[number].parent;

	wrong += !ck_dirs_parent(&dirs, number, &parent) ||
		 parent != given[place].present;
}

static uint32_t pick(uint64_t *random)
{
	for (int i = 0; i < 20; i++) {
		uint32_t n = (uint32_t)(tap_random(random) % ngiven);

		if (given[n].uses)
			return n;
	}
	return 0;
}

static void forget(uint32_t number, uint64_t n)
{
	given[number].uses -= n;
	ck_dirs_forget(&dirs, number, n);
}

static void step(uint64_t *random)
{
	uint32_t number = pick(random);
	struct ck_dir_row row;

	generation += tap_random(random) % 3;
	switch (tap_random(random) % 6) {
	case 0:
	case 1:
		get(number, (uint32_t)(tap_random(random) % ENTRIES),
		    tap_random(random) % 3 == 0);
		break;
	case 2: renew(number); break;
	case 3: parent_check(number); break;
	default:
		if (given[number].uses)
			forget(number,
			       1 + tap_random(random) % given[number].uses);
	}
	for (uint32_t i = 1; i < ngiven; i++)
		wrong += given[i].uses && !ck_dirs_find(&dirs, i, &row);
}

/* How deep the deepest place is. */
static uint32_t depth(void)
{
	uint32_t most = 0;

	for (uint32_t i = 1; i < ngiven; i++) {
		uint32_t n = 0;

		for (uint32_t k = i; k; k = given[k].parent)
			n++;
		most = n > most ? n : most;
	}
	return most;
}

static void begin(void)
{
	static const struct ck_dir root;

	ngiven = 1;
	generation = 0;
	given[0] = (struct given){ .place = 0 };
	if (ck_dirs_init(&dirs, &root, 0))
		abort();
}

static void round_of(uint64_t *random)
{
	begin();
	for (int i = 0; i < STEPS; i++)
		step(random);
	for (uint32_t i = 1; i < ngiven; i++)
		if (given[i].uses)
			forget(i, given[i].uses);
	/* What is remembered, and what that lies in, which may be an old one and
	 * the present one of each place. */
	wrong += dirs.n > 1 + CK_DIRS_REMEMBERED * (size_t)2 * depth();
	wrong += dirs.nunused > CK_DIRS_REMEMBERED;
	ck_dirs_fini(&dirs);
}

/* The oracle finds a parent that is another one. */
static void test_canary(void)
{
	begin();
	get(0, 1, false);
	parent_check(1);
	eq_u64(wrong, 0);
	given[0].present = 1;
	parent_check(1);
	ok(wrong > 0);
	ck_dirs_fini(&dirs);
}

int main(void)
{
	uint64_t random = tap_seed(7);

	for (int i = 0; i < ROUNDS; i++)
		round_of(&random);
	eq_u64(wrong, 0);
	test_canary();
	return tap_done();
}
