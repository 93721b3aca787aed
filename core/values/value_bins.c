/* SPDX-License-Identifier: MIT */
/*
 * value_bins: fine bin i has the values x with floor(x / 2^exponent) = base + i. The division by a
 * power of two is exact. Half of the fine bins are in use after a change of the width, so that the
 * next change is far away. The processor's AVX2 units are used if it has them, with the same
 * result. No state beside the struct.
 */
#include "value_bins.h"

#include <math.h>

typedef double doubles __attribute__((vector_size(32)));
typedef int64_t longs __attribute__((vector_size(32)));
typedef int32_t ints __attribute__((vector_size(16)));

#define INFINITE_BITS INT64_C(0x7ff0000000000000)

enum {
	HALF_BITS = 13, /* 2^13 is half of CK_FINE_BINS */
	HALF = CK_FINE_BINS / 2,
	BLOCK = 320,
	LANES = 4,
	EXPONENT_MIN = -1023, /* 2^1023 is finite */
	MANTISSA_BITS = 52,
};

/* --- the 32 bins -------------------------------------------------------------------------- */

struct ck_wide_bins ck_wide_bins_make(double min, double max)
{
	struct ck_wide_bins w = { .min = min, .max = max };
	double step = (max - min) / CK_WIDE_BINS;

	/* A difference that no double holds: each term is at most the larger edge. */
	for (unsigned i = 0; i < CK_WIDE_BINS; i++)
		w.edges[i] = isfinite(step)
				     ? min + i * step
				     : min / CK_WIDE_BINS * (CK_WIDE_BINS - i) +
					       max / CK_WIDE_BINS * i;
	w.edges[CK_WIDE_BINS] = max;
	return w;
}

unsigned ck_wide_bin_of(const struct ck_wide_bins *w, double x)
{
	double range = w->max / 2 - w->min / 2;
	unsigned i;

	if (w->min == w->max)
		return 0;
	/* A range below the smallest normal number may be rounded to 0. */
	i = range > 0 ? (unsigned)((x / 2 - w->min / 2) / range * CK_WIDE_BINS)
		      : 0;
	i = (unsigned)ck_min(i, CK_WIDE_BINS - 1);
	while (i > 0 && x < w->edges[i])
		i--;
	while (i < CK_WIDE_BINS - 1 && x >= w->edges[i + 1])
		i++;
	return i;
}

/* --- fine bins ------------------------------------------------------------------------------ */

void ck_value_bins_clear(struct ck_value_bins *b)
{
	b->is_set = false;
	memset(b->counts, 0, sizeof(b->counts));
}

/* The number of the fine bin of a value. */
static int64_t place_of(double x, int exponent)
{
	return (int64_t)floor(ldexp(x, -exponent));
}

/* The smallest exponent by which the range needs at most half of the fine bins. */
static int exponent_of(double min, double max)
{
	double range = max / 2 - min / 2, size = fmax(fabs(min), fabs(max));
	int exponent = EXPONENT_MIN;

	if (size > 0 && ilogb(size) - MANTISSA_BITS > exponent)
		exponent = ilogb(size) - MANTISSA_BITS;
	if (range > 0 && ilogb(range) + 1 - HALF_BITS > exponent)
		exponent = ilogb(range) + 1 - HALF_BITS;
	while (place_of(max, exponent) - place_of(min, exponent) >= HALF)
		exponent++;
	return exponent;
}

/* Moves all counts into fine bins of another width and base. */
static void counts_move(struct ck_value_bins *b, int exponent, int64_t base)
{
	int shift = exponent - b->exponent;

	shift = shift < 63 ? shift : 63;
	memcpy(b->spare, b->counts, sizeof(b->spare));
	memset(b->counts, 0, CK_FINE_BINS * sizeof(*b->counts));
	for (int64_t i = 0; i < CK_FINE_BINS; i++)
		if (b->spare[i])
			b->counts[((b->base + i) >> shift) - base] +=
				b->spare[i];
}

