/* SPDX-License-Identifier: MIT */
/*
 * gather: copies the runs of a plan. The runs of a plan op are copied a plane at a
 * time: the two innermost loops. A plane whose source is transposed is copied in
 * tiles, so that a cache line of the source is loaded once and not once for each of its
 * elements.
 *
 * Sources may be mapped files that another process truncates at any time: such
 * sources are loaded under ck_sigbus_guard() only. No state. Any thread.
 */
#include "gather.h"
#include "model/to_float32.h"
#include "range.h"

#include <endian.h>

struct plane {
	struct ck_loop outer, inner;
	uint64_t dst, src; /* of the first run; src is relative to the copy's */
};

/* Iterator over the planes of a plan op. */
struct planes {
	const struct ck_loop *loops;
	uint32_t n; /* loops around the plane */
	struct plane plane;
	uint64_t index[CK_MAX_DIMS];
};

static void planes_begin(struct planes *w, const struct ck_plan *plan,
			 const struct ck_plan_op *c)
{
	static const struct ck_loop once = { .count = 1 };
	/* A plan without loops has no array of loops. */
	const struct ck_loop *loops = c->nloops ? plan->loops + c->loop : &once;

	w->loops = loops;
	w->n = c->nloops > 2 ? c->nloops - 2 : 0;
	w->plane.inner = c->nloops > 0 ? loops[c->nloops - 1] : once;
	w->plane.outer = c->nloops > 1 ? loops[c->nloops - 2] : once;
	w->plane.dst = c->dst;
	w->plane.src = 0;
	memset(w->index, 0, w->n * sizeof(w->index[0]));
}

/* Advances to the next plane. Returns false after the last one. */
static bool planes_next(struct planes *w)
{
	for (uint32_t k = w->n; k > 0 && k--;) {
		const struct ck_loop *loop = &w->loops[k];

		if (++w->index[k] < loop->count) {
			w->plane.dst += loop->dst;
			w->plane.src += loop->src;
			return true;
		}
		w->index[k] = 0;
		w->plane.dst -= (loop->count - 1) * loop->dst;
		w->plane.src -= (loop->count - 1) * loop->src;
	}
	return false;
}

/* --- copying ------------------------------------------------------------- */

/* Copies all runs of a plane. Inlined for each usual length of a run, so that a run
 * is one load and one store. */
static inline __attribute__((always_inline)) void copy_runs(
	uint8_t *to, const uint8_t *from, const struct plane *p, size_t run)
{
	for (uint64_t i = 0; i < p->outer.count; i++) {
		uint8_t *t = to + i * p->outer.dst;
		const uint8_t *f = from + i * p->outer.src;

		for (uint64_t k = 0; k < p->inner.count; k++) {
			memcpy(t, f, run);
			t += p->inner.dst;
			f += p->inner.src;
		}
	}
}

static inline __attribute__((always_inline)) void copy_plane(
	uint8_t *to, const uint8_t *from, const struct plane *p, size_t run)
{
	switch (run) {
	case 1: copy_runs(to, from, p, 1); break;
	case 2: copy_runs(to, from, p, 2); break;
	case 4: copy_runs(to, from, p, 4); break;
	case 8: copy_runs(to, from, p, 8); break;
	case 16: copy_runs(to, from, p, 16); break;
	default: copy_runs(to, from, p, run); break;
	}
}

static struct ck_loop cut_loop(struct ck_loop loop, uint64_t first,
			       uint64_t most)
{
	loop.count = ck_min(loop.count - first, most);
	return loop;
}

/* Copies a plane in squares as wide as a cache line. */
static void copy_tiles(uint8_t *to, const uint8_t *from, const struct plane *p,
		       size_t run)
{
	uint64_t side = 64 / run;

	for (uint64_t i = 0; i < p->outer.count; i += side) {
		for (uint64_t k = 0; k < p->inner.count; k += side) {
			struct plane tile = {
				.outer = cut_loop(p->outer, i, side),
				.inner = cut_loop(p->inner, k, side),
			};

			copy_plane(to + i * p->outer.dst + k * p->inner.dst,
				   from + i * p->outer.src + k * p->inner.src,
				   &tile, run);
		}
	}
}

void ck_gather_run(void *gather)
{
	const struct ck_gather *g = gather;
	struct planes w;

	for (size_t i = 0; i < g->plan->ncopies; i++) {
		const struct ck_plan_op *c = &g->plan->copies[i];

		if (!g->from[i])
			continue;
		planes_begin(&w, g->plan, c);
		do {
			const struct plane *p = &w.plane;
			uint8_t *to = g->to + p->dst;
			const uint8_t *from = g->from[i] + p->src;

			if (c->run <= 16 && p->inner.src > p->outer.src)
				copy_tiles(to, from, p, c->run);
			else
				copy_plane(to, from, p, c->run);
		} while (planes_next(&w));
	}
}

