/* SPDX-License-Identifier: MIT */
/*
 * value_change: random tensors of each dtype against value_stats.h and value_diff.h, which NumPy
 * checks, in blocks of all lengths; and integers that a double rounds to one value.
 */
#include "tap.h"
#include "values/value_change.h"
#include "values/value_diff.h"
#include "values/value_stats.h"

#include <math.h>

enum { MOST = 700, CASES = 60 };

static bool is_near(double a, double b)
{
	return (isnan(a) && isnan(b)) || a == b ||
	       fabs(a - b) <= 1e-12 * fabs(b);
}

/* Bytes whose values are of similar sizes; some are NaN or infinite. */
static void fill(uint64_t *seed, uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		*seed = *seed * UINT64_C(6364136223846793005) + 1;
		bytes[i] = (uint8_t)(*seed >> 56);
	}
}

/* Floats of 64 bits whose squares are not infinite. */
static void tame(uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i + 8 <= len; i += 8) {
		uint64_t bits;

		memcpy(&bits, bytes + i, sizeof(bits));
		if ((bits >> 52 & 0x7ff) != 0x7ff)
			bits = (bits & ~(UINT64_C(0x7f) << 56)) | UINT64_C(0x3f)
									  << 56;
		memcpy(bytes + i, &bits, sizeof(bits));
	}
}

static unsigned count_wrong(uint8_t dtype, const uint8_t *now,
			    const uint8_t *was, size_t len)
{
	struct ck_value_change alone = ck_value_change_make(dtype),
			       both = alone;
	struct ck_value_stats stats = ck_value_stats_make(dtype);
	struct ck_value_diff diff =
		ck_value_diff_make(dtype, (struct ck_tolerance){ 0 });
	double norm;

	ck_value_change_add(&alone, now, NULL, len);
	ck_value_change_add(&both, now, was, len);
	ck_value_stats_add(&stats, now, len);
	ck_value_diff_add(&diff, now, was, len);
	norm = stats.finite ? ck_value_stats_norm(&stats) : (double)NAN;
	return !(both.n == stats.n && both.nan == stats.nan &&
		 both.inf == stats.inf && both.finite == stats.finite &&
		 alone.nan == stats.nan && alone.inf == stats.inf &&
		 alone.both == 0 &&
		 both.both == diff.finite * (both.form.is_complex ? 2 : 1) &&
		 is_near(ck_value_change_norm(&both), norm) &&
		 is_near(ck_value_change_norm(&alone), norm) &&
		 is_near(both.differences, diff.squares));
}

static void test_random(uint8_t dtype)
{
	static uint8_t now[MOST * 16 + 1], was[MOST * 16 + 1];
	const struct ck_value_form f = ck_value_form_of(dtype);
	uint64_t seed = tap_seed(4103);
	unsigned wrong = 0;

	for (size_t i = 0; i < CASES; i++) {
		size_t n = i < 12 ? i : seed % MOST, len = n * f.size;

		fill(&seed, now + 1, len);
		fill(&seed, was + 1, len);
		if (f.is_float && f.size == 8 * f.each)
			tame(now + 1, len), tame(was + 1, len);
		if (i % 3 == 0)
			memcpy(was + 1, now + 1, len / 2);
		wrong += count_wrong(dtype, now + 1, was + 1, len);
	}
	eq_u64(wrong, 0);
}

static void test_long_integers(void)
{
	const int64_t a[] = { INT64_C(1) << 53, -1, INT64_MIN };
	const int64_t b[] = { (INT64_C(1) << 53) + 1, 1, INT64_MIN };
	struct ck_value_change c =
		ck_value_change_make(ck_dtype_by_name(CK_STR("int64")));

	ck_value_change_add(&c, (const uint8_t *)a, (const uint8_t *)b,
			    sizeof(a));
	eq_u64(c.both, 3);
	ok(c.differences == 5);
}

int main(void)
{
	for (uint8_t i = 1; ck_dtype_at(i) != ck_dtype_at(CK_DTYPE_UNKNOWN);
	     i++)
		if (ck_value_form_of(i).size)
			test_random(i);
	test_long_integers();
	return tap_done();
}
