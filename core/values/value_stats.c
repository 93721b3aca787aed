/* SPDX-License-Identifier: MIT */
/*
 * value_stats: converts blocks to double, adds the values of a block in the lanes of vectors, and
 * then the block to the whole: means and squared distances by Chan's formula, sums with
 * Neumaier's correction. Means are kept as distances from a value of the tensor, so that values
 * far from 0 lose no digits.
 *
 * The loop is compiled for any processor and for AVX2. Each lane adds its own values, and lanes
 * are added in a fixed order, so that both have the same result. In place of a value that is not
 * finite the center is added, a finite value of the block, whose distance from the center is 0.
 * The squared distances from the center are those from the mean, but for one term. As the
 * center is a value of the block, that term is at most their sum.
 *
 * Sums of squares of values above 2^511 may be above all doubles. Such a block is added again, one
 * value at a time, in long double, as are the sums of blocks.
 */
#include "value_stats.h"

#include <math.h>

typedef double doubles __attribute__((vector_size(32)));
typedef int64_t longs __attribute__((vector_size(32)));

enum { LANES = 4, ROUND = 2 * LANES };

#define INFINITE_BITS INT64_C(0x7ff0000000000000)
#define LOOP	      static inline __attribute__((always_inline))

/* Sums of the lanes of a block. */
struct lanes {
	longs zeros, infs, finites;
	doubles low, high;
	doubles sum;
	doubles distance, squares; /* sums of distances from the center */
};

/* --- one block -------------------------------------------------------------------------- */

/* Adds LANES values. A lane of a comparison is -1 or 0. */
LOOP void lanes_add(struct lanes *l, const doubles *x, const doubles *center)
{
	longs bits = (longs)*x, size = bits & INT64_MAX;
	longs finite = size < INFINITE_BITS, less;
	doubles near = (doubles)((bits & finite) | ((longs)*center & ~finite));
	doubles distance = near - *center;

	l->zeros -= size == 0;
	l->infs -= size == INFINITE_BITS;
	l->finites -= finite;
	l->sum += (doubles)(bits & finite);
	l->distance += distance;
	l->squares += distance * distance;
	less = near < l->low;
	l->low = (doubles)(((longs)near & less) | ((longs)l->low & ~less));
	less = near > l->high;
	l->high = (doubles)(((longs)near & less) | ((longs)l->high & ~less));
}

/* Adds n values, a multiple of ROUND, in two rows of lanes. */
LOOP void block_add(const double *x, size_t n, double near, struct lanes l[2])
{
	const doubles center = { near, near, near, near };
	struct lanes a = { .low = center, .high = center }, b = a;

	for (size_t i = 0; i < n; i += ROUND) {
		lanes_add(&a, (const doubles *)(const void *)(x + i), &center);
		lanes_add(&b, (const doubles *)(const void *)(x + i + LANES),
			  &center);
	}
	l[0] = a;
	l[1] = b;
}

static void block_plain(const double *x, size_t n, double near,
			struct lanes l[2])
{
	block_add(x, n, near, l);
}

#if defined(__x86_64__) && !defined(CK_WITHOUT_AVX2)
#define HAS_AVX2 1

static __attribute__((target("avx2"))) void block_avx2(const double *x,
						       size_t n, double near,
						       struct lanes l[2])
{
	block_add(x, n, near, l);
}
#endif

static void block_run(const double *x, size_t n, double near, struct lanes l[2])
{
#ifdef HAS_AVX2
	if (__builtin_cpu_supports("avx2")) {
		block_avx2(x, n, near, l);
		return;
	}
#endif
	block_plain(x, n, near, l);
}

/* --- the whole --------------------------------------------------------------------------- */

struct ck_value_stats ck_value_stats_make(uint8_t dtype)
{
	return (struct ck_value_stats){ .form = ck_value_form_of(dtype),
					.min = (double)INFINITY,
					.max = -(double)INFINITY };
}

/* Adds a number to a sum; what the sum loses is kept beside it. */
static void sum_add(long double *sum, long double *rest, long double x)
{
	long double next = *sum + x;

	*rest += fabsl(*sum) >= fabsl(x) ? *sum - next + x : x - next + *sum;
	*sum = next;
}

static double sum_of(const doubles *a, const doubles *b)
{
	doubles s = *a + *b;

	return (s[0] + s[1]) + (s[2] + s[3]);
}

/* The finite values of a block: their sum, and those of their distances from `near`. */
struct sums {
	long double sum, distance, squares;
};

/* Adds `finite` values, whose mean is near + offset; squares: of their distances from it. */
static void distances_merge(struct ck_value_stats *s, uint64_t finite,
			    long double near, long double offset,
			    long double squares)
{
	long double more = (long double)finite;
	long double all = (long double)s->finite + more, step;

	if (s->finite == 0)
		s->center = near;
	step = near - s->center + offset - s->offset;
	s->squares += squares +
		      step * step * ((long double)s->finite * (more / all));
	s->offset += step * (more / all);
	s->finite += finite;
}

