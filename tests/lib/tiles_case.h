/* SPDX-License-Identifier: MIT */
/*
 * tiles_case: random copies of all kinds, executed by the CPU with the tile code of
 * the GPU. Each load and each store between the two memory areas is checked.
 */
#ifndef CK_TILES_CASE_H
#define CK_TILES_CASE_H

#include "boxes.h"
#include "gpu/driver/tiles.h"
#include "tap.h"

enum {
	AREA = 3 << 20,
	MARGIN = 64, /* bytes around the copies, must not change */
	LOOPS = 12,
};

static struct {
	uint8_t *src, *dst;
	bool bad;	 /* a load or store was out of bounds */
	uint64_t stored; /* bytes */
} area;

static inline const void *area_from(uint64_t address, uint32_t size)
{
	uint64_t at = address - (uintptr_t)area.src;

	area.bad |= address % size != 0 || at > AREA || size > AREA - at;
	return area.bad ? area.src : area.src + at;
}

static inline void *area_to(uint64_t address, uint32_t size)
{
	uint64_t at = address - (uintptr_t)area.dst;

	area.bad |= address % size != 0 || at > AREA || size > AREA - at;
	area.stored += size;
	return area.bad ? area.dst : area.dst + at;
}

#define CK_TILE_FROM area_from
#define CK_TILE_TO   area_to
#include "tile_thread.h"

/* --- moving ------------------------------------------------------------------------ */

/* Threads run in any order: they do not wait for each other. */
static inline void tiles_run(const struct ck_tiles *tiles)
{
	area.bad = false;
	area.stored = 0;
	for (unsigned kind = 0; kind < CK_TILE_KINDS; kind++)
		for (size_t i = 0; i < tiles->of[kind].n; i++) {
			const struct ck_tile *t = &tiles->of[kind].list[i];

			area.bad |= t->nest >= tiles->nnests;
			for (uint32_t k = CK_TILE_THREADS;
			     !area.bad && k > 0 && k--;)
				tile_thread((enum ck_tile_kind)kind, t,
					    &tiles->nests[t->nest], k);
		}
}

/* --- random copies ------------------------------------------------------------------- */

struct random_copy {
	struct ck_tile_copy copy;
	struct ck_loop loops[LOOPS]; /* outermost first */
	uint64_t runs;
	uint64_t src_size, dst_size; /* first byte to the end of the last */
};

/* Most runs are short; some have the length of a tile or more. */
static inline uint64_t random_run(uint64_t *random)
{
	static const uint64_t most[] = { 8,   20,   20,	   70,
					 200, 1000, 20000, 1 << 20 };
	uint64_t longest =
		most[boxes_below(random, boxes_one_in(random, 30) ? 8 : 6)];
	uint64_t run = 1 + boxes_below(random, longest);

	/* Half of them are a multiple of a power of two. */
	if (boxes_one_in(random, 2))
		run = (run | ((UINT64_C(1) << boxes_below(random, 5)) - 1)) + 1;
	return run;
}

static inline uint64_t random_gap(uint64_t *random)
{
	return boxes_one_in(random, 2) ? 0
				       : UINT64_C(16) << boxes_below(random, 3);
}

/* Random steps between the runs, at least the span of the inner loops. */
static inline uint64_t steps(struct random_copy *r, uint32_t nloops, bool dst,
			     uint64_t *random)
{
	uint32_t order[LOOPS];
	uint64_t size = r->copy.run;

	for (uint32_t k = 0; k < nloops; k++)
		order[k] = k;
	/* Some are transposed. */
	if (boxes_one_in(random, 3))
		boxes_shuffle(order, nloops, random);
	for (uint32_t k = nloops; k > 0 && k--;) {
		struct ck_loop *loop = &r->loops[order[k]];
		uint64_t step = size;

		if (boxes_one_in(random, 3))
			step += boxes_below(random, 20);
		else
			step += random_gap(random);
		*(dst ? &loop->dst : &loop->src) = step;
		size += (loop->count - 1) * step;
	}
	return size;
}

