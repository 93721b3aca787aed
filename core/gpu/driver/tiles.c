/* SPDX-License-Identifier: MIT */
/*
 * tiles: splits copies into tiles (tiles.h). A run that is longer than a tile is cut; a
 * tile has as many shorter runs as fit. A nest takes the inner loops, as long as 32 bits
 * count their runs; this file iterates over the outer loops. No locks.
 */
#include "tiles.h"

#include <errno.h>

enum {
	LANES = 32, /* threads of a run, if there are enough runs: they load together */
	VECTOR = 16,
};

/* Most runs of one nest. */
#define NEST_RUNS (UINT64_C(1) << 30)

/* A copy that is split into tiles. */
struct cutting {
	struct ck_tiles *tiles;
	const struct ck_tile_copy *copy;
	enum ck_tile_kind kind;
	uint32_t nest;	 /* its index */
	uint32_t nouter; /* loops outside the nest */
};

const char *ck_tile_kernel(enum ck_tile_kind kind)
{
	static const char *const names[] = {
		[CK_TILE_1] = "ck_tiles_1",
		[CK_TILE_2] = "ck_tiles_2",
		[CK_TILE_4] = "ck_tiles_4",
		[CK_TILE_8] = "ck_tiles_8",
		[CK_TILE_16] = "ck_tiles_16",
		[CK_TILE_LONG] = "ck_tiles_long",
		[CK_TILE_CHANGE] = "ck_tiles_change",
	};

	return names[kind];
}

void ck_tiles_clear(struct ck_tiles *t)
{
	for (unsigned kind = 0; kind < CK_TILE_KINDS; kind++)
		t->of[kind].n = 0;
	t->nnests = 0;
}

void ck_tiles_fini(struct ck_tiles *t)
{
	for (unsigned kind = 0; kind < CK_TILE_KINDS; kind++)
		free(t->of[kind].list);
	free(t->nests);
	*t = (struct ck_tiles){ 0 };
}

/* --- which kernel ------------------------------------------------------------------ */

/* Chooses the largest vector of which all addresses, steps and the run are multiples. */
static enum ck_tile_kind kind_of(const struct ck_tile_copy *c)
{
	uint64_t all = c->src | c->dst | c->run | VECTOR;

	if (c->change)
		return CK_TILE_CHANGE;
	for (uint32_t k = 0; k < c->nloops; k++)
		if (c->loops[k].count > 1)
			all |= c->loops[k].src | c->loops[k].dst;
	if (all % VECTOR && c->run >= CK_TILE_LONG_FROM)
		return CK_TILE_LONG;
	return CK_TILE_1 + (enum ck_tile_kind)__builtin_ctzll(all);
}

static uint32_t bytes_at_once(const struct cutting *c)
{
	if (c->kind == CK_TILE_CHANGE)
		return c->copy->dtype->unit;
	return c->kind < CK_TILE_16 ? UINT32_C(1) << c->kind : VECTOR;
}

/* Threads for each run: enough to load all of it at once, and to keep all threads of
 * the block busy. */
static uint32_t lanes_for(const struct cutting *c, uint32_t run, uint32_t rows)
{
	uint32_t vectors = run / bytes_at_once(c), lanes = 1;

	while (lanes < LANES && lanes < vectors)
		lanes *= 2;
	while (lanes < CK_TILE_THREADS && lanes < vectors &&
	       lanes * rows < CK_TILE_THREADS)
		lanes *= 2;
	return lanes;
}

/* --- nests ----------------------------------------------------------------------------- */

static uint8_t how_of(const struct ck_tile_copy *c)
{
	unsigned how = 0;

	if (c->change & CK_CHANGE_SWAP)
		how |= CK_TILE_SWAP;
	if (c->change & CK_CHANGE_NEG)
		how |= CK_TILE_NEG;
	if (c->change & CK_CHANGE_CONJ && c->dtype->is_complex)
		how |= CK_TILE_CONJ;
	if (c->dtype->is_float)
		how |= CK_TILE_FLOAT;
	return (uint8_t)how;
}

/* Number of innermost loops that one nest can count. */
static uint32_t loops_inside(const struct ck_tile_copy *c)
{
	uint64_t runs = 1;
	uint32_t n = 0;

	while (n < c->nloops && n < CK_NEST_LOOPS &&
	       ck_mul(&runs, runs, c->loops[c->nloops - n - 1].count) &&
	       runs <= NEST_RUNS)
		n++;
	return n;
}