/* Adds the sums of a block of `finite` values. */
static void sums_merge(struct ck_value_stats *s, const struct sums *block,
		       uint64_t finite, double near)
{
	long double more = (long double)finite;
	long double mean = block->distance / more;

	sum_add(&s->sum, &s->rest, block->sum);
	distances_merge(s, finite, near, mean,
			fmaxl(0, block->squares - mean * mean * more));
}

/* The sums of a block, of n values, whose sums in doubles are infinite. */
static struct sums large_add(const double *x, size_t n, double near)
{
	struct sums all = { 0 };

	for (size_t i = 0; i < n; i++) {
		long double distance = (long double)x[i] - near;

		if (!isfinite(x[i]))
			continue;
		all.sum += x[i];
		all.distance += distance;
		all.squares += distance * distance;
	}
	return all;
}

static struct sums sums_of(const struct lanes l[2], const double *x, size_t n,
			   double near)
{
	struct sums all = { sum_of(&l[0].sum, &l[1].sum),
			    sum_of(&l[0].distance, &l[1].distance),
			    sum_of(&l[0].squares, &l[1].squares) };

	return isfinite(all.sum + all.squares) ? all : large_add(x, n, near);
}

void ck_value_stats_merge(struct ck_value_stats *s,
			  const struct ck_value_stats *more)
{
	s->n += more->n;
	s->zeros += more->zeros;
	s->nan += more->nan;
	s->inf += more->inf;
	if (more->finite) {
		s->min = fmin(s->min, more->min);
		s->max = fmax(s->max, more->max);
		sum_add(&s->sum, &s->rest, more->sum);
		s->rest += more->rest;
		distances_merge(s, more->finite, more->center, more->offset,
				more->squares);
	}
	if (s->bins && more->bins && s->finite)
		ck_value_bins_merge(s->bins, more->bins, s->min, s->max);
}

/* n: of values x without the padding, which is NaN. Not in the frame of its caller, which has a
 * block. */
static __attribute__((noinline)) void lanes_merge(struct ck_value_stats *s,
						  const struct lanes l[2],
						  const double *x, size_t n,
						  double near)
{
	struct sums sums = sums_of(l, x, n, near);
	uint64_t infs = 0, finite = 0;

	for (unsigned i = 0; i < ROUND; i++) {
		const struct lanes *row = &l[i / LANES];
		unsigned k = i % LANES;

		s->zeros += (uint64_t)row->zeros[k];
		infs += (uint64_t)row->infs[k];
		finite += (uint64_t)row->finites[k];
	}
	s->n += n;
	s->inf += infs;
	s->nan += n - infs - finite;
	if (finite == 0)
		return;
	for (unsigned i = 0; i < ROUND; i++) {
		s->min = fmin(s->min, l[i / LANES].low[i % LANES]);
		s->max = fmax(s->max, l[i / LANES].high[i % LANES]);
	}
	sums_merge(s, &sums, finite, near);
}

static double center_of(const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (isfinite(x[i]))
			return x[i];
	return 0;
}

void ck_value_stats_add(struct ck_value_stats *s, const uint8_t *bytes,
			size_t len)
{
	double x[CK_VALUES_BLOCK] __attribute__((aligned(64)));
	struct lanes l[2];
	size_t n;

	if (s->form.size == 0)
		return;
	for (size_t left = len / s->form.size; left > 0; left -= n) {
		size_t values, padded;
		double near;

		n = (size_t)ck_min((unsigned)CK_VALUES_BLOCK / s->form.each,
				   left);
		values = n * s->form.each;
		ck_values_load(&s->form, bytes, n, x);
		near = center_of(x, values);
		padded = (values + ROUND - 1) / ROUND * ROUND;
		for (size_t i = values; i < padded; i++)
			x[i] = (double)NAN;
		block_run(x, padded, near, l);
		lanes_merge(s, l, x, values, near);
		if (s->bins && s->finite)
			ck_value_bins_add(s->bins, x, values, s->min, s->max);
		bytes += n * s->form.size;
	}
}

static long double exact_sum(const struct ck_value_stats *s)
{
	return s->sum + s->rest;
}

static long double exact_mean(const struct ck_value_stats *s)
{
	return s->finite ? exact_sum(s) / (long double)s->finite : 0;
}

double ck_value_stats_sum(const struct ck_value_stats *s)
{
	return (double)exact_sum(s);
}

double ck_value_stats_mean(const struct ck_value_stats *s)
{
	return (double)exact_mean(s);
}

double ck_value_stats_deviation(const struct ck_value_stats *s)
{
	return s->finite ? (double)sqrtl(s->squares / (long double)s->finite)
			 : 0;
}

double ck_value_stats_norm(const struct ck_value_stats *s)
{
	long double mean = exact_mean(s);

	return (double)sqrtl(s->squares + mean * mean * (long double)s->finite);
}