/* False if the copy is too large. */
static inline bool copy_sized(struct random_copy *r, uint32_t nloops,
			      uint64_t *random)
{
	uint64_t bytes = r->copy.run;
	uint64_t most = boxes_one_in(random, 30) ? AREA / 16 : 4096;

	r->runs = 1;
	for (uint32_t k = 0; k < nloops; k++) {
		uint64_t count = 1 + boxes_below(random, k < 3 ? 40 : 4);

		if (bytes * count > most)
			count = 1;
		r->loops[k] = (struct ck_loop){ .count = count };
		r->runs *= count;
		bytes *= count;
	}
	r->src_size = steps(r, nloops, false, random);
	r->dst_size = steps(r, nloops, true, random);
	return r->src_size < AREA - 4 * MARGIN &&
	       r->dst_size < AREA - 4 * MARGIN;
}

static inline void copy_random(struct random_copy *r, uint64_t *random)
{
	static const char *const dtypes[] = {
		"float32", "bfloat16",	 "int64",   "uint8",	 "complex64",
		"int16",   "complex128", "float64", "complex32", "int32",
	};
	const char *name = dtypes[boxes_below(random, 10)];
	uint32_t nloops;

	do {
		*r = (struct random_copy){ 0 };
		r->copy.dtype =
			ck_dtype_at(ck_dtype_by_name(ck_str_from(name)));
		if (boxes_one_in(random, 3))
			r->copy.change = (uint8_t)(1 + boxes_below(random, 7));
		r->copy.run = random_run(random);
		if (r->copy.change)
			r->copy.run += (r->copy.dtype->size -
					r->copy.run % r->copy.dtype->size) %
				       r->copy.dtype->size;
		nloops = (uint32_t)boxes_below(
			random, boxes_one_in(random, 20) ? LOOPS + 1 : 9);
	} while (!copy_sized(r, nloops, random));
	r->copy.nloops = nloops;
	r->copy.loops = r->loops;
	/* All pairs of alignments within a vector. */
	r->copy.src = (uintptr_t)area.src + MARGIN + boxes_below(random, 16);
	r->copy.dst = (uintptr_t)area.dst + MARGIN + boxes_below(random, 16);
	if (boxes_one_in(random, 3)) {
		r->copy.src &= ~UINT64_C(15);
		r->copy.dst &= ~UINT64_C(15);
	}
}

/* --- expected result ---------------------------------------------------------------- */

/* Converts unit by unit, as numbers. */
static inline void copy_unit(const struct random_copy *r, const uint8_t *from,
			     uint8_t *to, uint64_t i)
{
	const struct ck_dtype *d = r->copy.dtype;
	bool imaginary = d->is_complex && i % 2;
	bool negated = !(r->copy.change & CK_CHANGE_NEG) !=
		       !(r->copy.change & CK_CHANGE_CONJ && imaginary);
	uint8_t v[8];

	for (unsigned k = 0; k < d->unit; k++)
		v[k] = from[r->copy.change & CK_CHANGE_SWAP ? d->unit - 1U - k
							    : k];
	if (negated && d->is_float)
		v[d->unit - 1] ^= 0x80;
	for (unsigned k = 0, carry = 1; negated && !d->is_float && k < d->unit;
	     k++) {
		carry += (uint8_t)~v[k];
		v[k] = (uint8_t)carry;
		carry >>= 8;
	}
	memcpy(to, v, d->unit);
}

/* The reference copy: run after run. */
static inline void copy_defined(const struct random_copy *r, uint8_t *to)
{
	const uint8_t *from = area.src + (r->copy.src - (uintptr_t)area.src);

	for (uint64_t run = 0; run < r->runs; run++) {
		uint64_t n = run, src = 0, dst = 0;

		for (uint32_t k = r->copy.nloops; k > 0 && k--;) {
			src += n % r->loops[k].count * r->loops[k].src;
			dst += n % r->loops[k].count * r->loops[k].dst;
			n /= r->loops[k].count;
		}
		for (uint64_t i = 0; !r->copy.change && i < r->copy.run; i++)
			to[dst + i] = from[src + i];
		for (uint64_t i = 0;
		     r->copy.change && i < r->copy.run / r->copy.dtype->unit;
		     i++)
			copy_unit(r, from + src + i * r->copy.dtype->unit,
				  to + dst + i * r->copy.dtype->unit, i);
	}
}

static inline void area_make(uint64_t *random)
{
	area.src = aligned_alloc(4096, AREA);
	area.dst = aligned_alloc(4096, AREA);
	if (!area.src || !area.dst)
		abort();
	for (size_t i = 0; i < AREA; i++)
		area.src[i] = (uint8_t)boxes_below(random, 256);
}

static inline void area_free(void)
{
	free(area.src);
	free(area.dst);
}

#endif
