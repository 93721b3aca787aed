/* SPDX-License-Identifier: MIT */
/*
 * tiles: each byte of a copy is moved once, by one thread, to where it belongs; loads stay
 * within what they may load, and are aligned. Random copies against the definition and
 * against the host mover; what a launch costs, by hand.
 */
#include "io/local/gather.h"
#include "tiles_case.h"

/* --- random copies ----------------------------------------------------------------- */

static uint8_t want[AREA], host[AREA];

/* From before the first byte of the copy to behind its last one. */
static size_t span_of(const struct random_copy *r, size_t *from)
{
	*from = (size_t)(r->copy.dst - (uintptr_t)area.dst) - MARGIN;
	return (size_t)r->dst_size + (size_t)2 * MARGIN;
}

static void define(const struct random_copy *r)
{
	size_t from, len = span_of(r, &from);

	memset(want + from, 0xa5, len);
	copy_defined(r, want + from + MARGIN);
}

static bool host_agrees(const struct random_copy *r)
{
	size_t from, len = span_of(r, &from);
	struct ck_plan_op copy = { .run = r->copy.run,
				   .nloops = r->copy.nloops };
	const struct ck_plan plan = {
		.copies = &copy,
		.loops = (struct ck_loop *)(uintptr_t)r->loops,
		.ncopies = 1,
		.nloops = r->copy.nloops
	};
	const uint8_t *src = area.src + (r->copy.src - (uintptr_t)area.src);
	struct ck_gather g = { &plan, &src, host + from + MARGIN };

	memset(host + from, 0xa5, len);
	ck_gather_run(&g);
	ck_gather_change(&g, 0, r->copy.dtype, r->copy.change);
	return memcmp(host + from, want + from, len) == 0;
}

static bool moves_right(const struct random_copy *r,
			const struct ck_tiles *tiles)
{
	size_t from, len = span_of(r, &from);

	memset(area.dst + from, 0xa5, len);
	tiles_run(tiles);
	return !area.bad && area.stored == r->runs * r->copy.run &&
	       memcmp(area.dst + from, want + from, len) == 0;
}

static bool are_small(const struct ck_tiles *tiles)
{
	for (unsigned kind = 0; kind < CK_TILE_KINDS; kind++)
		for (size_t i = 0; i < tiles->of[kind].n; i++) {
			const struct ck_tile *t = &tiles->of[kind].list[i];

			if ((uint64_t)t->rows * t->run > CK_TILE_BYTES ||
			    t->rows == 0 || t->run == 0 || t->lanes == 0 ||
			    (t->lanes & (t->lanes - 1)) ||
			    t->lanes > CK_TILE_THREADS)
				return false;
		}
	return true;
}

static void test_random(void)
{
	uint64_t cases = tap_cases("CKPTFS_CASES", TAP_SLOW ? 5000 : 10000,
				   TAP_SLOW ? 50000 : 600000);
	uint64_t random = tap_seed(77) | 1;
	uint64_t wrong = 0, differ = 0, large = 0, kinds[CK_TILE_KINDS] = { 0 };
	struct ck_tiles tiles = { 0 };

	area_make(&random);
	for (uint64_t i = 0; i < cases; i++) {
		struct random_copy r;

		copy_random(&r, &random);
		define(&r);
		differ += !host_agrees(&r);
		ck_tiles_clear(&tiles);
		wrong += ck_tiles_add(&tiles, &r.copy) != 0 ||
			 !moves_right(&r, &tiles);
		large += !are_small(&tiles);
		for (unsigned k = 0; k < CK_TILE_KINDS; k++)
			kinds[k] += tiles.of[k].n;
	}
	printf("# %" PRIu64 " copies\n", cases);
	eq_u64(wrong, 0);
	eq_u64(differ, 0);
	eq_u64(large, 0);
	for (unsigned k = 0; k < CK_TILE_KINDS; k++)
		ok(kinds[k] > cases / 1000);
	ck_tiles_fini(&tiles);
	area_free();
}

/* --- a comparer that accepts everything would prove nothing ------------------------- */

enum { NLIES = 9 };

