/* SPDX-License-Identifier: MIT */
/*
 * value_tally: two ways to tally a tensor.
 *
 * Values of at most 16 bits have at most 65,536 bit patterns. Each is counted, and all figures are
 * computed from the counts at the end. Neighbouring values are counted in two tables, so that equal
 * ones need not wait for each other. Their counts have 32 bits, and are moved to wider ones before
 * they could overflow.
 *
 * Other values are added to a ck_value_stats with fine bins.
 */
#include "value_tally.h"
#include "value_stats.h"

#include <endian.h>
#include <math.h>

/* Most patterns that narrow counts may have. */
#ifndef CK_TALLY_NARROW
#define CK_TALLY_NARROW UINT32_MAX
#endif

enum {
	PATTERNS = 65536,
	BLOCK = 128, /* patterns that are converted at once */
	APART = 592, /* counts */
};

struct ck_value_tally {
	struct ck_value_form form;
	unsigned bits; /* of a pattern: 8 or 16; 0: patterns are not counted */
	uint64_t recent; /* patterns in `narrow` */
	bool has_wide;	 /* `wide` is in use */
	/* The second table is not at a multiple of 4 KiB from the first one: a load may wait
	 * for a store whose address has the same low bits. */
	uint32_t narrow[2][PATTERNS + APART];
	uint64_t wide[PATTERNS];
	/* Values with their numbers, made at the end. */
	double value[PATTERNS];
	uint64_t count[PATTERNS];
	size_t n;
	struct ck_value_stats stats;
	struct ck_value_bins bins;
};

struct ck_value_tally *ck_value_tally_make(void)
{
	return calloc(1, sizeof(struct ck_value_tally));
}

void ck_value_tally_free(struct ck_value_tally *t)
{
	free(t);
}

void ck_value_tally_begin(struct ck_value_tally *t, uint8_t dtype)
{
	struct ck_value_form whole = ck_value_form_of(dtype);
	size_t n = (size_t)1 << t->bits;

	if (t->bits) {
		memset(t->narrow[0], 0, n * sizeof(*t->narrow[0]));
		memset(t->narrow[1], 0, n * sizeof(*t->narrow[1]));
	}
	if (t->has_wide)
		memset(t->wide, 0, sizeof(t->wide));
	t->has_wide = false;
	t->recent = 0;
	t->form = ck_value_form_part(&whole);
	t->bits = t->form.size <= 2 ? 8U * t->form.size : 0;
	if (t->form.size == 0 || t->bits)
		return;
	t->stats = ck_value_stats_make(dtype);
	ck_value_bins_clear(&t->bins);
	t->stats.bins = &t->bins;
}

/* --- patterns ------------------------------------------------------------------------------- */

static void narrow_move(struct ck_value_tally *t)
{
	for (size_t i = 0; i < PATTERNS; i++)
		t->wide[i] += (uint64_t)t->narrow[0][i] + t->narrow[1][i];
	memset(t->narrow, 0, sizeof(t->narrow));
	t->has_wide = true;
	t->recent = 0;
}

static void count_8(struct ck_value_tally *t, const uint8_t *bytes, size_t n)
{
	uint32_t *a = t->narrow[0], *b = t->narrow[1];
	size_t i = 0;

	for (; i + 2 <= n; i += 2) {
		a[bytes[i]]++;
		b[bytes[i + 1]]++;
	}
	if (i < n)
		a[bytes[i]]++;
}

static void count_16(struct ck_value_tally *t, const uint8_t *bytes, size_t n)
{
	uint32_t *a = t->narrow[0], *b = t->narrow[1];
	uint16_t last;
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		uint64_t four;

		memcpy(&four, bytes + 2 * i, sizeof(four));
		four = le64toh(four);
		a[four & 0xffff]++;
		b[four >> 16 & 0xffff]++;
		a[four >> 32 & 0xffff]++;
		b[four >> 48]++;
	}
	for (; i < n; i++) {
		memcpy(&last, bytes + 2 * i, sizeof(last));
		a[le16toh(last)]++;
	}
}

void ck_value_tally_add(struct ck_value_tally *t, const uint8_t *bytes,
			size_t len)
{
	size_t n = t->bits ? len / t->form.size : 0;

	if (t->bits == 0) {
		ck_value_stats_add(&t->stats, bytes, len);
		return;
	}
	for (size_t some; n > 0; n -= some, bytes += some * t->form.size) {
		some = (size_t)ck_min(n, CK_TALLY_NARROW - t->recent);
		if (t->bits == 8)
			count_8(t, bytes, some);
		else
			count_16(t, bytes, some);
		t->recent += some;
		if (t->recent == CK_TALLY_NARROW)
			narrow_move(t);
	}
}

