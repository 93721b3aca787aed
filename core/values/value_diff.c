/* SPDX-License-Identifier: MIT */
/*
 * value_diff: blocks with equal bytes are only searched for elements that are not finite. Other
 * blocks are converted to double. No state.
 */
#include "value_diff.h"

#include <math.h>

struct ck_value_diff ck_value_diff_make(uint8_t dtype, struct ck_tolerance t)
{
	return (struct ck_value_diff){ .form = ck_value_form_of(dtype),
				       .tolerance = t };
}

double ck_value_diff_mean(const struct ck_value_diff *d)
{
	/* The rest of an infinite sum is NaN. */
	double sum = isinf(d->sum) ? d->sum : d->sum + d->rest;

	return d->finite ? sum / (double)d->finite : (double)NAN;
}

/* --- changed bits ------------------------------------------------------------------------- */

static uint64_t count_pairs(const uint8_t *a, const uint8_t *b, size_t len)
{
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++) {
		uint8_t bits = a[i] ^ b[i];

		n += (bits & 15) != 0;
		n += bits >> 4 != 0;
	}
	return n;
}

/* Counts the elements of `size` bytes that differ. */
static uint64_t count_changed(const uint8_t *a, const uint8_t *b, size_t len,
			      size_t size)
{
	uint64_t n = 0;

	for (size_t i = 0; i < len; i += size)
		n += memcmp(a + i, b + i, size) != 0;
	return n;
}

/* --- values -------------------------------------------------------------------------------- */

/* The sums of a block, which are added to the whole at its end. */
struct block {
	uint64_t finite, beyond;
	double max, sum, squares;
};

static void block_end(struct ck_value_diff *d, const struct block *k)
{
	double next = d->sum + k->sum;

	d->rest += d->sum >= k->sum ? d->sum - next + k->sum
				    : k->sum - next + d->sum;
	d->sum = next;
	d->squares += k->squares;
	d->finite += k->finite;
	d->beyond += k->beyond;
	d->max = fmax(d->max, k->max);
}

void ck_value_diff_merge(struct ck_value_diff *d,
			 const struct ck_value_diff *more)
{
	const struct block k = {
		.finite = more->finite,
		.beyond = more->beyond,
		.max = more->max,
		.sum = more->sum,
		.squares = more->squares,
	};

	block_end(d, &k);
	d->rest += more->rest;
	d->n += more->n;
	d->changed += more->changed;
}

/* distance: of two finite elements; size: magnitude of the second one. */
static void finite_add(struct block *k, const struct ck_tolerance *t,
		       double distance, double size)
{
	k->finite++;
	k->sum += distance;
	k->squares += distance * distance;
	k->max = distance > k->max ? distance : k->max;
	/* Infinity * 0 is NaN, and no distance is within NaN. */
	k->beyond += distance > 0 &&
		     !(distance <= t->absolute + t->relative * size);
}

static bool is_same(double x, double y)
{
	return x == y || (isnan(x) && isnan(y));
}

static void reals_add(struct ck_value_diff *d, const double *x, const double *y,
		      size_t n)
{
	struct block k = { 0 };

	for (size_t i = 0; i < n; i++)
		if (isfinite(x[i]) && isfinite(y[i]))
			finite_add(&k, &d->tolerance, fabs(x[i] - y[i]),
				   fabs(y[i]));
		else
			k.beyond += !is_same(x[i], y[i]);
	block_end(d, &k);
}

/* y: the values of `b`. */
static void longs_add(struct ck_value_diff *d, const uint8_t *a,
		      const uint8_t *b, const double *y, size_t n)
{
	struct block k = { 0 };

	for (size_t i = 0; i < n; i++)
		finite_add(
			&k, &d->tolerance,
			ck_values_long_distance(&d->form, a + 8 * i, b + 8 * i),
			fabs(y[i]));
	block_end(d, &k);
}

static void complexes_add(struct ck_value_diff *d, const double *x,
			  const double *y, size_t n)
{
	struct block k = { 0 };

	for (size_t i = 0; i < 2 * n; i += 2)
		if (isfinite(x[i]) && isfinite(x[i + 1]) && isfinite(y[i]) &&
		    isfinite(y[i + 1]))
			finite_add(&k, &d->tolerance,
				   hypot(x[i] - y[i], x[i + 1] - y[i + 1]),
				   hypot(y[i], y[i + 1]));
		else
			k.beyond += !is_same(x[i], y[i]) ||
				    !is_same(x[i + 1], y[i + 1]);
	block_end(d, &k);
}

/* Adds elements with equal bits. */
static void equals_add(struct ck_value_diff *d, const double *x, size_t n)
{
	unsigned parts = d->form.is_complex ? 2 : 1;

	for (size_t i = 0; i < n; i++)
		d->finite += isfinite(x[parts * i]) &&
			     (parts == 1 || isfinite(x[2 * i + 1]));
}

/* Adds n elements of the tensor, at most a block. */
static void block_add(struct ck_value_diff *d, const uint8_t *a,
		      const uint8_t *b, size_t n)
{
	const struct ck_value_form *f = &d->form;
	double x[CK_VALUES_BLOCK / 2], y[CK_VALUES_BLOCK / 2];
	size_t len = n * f->size, elements = f->is_complex ? n : n * f->each;

	d->n += elements;
	if (memcmp(a, b, len) == 0 && !f->is_float) {
		d->finite += elements;
		return;
	}
	ck_values_load(f, a, n, x);
	if (memcmp(a, b, len) == 0) {
		equals_add(d, x, elements);
		return;
	}
	d->changed += !f->is_complex && f->each == 2
			      ? count_pairs(a, b, len)
			      : count_changed(a, b, len, f->size);
	ck_values_load(f, b, n, y);
	if (f->is_complex)
		complexes_add(d, x, y, n);
	else if (f->is_long)
		longs_add(d, a, b, y, n);
	else
		reals_add(d, x, y, elements);
}

void ck_value_diff_add(struct ck_value_diff *d, const uint8_t *a,
		       const uint8_t *b, size_t len)
{
	const struct ck_value_form *f = &d->form;
	size_t n;

	if (f->size == 0)
		return;
	for (size_t left = len / f->size; left > 0; left -= n) {
		n = (size_t)ck_min(CK_VALUES_BLOCK / 2U / f->each, left);
		block_add(d, a, b, n);
		a += n * f->size;
		b += n * f->size;
	}
}