/* Makes a tile wrong; false if there is nothing to lie about. */
static bool lie(struct ck_tiles *tiles, unsigned how, unsigned kind)
{
	struct ck_tile *t = &tiles->of[kind].list[tiles->of[kind].n - 1];
	struct ck_nest *nest = &tiles->nests[t->nest];

	switch (how) {
	case 0: t->src += 16; return true;
	case 1: t->dst += 16; return true;
	case 2: t->rows--; return true;
	case 3: t->rows++; return true;
	case 4:
		if (t->run <= 16)
			return false;
		t->run -= 16;
		return true;
	case 5: tiles->of[kind].n--; return true;
	case 6: t->nest++; return true;
	case 7:
		return nest->nloops && nest->count[0] > 1 && t->rows > 1 &&
		       ++nest->src[0];
	case 8:
		return kind == CK_TILE_CHANGE && (nest->how ^= CK_TILE_SWAP) &&
		       nest->unit > 1;
	default: return false;
	}
}

static void test_lies(void)
{
	uint64_t random = tap_seed(5) | 1;
	struct ck_tiles tiles = { 0 };
	unsigned told[NLIES] = { 0 }, seen[NLIES] = { 0 };

	area_make(&random);
	for (unsigned i = 0; i < 4000; i++) {
		unsigned how = i % NLIES, kind = 0;
		struct random_copy r;

		copy_random(&r, &random);
		define(&r);
		ck_tiles_clear(&tiles);
		if (ck_tiles_add(&tiles, &r.copy))
			abort();
		while (!tiles.of[kind].n)
			kind++;
		if (!lie(&tiles, how, kind))
			continue;
		told[how]++;
		seen[how] += !moves_right(&r, &tiles);
	}
	/* A byte may be as before by chance. */
	for (unsigned how = 0; how < NLIES; how++)
		ok(told[how] > 10 && seen[how] > told[how] * 9 / 10);
	ck_tiles_fini(&tiles);
	area_free();
}

/* --- how many -------------------------------------------------------------------------- */

static size_t count(const struct ck_tiles *tiles)
{
	size_t n = 0;

	for (unsigned kind = 0; kind < CK_TILE_KINDS; kind++)
		n += tiles->of[kind].n;
	return n;
}

/* Of more runs than one nest counts, none is left out. */
static void test_many_runs(void)
{
	const struct ck_loop loop = { (UINT64_C(1) << 31) + 5, 1, 3 };
	const struct ck_tile_copy copy = { .src = 4096,
					   .dst = UINT64_C(1) << 40,
					   .run = 1,
					   .nloops = 1,
					   .loops = &loop };
	struct ck_tiles tiles = { 0 };
	const struct ck_tile *t;
	uint64_t runs = 0;
	bool right = true;

	eq_err(ck_tiles_add(&tiles, &copy), 0);
	t = tiles.of[CK_TILE_1].list;
	for (size_t i = 0; i < tiles.of[CK_TILE_1].n; i++, t++) {
		right &= t->dst + t->row == copy.dst + runs &&
			 t->src + UINT64_C(3) * t->row == copy.src + 3 * runs;
		runs += t->rows;
	}
	ok(right);
	eq_u64(runs, loop.count);
	eq_u64(tiles.nnests, 3);
	ck_tiles_fini(&tiles);
}

/* A kernel has enough to do for each tile, and each thread. */
static void test_shapes(void)
{
	const struct ck_loop rows = { 4096, 8192, 1024 };
	struct ck_tile_copy copy = { .src = 1 << 20,
				     .dst = 1 << 28,
				     .run = 1024,
				     .nloops = 1,
				     .loops = &rows };
	struct ck_tiles tiles = { 0 };

	eq_err(ck_tiles_add(&tiles, &copy), 0);
	eq_u64(count(&tiles), 64);
	eq_u64(tiles.of[CK_TILE_16].n, 64);
	eq_u64(tiles.of[CK_TILE_16].list[0].lanes, 32);
	ck_tiles_clear(&tiles);
	copy.nloops = 0;
	copy.run = 1 << 20;
	eq_err(ck_tiles_add(&tiles, &copy), 0);
	eq_u64(tiles.of[CK_TILE_16].n, 16);
	eq_u64(tiles.of[CK_TILE_16].list[0].lanes, CK_TILE_THREADS);
	ck_tiles_clear(&tiles);
	copy.src++;
	eq_err(ck_tiles_add(&tiles, &copy), 0);
	eq_u64(tiles.of[CK_TILE_LONG].n, 16);
	ck_tiles_clear(&tiles);
	copy.run = 0;
	eq_err(ck_tiles_add(&tiles, &copy), 0);
	eq_u64(count(&tiles), 0);
	ck_tiles_fini(&tiles);
}

int main(void)
{
	test_random();
	test_lies();
	test_many_runs();
	test_shapes();
	return tap_done();
}
