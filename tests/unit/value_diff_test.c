/* SPDX-License-Identifier: MIT */
/*
 * value_diff: integers that a double rounds to one value, and infinite tolerances and differences.
 */
#include "tap.h"
#include "values/value_diff.h"

#include <math.h>

static struct ck_value_diff diff(const char *dtype, struct ck_tolerance t,
				 const void *a, const void *b, size_t len)
{
	struct ck_value_diff d =
		ck_value_diff_make(ck_dtype_by_name(ck_str_from(dtype)), t);

	ck_value_diff_add(&d, a, b, len);
	return d;
}

static void test_long_integers(void)
{
	const int64_t a[] = { INT64_C(1) << 53, -1, INT64_MIN };
	const int64_t b[] = { (INT64_C(1) << 53) + 1, 1, INT64_MAX };
	const uint64_t p[] = { UINT64_MAX, 0 }, q[] = { UINT64_MAX - 1, 0 };
	struct ck_value_diff d = diff("int64", (struct ck_tolerance){ 1, 0 }, a,
				      b, sizeof(a));

	ok(d.max == 0x1p64);
	eq_u64(d.beyond, 2);
	d = diff("int64", (struct ck_tolerance){ 0, 0 }, a, b, sizeof(*a));
	ok(d.max == 1);
	eq_u64(d.beyond, 1);
	d = diff("uint64", (struct ck_tolerance){ 0, 0 }, p, q, sizeof(p));
	ok(ck_value_diff_mean(&d) == 0.5);
	eq_u64(d.beyond, 1);
}

static void test_infinity(void)
{
	const struct ck_tolerance any = { 0, INFINITY };
	const double a[] = { 1, 0.0, 1 }, b[] = { 0, -0.0, 2 };
	const double x = 1.7e308, y = -1.7e308;
	struct ck_value_diff d = diff("float64", any, a, b, sizeof(a));

	eq_u64(d.beyond, 1);
	d = diff("float64", any, &x, &y, sizeof(x));
	ok(isinf(ck_value_diff_mean(&d)));
}

int main(void)
{
	test_long_integers();
	test_infinity();
	return tap_done();
}
