/* SPDX-License-Identifier: MIT */
/*
 * value_change: converts blocks to double, and adds their values in the lanes of vectors. The loop
 * is compiled for any processor and for AVX2; lanes are added in a fixed order, so that both have
 * the same result.
 */
#include "value_change.h"

#include <math.h>

typedef double doubles __attribute__((vector_size(32)));
typedef int64_t longs __attribute__((vector_size(32)));

enum {
	LANES = 4,
	ROUND = 2 * LANES,
	MOST = CK_VALUES_BLOCK / 2, /* values of a block */
};

#define INFINITE_BITS INT64_C(0x7ff0000000000000)
#define LOOP	      static inline __attribute__((always_inline))

/* The values of a block, padded with NaN to a multiple of ROUND. */
struct block {
	double now[MOST] __attribute__((aligned(64)));
	double was[MOST] __attribute__((aligned(64)));
};

/* Sums of the lanes of a block. */
struct lanes {
	longs infs, finites, both;
	doubles squares, differences;
};

/* --- one block -------------------------------------------------------------------------- */

/* A lane of a comparison is -1 or 0. */
#define IS_FINITE(x) (((longs)(x)&INT64_MAX) < INFINITE_BITS)

LOOP void lanes_add(struct lanes *l, const doubles *x)
{
	longs finite = IS_FINITE(*x);
	doubles value = (doubles)((longs)*x & finite);

	l->finites -= finite;
	l->infs -= ((longs)*x & INT64_MAX) == INFINITE_BITS;
	l->squares += value * value;
}

/* Adds differences. The parts of a complex element are neighbours. */
LOOP void lanes_compare(struct lanes *l, const doubles *x, const doubles *y,
			bool is_complex)
{
	const longs other = { 1, 0, 3, 2 };
	longs both = IS_FINITE(*x) & IS_FINITE(*y);
	doubles difference;

	if (is_complex)
		both &= __builtin_shuffle(both, other);
	difference = (doubles)((longs)(*x - *y) & both);
	l->both -= both;
	l->differences += difference * difference;
}

/* Adds n values, a multiple of ROUND, in two rows of lanes. */
LOOP void block_add(const struct block *b, size_t n, bool compares,
		    bool is_complex, struct lanes l[2])
{
	struct lanes sums[2] = { 0 };

	for (size_t i = 0; i < n; i += LANES) {
		const doubles *x = (const doubles *)(const void *)(b->now + i);
		const doubles *y = (const doubles *)(const void *)(b->was + i);
		struct lanes *row = &sums[i / LANES % 2];

		lanes_add(row, x);
		if (compares)
			lanes_compare(row, x, y, is_complex);
	}
	l[0] = sums[0];
	l[1] = sums[1];
}

/* How blocks are added. */
enum how { ALONE, COMPARED, COMPLEX };

LOOP void block_add_how(const struct block *b, size_t n, enum how how,
			struct lanes l[2])
{
	if (how == ALONE)
		block_add(b, n, false, false, l);
	else if (how == COMPARED)
		block_add(b, n, true, false, l);
	else
		block_add(b, n, true, true, l);
}

static void block_plain(const struct block *b, size_t n, enum how how,
			struct lanes l[2])
{
	block_add_how(b, n, how, l);
}

#if defined(__x86_64__) && !defined(CK_WITHOUT_AVX2)
#define HAS_AVX2 1

static __attribute__((target("avx2"))) void block_avx2(const struct block *b,
						       size_t n, enum how how,
						       struct lanes l[2])
{
	block_add_how(b, n, how, l);
}
#endif

static void block_run(const struct block *b, size_t n, enum how how,
		      struct lanes l[2])
{
#ifdef HAS_AVX2
	if (__builtin_cpu_supports("avx2")) {
		block_avx2(b, n, how, l);
		return;
	}
#endif
	block_plain(b, n, how, l);
}

/* --- the whole -------------------------------------------------------------------------- */

struct ck_value_change ck_value_change_make(uint8_t dtype)
{
	return (struct ck_value_change){ .form = ck_value_form_of(dtype) };
}

static double sum_of(const doubles *a, const doubles *b)
{
	doubles s = *a + *b;

	return (s[0] + s[1]) + (s[2] + s[3]);
}

static uint64_t count_of(const longs *a, const longs *b)
{
	longs s = *a + *b;

	return (uint64_t)(s[0] + s[1] + s[2] + s[3]);
}

/* values: without the padding, which is NaN. */
static void lanes_merge(struct ck_value_change *c, const struct lanes l[2],
			size_t values)
{
	uint64_t infs = count_of(&l[0].infs, &l[1].infs);
	uint64_t finite = count_of(&l[0].finites, &l[1].finites);

	c->n += values;
	c->inf += infs;
	c->nan += values - infs - finite;
	c->finite += finite;
	c->both += count_of(&l[0].both, &l[1].both);
	c->squares += sum_of(&l[0].squares, &l[1].squares);
	c->differences += sum_of(&l[0].differences, &l[1].differences);
}

/* Adds differences of n integers of 64 bits. */
static void longs_compare(struct ck_value_change *c, const uint8_t *now,
			  const uint8_t *was, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		double difference = ck_values_long_distance(
			&c->form, now + 8 * i, was + 8 * i);

		sum += difference * difference;
	}
	c->both += n;
	c->differences += sum;
}

static enum how how_of(const struct ck_value_form *f, bool compares)
{
	if (!compares || f->is_long)
		return ALONE;
	return f->is_complex ? COMPLEX : COMPARED;
}

/* Adds n elements, at most a block. */
static void elements_add(struct ck_value_change *c, const uint8_t *now,
			 const uint8_t *was, size_t n)
{
	const struct ck_value_form *f = &c->form;
	size_t values = n * f->each;
	size_t padded = (values + ROUND - 1) / ROUND * ROUND;
	struct lanes l[2];
	struct block b;

	ck_values_load(f, now, n, b.now);
	if (was && !f->is_long)
		ck_values_load(f, was, n, b.was);
	for (size_t i = values; i < padded; i++)
		b.now[i] = b.was[i] = (double)NAN;
	block_run(&b, padded, how_of(f, was != NULL), l);
	lanes_merge(c, l, values);
	if (was && f->is_long)
		longs_compare(c, now, was, n);
}

void ck_value_change_add(struct ck_value_change *c, const uint8_t *now,
			 const uint8_t *was, size_t len)
{
	const struct ck_value_form *f = &c->form;
	size_t n;

	if (f->size == 0)
		return;
	for (size_t left = len / f->size; left > 0; left -= n) {
		n = (size_t)ck_min((unsigned)MOST / f->each, left);
		elements_add(c, now, was, n);
		now += n * f->size;
		if (was)
			was += n * f->size;
	}
}

double ck_value_change_norm(const struct ck_value_change *c)
{
	return c->finite ? sqrt(c->squares) : (double)NAN;
}

double ck_value_change_distance(const struct ck_value_change *c)
{
	return c->both ? sqrt(c->differences) : (double)NAN;
}