void ck_value_tally_merge(struct ck_value_tally *t,
			  const struct ck_value_tally *more)
{
	if (t->bits == 0) {
		ck_value_stats_merge(&t->stats, &more->stats);
		return;
	}
	narrow_move(t);
	for (size_t i = 0; i < PATTERNS; i++) {
		t->wide[i] += (uint64_t)more->narrow[0][i] + more->narrow[1][i];
		t->wide[i] += more->has_wide ? more->wide[i] : 0;
	}
}

/* --- figures of patterns --------------------------------------------------------------------- */

/* Lists the values of the patterns [first, first + BLOCK) and their numbers. */
static void block_list(struct ck_value_tally *t, size_t first)
{
	uint64_t count[BLOCK], any = 0;
	uint8_t bytes[2 * BLOCK];
	double value[2 * BLOCK];
	unsigned each = t->form.each;

	for (size_t i = 0; i < BLOCK; i++) {
		count[i] = (uint64_t)t->narrow[0][first + i] +
			   t->narrow[1][first + i];
		count[i] += t->has_wide ? t->wide[first + i] : 0;
		any |= count[i];
	}
	if (any == 0)
		return;
	for (size_t i = 0; i < BLOCK; i++) {
		bytes[i * t->form.size] = (uint8_t)(first + i);
		if (t->form.size == 2)
			bytes[2 * i + 1] = (uint8_t)((first + i) >> 8);
	}
	ck_values_load(&t->form, bytes, BLOCK, value);
	for (size_t i = 0; i < (size_t)BLOCK * each; i++)
		if (count[i / each]) {
			t->value[t->n] = value[i];
			t->count[t->n++] = count[i / each];
		}
}

/* Counts the values that are not finite, and removes them from the list. */
static void list_sort_out(struct ck_value_tally *t, struct ck_figures *out)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		double x = t->value[i];

		out->n += t->count[i];
		if (isnan(x))
			out->nan += t->count[i];
		else if (isinf(x))
			out->inf += t->count[i];
		if (!isfinite(x))
			continue;
		out->zeros += x == 0 ? t->count[i] : 0;
		out->finite += t->count[i];
		out->min = n ? fmin(out->min, x) : x;
		out->max = n ? fmax(out->max, x) : x;
		t->value[n] = x;
		t->count[n++] = t->count[i];
	}
	t->n = n;
}

static void list_sum(const struct ck_value_tally *t, struct ck_figures *out)
{
	long double sum = 0, squares = 0, distances = 0, mean;
	struct ck_wide_bins wide = ck_wide_bins_make(out->min, out->max);

	for (size_t i = 0; i < t->n; i++) {
		long double part = (long double)t->value[i] * t->count[i];

		sum += part;
		squares += part * t->value[i];
		out->bins[ck_wide_bin_of(&wide, t->value[i])] += t->count[i];
	}
	mean = sum / out->finite;
	for (size_t i = 0; i < t->n; i++)
		distances += (t->value[i] - mean) * (t->value[i] - mean) *
			     t->count[i];
	out->mean = (double)mean;
	out->deviation = (double)sqrtl(distances / out->finite);
	out->norm = (double)sqrtl(squares);
}

static void patterns_end(struct ck_value_tally *t, struct ck_figures *out)
{
	size_t patterns = (size_t)1 << t->bits;

	t->n = 0;
	for (size_t i = 0; i < patterns; i += BLOCK)
		block_list(t, i);
	list_sort_out(t, out);
	if (t->n)
		list_sum(t, out);
}

/* --- figures of a stream ----------------------------------------------------------------------- */

static void stream_end(const struct ck_value_tally *t, struct ck_figures *out)
{
	const struct ck_value_stats *s = &t->stats;

	out->n = s->n;
	out->zeros = s->zeros;
	out->nan = s->nan;
	out->inf = s->inf;
	out->finite = s->finite;
	if (s->finite == 0)
		return;
	out->min = s->min;
	out->max = s->max;
	out->mean = ck_value_stats_mean(s);
	out->deviation = ck_value_stats_deviation(s);
	out->norm = ck_value_stats_norm(s);
	ck_value_bins_sum(&t->bins, s->min, s->max, out->bins);
}

void ck_value_tally_end(struct ck_value_tally *t, struct ck_figures *out)
{
	*out = (struct ck_figures){ .has_values = t->form.size > 0 };
	if (t->bits)
		patterns_end(t, out);
	else if (t->form.size)
		stream_end(t, out);
}