/* Makes room for a range, with at least the exponent `least`. A value next to the last fine bin may
 * be rounded into the one behind, which must exist. */
static void room_make(struct ck_value_bins *b, double min, double max,
		      int least)
{
	int64_t first, last, base;
	int exponent;

	if (b->is_set && b->exponent >= least && min >= b->low && max < b->high)
		return;
	exponent = exponent_of(min, max);
	exponent = exponent < least ? least : exponent;
	if (b->is_set && b->exponent > exponent)
		exponent = b->exponent;
	first = place_of(min, exponent);
	last = place_of(max, exponent);
	base = first - (CK_FINE_BINS - (last - first + 1)) / 2;
	if (b->is_set)
		counts_move(b, exponent, base);
	b->exponent = exponent;
	b->base = base;
	b->low = ldexp((double)base, exponent);
	b->high = ldexp((double)(base + CK_FINE_BINS - 1), exponent);
	b->is_set = true;
}

/* Finds the fine bins of values, in vectors. A lane of a comparison is -1 or 0. */
static inline __attribute__((always_inline)) void places_loop(
	const double *x, size_t n, double scale, double base, int32_t *out)
{
	const longs others = (longs)(doubles){ CK_FINE_BINS, CK_FINE_BINS,
					       CK_FINE_BINS, CK_FINE_BINS };

	for (size_t i = 0; i < n; i += LANES) {
		doubles v = *(const doubles *)(const void *)(x + i);
		longs finite = ((longs)v & INT64_MAX) < INFINITE_BITS;
		doubles at = v * scale - base;

		at = (doubles)(((longs)at & finite) | (others & ~finite));
		*(ints *)(void *)(out + i) = __builtin_convertvector(at, ints);
	}
}

static void places_plain(const double *x, size_t n, double scale, double base,
			 int32_t *out)
{
	places_loop(x, n, scale, base, out);
}

#if defined(__x86_64__) && !defined(CK_WITHOUT_AVX2)
#define HAS_AVX2 1

static __attribute__((target("avx2"))) void places_avx2(const double *x,
							size_t n, double scale,
							double base,
							int32_t *out)
{
	places_loop(x, n, scale, base, out);
}
#endif

static void places_find(const double *x, size_t n, double scale, double base,
			int32_t *out)
{
#ifdef HAS_AVX2
	if (__builtin_cpu_supports("avx2")) {
		places_avx2(x, n, scale, base, out);
		return;
	}
#endif
	places_plain(x, n, scale, base, out);
}

void ck_value_bins_add(struct ck_value_bins *b, const double *x, size_t n,
		       double min, double max)
{
	int32_t at[BLOCK] __attribute__((aligned(32)));

	room_make(b, min, max, EXPONENT_MIN);
	places_find(x, n, ldexp(1, -b->exponent), (double)b->base, at);
	for (size_t i = 0; i < n; i++)
		b->counts[at[i]]++;
}

void ck_value_bins_merge(struct ck_value_bins *b,
			 const struct ck_value_bins *more, double min,
			 double max)
{
	int shift;

	if (!more->is_set)
		return;
	room_make(b, min, max, more->exponent);
	shift = b->exponent - more->exponent;
	shift = shift < 63 ? shift : 63;
	for (int64_t i = 0; i < CK_FINE_BINS; i++)
		if (more->counts[i])
			b->counts[((more->base + i) >> shift) - b->base] +=
				more->counts[i];
}

void ck_value_bins_sum(const struct ck_value_bins *b, double min, double max,
		       uint64_t out[static CK_WIDE_BINS])
{
	const struct ck_wide_bins w = ck_wide_bins_make(min, max);

	for (int64_t i = 0; i < CK_FINE_BINS; i++) {
		double x;

		if (!b->counts[i])
			continue;
		x = ldexp((double)(b->base + i), b->exponent);
		out[ck_wide_bin_of(&w, fmin(fmax(x, min), max))] +=
			b->counts[i];
	}
}
