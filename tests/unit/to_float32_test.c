/* SPDX-License-Identifier: MIT */
/*
 * to_float32: all bit patterns of each dtype, against values by ldexp(), at odd addresses.
 */
#include "model/to_float32.h"
#include "tap.h"

#include <math.h>

static const struct {
	const char *name;
	int size, exponent, fraction, bias; /* bytes; bits; bits */
	int nan; /* 0: as IEEE 754; 1: all ones; 2: the pattern of -0 */
} kinds[] = {
	{ "float16", 2, 5, 10, 15, 0 },
	{ "bfloat16", 2, 8, 7, 127, 0 },
	{ "float8_e4m3fn", 1, 4, 3, 7, 1 },
	{ "float8_e5m2", 1, 5, 2, 15, 0 },
	{ "float8_e4m3fnuz", 1, 4, 3, 8, 2 },
	{ "float8_e5m2fnuz", 1, 5, 2, 16, 2 },
	{ "float8_e8m0fnu", 1, 8, 0, 127, 1 },
};

static double value_of(size_t k, unsigned bits)
{
	int top = 8 * kinds[k].size - 1, most = (1 << kinds[k].exponent) - 1;
	bool is_signed = kinds[k].fraction > 0;
	unsigned fraction = bits & ((1U << kinds[k].fraction) - 1);
	int exponent = (int)(bits >> kinds[k].fraction) & most;
	double sign = is_signed && bits >> top ? -1 : 1;
	unsigned rest = is_signed ? bits & ~(1U << top) : bits;

	if (kinds[k].nan == 2 && bits == 1U << top)
		return NAN;
	if (kinds[k].nan == 1 && rest == (is_signed ? 0x7fU : 0xffU))
		return NAN;
	if (kinds[k].nan == 0 && exponent == most)
		return fraction ? NAN : sign * INFINITY;
	if (!is_signed)
		return ldexp(1, exponent - kinds[k].bias);
	if (exponent == 0)
		return sign *
		       ldexp(fraction, 1 - kinds[k].bias - kinds[k].fraction);
	return sign * ldexp(fraction + (1U << kinds[k].fraction),
			    exponent - kinds[k].bias - kinds[k].fraction);
}

static bool is_same(const uint8_t *got, double want)
{
	float value, wanted = (float)want;

	memcpy(&value, got, sizeof(value));
	return isnan(want) ? isnan(value)
			   : memcmp(&value, &wanted, sizeof(value)) == 0;
}

static void test_all(size_t k)
{
	static uint8_t from[(1 << 17) + 1], to[(1 << 18) + 1];
	uint8_t dtype = ck_dtype_by_name(ck_str_from(kinds[k].name));
	unsigned n = 1U << (8 * kinds[k].size), wrong = 0;

	for (unsigned i = 0; i < n; i++)
		memcpy(from + 1 + i * (unsigned)kinds[k].size, &i,
		       (size_t)kinds[k].size);
	ok(ck_dtype_fits_float32(dtype));
	ck_to_float32(dtype, from + 1, to + 1, n);
	for (unsigned i = 0; i < n; i++)
		wrong += !is_same(to + 1 + 4 * i, value_of(k, i));
	eq_u64(wrong, 0);
}

int main(void)
{
	static const char *const others[] = { "float64", "int8",
					      "bool",	 "complex64",
					      "qint8",	 "float4_e2m1fn_x2",
					      "unknown" };

	for (size_t k = 0; k < CK_ARRAY_SIZE(kinds); k++)
		test_all(k);
	for (size_t i = 0; i < CK_ARRAY_SIZE(others); i++)
		ok(!ck_dtype_fits_float32(
			ck_dtype_by_name(ck_str_from(others[i]))));
	ok(ck_dtype_fits_float32(ck_dtype_float32()));
	return tap_done();
}