/* --- changing values ----------------------------------------------------- */

/* One number of `unit` bytes, 1 to 8, little-endian. */
static inline uint64_t load_unit(const uint8_t *p, size_t unit)
{
	uint64_t value = 0;

	memcpy(&value, p, unit);
	return le64toh(value);
}

static inline void store_unit(uint8_t *p, size_t unit, uint64_t value)
{
	value = htole64(value);
	memcpy(p, &value, unit);
}

/* Every step'th unit: a float's sign is its top bit, an integer is a two's
 * complement. */
static inline CK_WRAPS void negate_units(uint8_t *p, size_t len, size_t step,
					 size_t unit, bool is_float)
{
	uint64_t sign = UINT64_C(1) << (8 * unit - 1);

	for (size_t i = 0; i < len; i += step) {
		uint64_t value = load_unit(p + i, unit);

		value = is_float ? value ^ sign : ~value + 1;
		store_unit(p + i, unit, value);
	}
}

/* Inlined for each unit, for the compiler to make vector code of. */
static inline __attribute__((always_inline)) void change_units(
	uint8_t *p, size_t len, size_t unit, const struct ck_dtype *dtype,
	unsigned how)
{
	if (how & CK_CHANGE_SWAP)
		for (size_t i = 0; i < len; i += unit)
			store_unit(p + i, unit,
				   __builtin_bswap64(load_unit(p + i, unit)) >>
					   (64 - 8 * unit));
	if (how & CK_CHANGE_NEG)
		negate_units(p, len, unit, unit, dtype->is_float);
	if (how & CK_CHANGE_CONJ && dtype->is_complex)
		negate_units(p + unit, len - unit, 2 * unit, unit,
			     dtype->is_float);
}

static void change_run(uint8_t *p, size_t len, const struct ck_dtype *dtype,
		       unsigned how)
{
	switch (dtype->unit) {
	case 1: change_units(p, len, 1, dtype, how); break;
	case 2: change_units(p, len, 2, dtype, how); break;
	case 4: change_units(p, len, 4, dtype, how); break;
	case 8: change_units(p, len, 8, dtype, how); break;
	default: abort(); /* no such row in the table of dtypes */
	}
}

static void change_plane(uint8_t *to, const struct plane *p, size_t run,
			 const struct ck_dtype *dtype, unsigned how)
{
	for (uint64_t i = 0; i < p->outer.count; i++)
		for (uint64_t k = 0; k < p->inner.count; k++)
			change_run(to + i * p->outer.dst + k * p->inner.dst,
				   run, dtype, how);
}

void ck_gather_change(const struct ck_gather *g, size_t i,
		      const struct ck_dtype *dtype, unsigned how)
{
	const struct ck_plan_op *c = &g->plan->copies[i];
	struct planes w;

	if (!how)
		return;
	planes_begin(&w, g->plan, c);
	do
		change_plane(g->to + w.plane.dst, &w.plane, c->run, dtype, how);
	while (planes_next(&w));
}

/* --- delivering ------------------------------------------------------------------ */

/* Converts one element, and copies up to `most` bytes of it from byte `skip` on. Returns
 * their number. */
static uint64_t deliver_part(const struct ck_delivery *d, const uint8_t *from,
			     uint64_t skip, uint64_t most, uint8_t *to)
{
	uint8_t value[CK_FLOAT32_SIZE];
	uint64_t len = ck_min(CK_FLOAT32_SIZE - skip, most);

	ck_to_float32(d->dtype, from, value, 1);
	memcpy(to, value + skip, len);
	return len;
}

static void deliver_float32(const struct ck_delivery *d, const uint8_t *from)
{
	uint64_t item = ck_dtype_at(d->dtype)->size, n, done = 0;

	if (d->skip && d->len) {
		done = deliver_part(d, from, d->skip, d->len, d->to);
		from += item;
	}
	n = (d->len - done) / CK_FLOAT32_SIZE;
	ck_to_float32(d->dtype, from, d->to + done, n);
	done += n * CK_FLOAT32_SIZE;
	if (done < d->len)
		(void)deliver_part(d, from + n * item, 0, d->len - done,
				   d->to + done);
}

void ck_deliver(const struct ck_delivery *d, const uint8_t *whole)
{
	if (d->convert)
		deliver_float32(d, whole);
	else
		memcpy(d->to, whole + d->skip, d->len);
}