static int add_nest(struct cutting *c)
{
	struct ck_tiles *t = c->tiles;
	const struct ck_tile_copy *copy = c->copy;
	struct ck_nest *nests, nest = { .nloops = copy->nloops - c->nouter };

	if (t->nnests >= UINT32_MAX)
		return -EOVERFLOW;
	if (copy->change) {
		nest.unit = copy->dtype->unit;
		nest.how = how_of(copy);
	}
	for (uint32_t k = 0; k < nest.nloops; k++) {
		const struct ck_loop *loop = &copy->loops[copy->nloops - k - 1];

		nest.count[k] = (uint32_t)loop->count;
		nest.src[k] = loop->src;
		nest.dst[k] = loop->dst;
	}
	nests = ck_grow(t->nests, &t->nests_cap, t->nnests, 1, sizeof(nest));
	if (!nests)
		return -ENOMEM;
	t->nests = nests;
	nests[t->nnests] = nest;
	c->nest = (uint32_t)t->nnests++;
	return 0;
}

/* --- tiles -------------------------------------------------------------------------------- */

static int add_tile(const struct cutting *c, uint64_t src, uint64_t dst,
		    uint32_t row, uint32_t rows, uint32_t run)
{
	struct ck_tile tile = { .src = src,
				.dst = dst,
				.nest = c->nest,
				.row = row,
				.rows = rows,
				.run = run,
				.lanes = lanes_for(c, run, rows) };
	struct ck_tile *list =
		ck_grow(c->tiles->of[c->kind].list, &c->tiles->of[c->kind].cap,
			c->tiles->of[c->kind].n, 1, sizeof(tile));

	if (!list)
		return -ENOMEM;
	c->tiles->of[c->kind].list = list;
	list[c->tiles->of[c->kind].n++] = tile;
	return 0;
}

/* Adds runs that are longer than a tile. */
static int add_long(const struct cutting *c, uint64_t src, uint64_t dst,
		    uint32_t runs)
{
	int rc = 0;

	for (uint32_t row = 0; row < runs; row++)
		for (uint64_t at = 0; at < c->copy->run && rc == 0;
		     at += CK_TILE_BYTES) {
			uint64_t len = ck_min(c->copy->run - at,
					      (uint64_t)CK_TILE_BYTES);

			rc = add_tile(c, src + at, dst + at, row, 1,
				      (uint32_t)len);
		}
	return rc;
}

/* Adds all runs of the nest. src, dst: the first run. */
static int add_runs(const struct cutting *c, uint64_t src, uint64_t dst,
		    uint32_t runs)
{
	uint32_t run, most;
	int rc = 0;

	if (c->copy->run > CK_TILE_BYTES)
		return add_long(c, src, dst, runs);
	run = (uint32_t)c->copy->run;
	most = CK_TILE_BYTES / run;
	for (uint32_t row = 0; row < runs && rc == 0;) {
		uint32_t rows = (uint32_t)ck_min(runs - row, most);

		rc = add_tile(c, src, dst, row, rows, run);
		row += rows;
	}
	return rc;
}

/* Advances the outer loops. Returns false after the last iteration. */
static bool next_place(const struct cutting *c, uint64_t *index, uint64_t *src,
		       uint64_t *dst)
{
	for (uint32_t k = c->nouter; k > 0 && k--;) {
		const struct ck_loop *loop = &c->copy->loops[k];

		if (++index[k] < loop->count) {
			*src += loop->src;
			*dst += loop->dst;
			return true;
		}
		index[k] = 0;
		*src -= (loop->count - 1) * loop->src;
		*dst -= (loop->count - 1) * loop->dst;
	}
	return false;
}

static int add_copy(struct ck_tiles *t, const struct ck_tile_copy *copy)
{
	struct cutting c = { .tiles = t, .copy = copy, .kind = kind_of(copy) };
	uint64_t index[CK_MAX_DIMS] = { 0 };
	uint64_t src = copy->src, dst = copy->dst;
	uint32_t runs = 1;
	int rc;

	c.nouter = copy->nloops - loops_inside(copy);
	for (uint32_t k = c.nouter; k < copy->nloops; k++)
		runs *= (uint32_t)copy->loops[k].count;
	rc = add_nest(&c);
	while (rc == 0) {
		rc = add_runs(&c, src, dst, runs);
		if (!next_place(&c, index, &src, &dst))
			break;
	}
	return rc;
}

/* An innermost loop with more runs than a nest can count is cut first. */
int ck_tiles_add(struct ck_tiles *t, const struct ck_tile_copy *c)
{
	struct ck_loop loops[CK_MAX_DIMS];
	struct ck_tile_copy part = *c;
	struct ck_loop *inner;
	uint64_t count;
	int rc = 0;

	if (c->run == 0)
		return 0;
	if (c->nloops == 0)
		return add_copy(t, c);
	for (uint32_t k = 0; k < c->nloops; k++)
		loops[k] = c->loops[k];
	part.loops = loops;
	inner = &loops[c->nloops - 1];
	count = inner->count;
	for (uint64_t first = 0; first < count && rc == 0; first += NEST_RUNS) {
		inner->count = ck_min(count - first, NEST_RUNS);
		part.src = c->src + first * inner->src;
		part.dst = c->dst + first * inner->dst;
		rc = add_copy(t, &part);
	}
	return rc;
}
