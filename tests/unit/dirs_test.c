/* SPDX-License-Identifier: MIT */
/*
 * The table of directories is compared with a plain list of places. It keeps three unused
 * rows, and files change their numbers often. A place in use has one node and keeps all its
 * numbers. No number is assigned twice or stands for two versions, and unused places are
 * removed.
 */
#include "tap.h"
#include "tree/dirs.h"

#include <errno.h>

enum {
	ROUNDS = TAP_SLOW ? 40 : 300,
	STEPS = 400,
	ENTRIES = 3, /* in each directory */
	NUMBERS = 3000,
};

/* One assigned number. */
struct given {
	uint32_t place;	 /* first number of its place */
	uint32_t parent; /* place */
	uint32_t entry;
	uint64_t base;
	uint64_t uses; /* of a place */
};

static struct ck_dirs dirs;
static struct given given[NUMBERS];
static uint32_t ngiven;
static uint64_t generation;
static size_t wrong;

/* Records the number that was returned for a place, and one more use of that place. */
static void note(const struct ck_dir_row *row, uint32_t parent, uint32_t entry,
		 uint64_t base)
{
	struct given *g = &given[row->number];

	if (row->number >= ngiven) {
		/* Numbers are consecutive. */
		wrong += row->number != ngiven;
		ngiven = row->number + 1;
		*g = (struct given){ .place = row->place,
				     .parent = parent,
				     .entry = entry,
				     .base = base };
	}
	wrong += g->parent != parent || g->entry != entry ||
		 row->parent != parent || g->place != row->place ||
		 g->base != row->base;
	given[row->place].uses++;
}

/* The place in use there, or 0. */
static uint32_t used_at(uint32_t parent, uint32_t entry)
{
	for (uint32_t i = 1; i < ngiven; i++)
		if (given[i].place == i && given[i].uses &&
		    given[i].parent == parent && given[i].entry == entry)
			return i;
	return 0;
}

static void get(uint32_t in, uint32_t entry, bool listed)
{
	static const struct ck_dir dir;
	uint32_t parent = given[in].place, known = used_at(parent, entry);
	struct ck_dir_row row;

	if (listed) {
		uint32_t place = ck_dirs_listed(&dirs, in, entry, &dir,
						generation);

		wrong += place == 0 || (known && place != known);
		known = place;
	}
	if (ck_dirs_get(&dirs, in, entry, &dir, generation, &row)) {
		wrong++;
		return;
	}
	/* The number stays while the place is in use, or was just listed. */
	wrong += (known && row.number != known) || row.number != row.place;
	note(&row, parent, entry, generation);
}

/* Sets the version of a file, in a catalog of generation `of`, which may be old. */
static void renew(uint32_t number, uint64_t version, uint64_t of)
{
	uint64_t newest = 0;
	struct ck_dir_row row;
	int rc;

	for (uint32_t i = 0; i < ngiven; i++)
		if (given[i].place == given[number].place)
			newest = ck_max(newest, given[i].base);
	rc = ck_dirs_renew(&dirs, number, version, of, 1, &row);
	if (rc) {
		wrong += rc != -EAGAIN || of >= newest;
		return;
	}
	/* The base is not of a later generation, and the version fits the number. */
	wrong += row.base > of ||
		 (version > row.base && version - row.base >= CK_VERSIONS_MAX);
	note(&row, given[number].parent, given[number].entry, of);
}

static uint32_t pick(uint64_t *random)
{
	for (int i = 0; i < 20; i++) {
		uint32_t n = (uint32_t)(tap_random(random) % ngiven);

		if (given[given[n].place].uses)
			return n;
	}
	return 0;
}

/* Removes n uses, given any number of the place. */
static void forget(uint32_t number, uint64_t n)
{
	given[given[number].place].uses -= n;
	ck_dirs_forget(&dirs, number, n);
}

static void check_used(void)
{
	struct ck_dir_row row;

	for (uint32_t i = 1; i < ngiven; i++)
		if (given[given[i].place].uses)
			wrong += !ck_dirs_find(&dirs, i, &row) ||
				 row.place != given[i].place ||
				 row.base != given[i].base ||
				 row.parent != given[i].parent;
}

static void step(uint64_t *random)
{
	uint32_t number = pick(random);
	uint64_t uses = given[given[number].place].uses;
	uint64_t version, of;

	generation += tap_random(random) % 3;
	of = generation - ck_min(generation, tap_random(random) % 4);
	version = of - ck_min(of, tap_random(random) % 3);
	switch (tap_random(random) % 6) {
	case 0:
	case 1:
		get(number, (uint32_t)(tap_random(random) % ENTRIES),
		    tap_random(random) % 3 == 0);
		break;
	case 2: renew(number, version, of); break;
	case 3: renew(number, generation, generation); break;
	default:
		if (uses)
			forget(number, 1 + tap_random(random) % uses);
	}
	check_used();
}

/* The depth of the deepest place. */
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
		if (given[i].place == i && given[i].uses)
			forget(i, given[i].uses);
	/* Kept rows, and the directories above them. */
	wrong += dirs.n > 1 + CK_DIRS_REMEMBERED * (size_t)depth();
	wrong += dirs.nunused > CK_DIRS_REMEMBERED;
	ck_dirs_fini(&dirs);
}

/* CK_ENTRIES_MAX is the entry of the root, so that no directory may have it. */
static void test_last_entry(void)
{
	static const struct ck_dir dir;
	struct ck_dir_row row;

	begin();
	eq_err(ck_dirs_get(&dirs, 0, CK_ENTRIES_MAX, &dir, 0, &row), -ENFILE);
	eq_u64(ck_dirs_listed(&dirs, 0, CK_ENTRIES_MAX, &dir, 0), 0);
	ck_dirs_fini(&dirs);
}

/* Numbers of directories differ in low bits too, by which the kernel finds its inodes. */
static void test_low_bits(void)
{
	uint64_t same = 0, others = 0;

	for (uint32_t dir = 0; dir < 100; dir++) {
		uint64_t number = ck_number_of_dir(dir);

		same += ck_number_version(number) ==
			ck_number_version(ck_number_of_dir(dir + 1));
		others += !ck_number_is_dir(number) ||
			  ck_number_dir(number) != dir;
	}
	eq_u64(same, 0);
	eq_u64(others, 0);
	eq_u64(ck_number_of_dir(0), 1);
}

/* The comparison detects a wrong parent. */
static void test_canary(void)
{
	begin();
	get(0, 1, false);
	check_used();
	eq_u64(wrong, 0);
	given[1].parent = 7;
	check_used();
	ok(wrong > 0);
	ck_dirs_fini(&dirs);
}

int main(void)
{
	uint64_t random = tap_seed(7);

	for (int i = 0; i < ROUNDS; i++)
		round_of(&random);
	eq_u64(wrong, 0);
	test_last_entry();
	test_low_bits();
	test_canary();
	return tap_done();
}
