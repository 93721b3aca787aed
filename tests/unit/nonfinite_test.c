/* SPDX-License-Identifier: MIT */
/*
 * nonfinite: each dtype against the values that value_form.h converts: all patterns of 8 and 16
 * bits, special ones of wider units; and one such value at many places of a buffer.
 */
#include "tap.h"
#include "values/nonfinite.h"
#include "values/value_form.h"

#include <math.h>

#define MOST  ((size_t)8300) /* two pieces of the search, and a rest */
#define PIECE ((size_t)4096)

static bool has_nonfinite(const struct ck_value_form *f, const uint8_t *bytes)
{
	double x[2];

	ck_values_load(f, bytes, 1, x);
	return !isfinite(x[0]) || (f->each == 2 && !isfinite(x[1]));
}

/* Compares one element. */
static unsigned count_wrong(uint8_t dtype, const uint8_t *bytes)
{
	const struct ck_value_form f = ck_value_form_of(dtype);
	const struct ck_nonfinite_form form = ck_nonfinite_form_of(dtype);

	return ck_nonfinite_is_in(&form, bytes, f.size) !=
	       has_nonfinite(&f, bytes);
}

/* Units whose exponent, sign and some bits of the fraction are any. */
static void test_patterns(uint8_t dtype)
{
	const struct ck_value_form f = ck_value_form_of(dtype);
	const uint32_t patterns = f.size == 1 ? 1 << 8 : 1 << 16;
	unsigned wrong = 0;

	for (uint32_t i = 0; i < patterns; i++)
		for (unsigned place = 0; place < f.size; place += 2) {
			uint8_t bytes[16] = { 0 };

			bytes[place] = (uint8_t)i;
			if (place + 1 < f.size)
				bytes[place + 1] = (uint8_t)(i >> 8);
			wrong += count_wrong(dtype, bytes);
		}
	for (unsigned i = 0; i < 256; i++) {
		uint8_t bytes[16];

		memset(bytes, (int)i, sizeof(bytes));
		wrong += count_wrong(dtype, bytes);
	}
	eq_u64(wrong, 0);
}

/* Places near the ends of pieces and of the buffer. */
static bool is_near_end(size_t at)
{
	return (at + 64) % PIECE < 128 || at + 100 > MOST;
}

/* A value at places of a buffer that begins at an odd address. */
static void test_places(uint8_t dtype)
{
	const struct ck_nonfinite_form form = ck_nonfinite_form_of(dtype);
	static uint8_t bytes[MOST + 1];
	unsigned missed = 0, more = 0;

	for (size_t at = 0; at + form.width <= MOST; at += form.width) {
		size_t len = MOST - MOST % form.width;

		if (!is_near_end(at))
			continue;
		memset(bytes, 0, sizeof(bytes));
		more += ck_nonfinite_is_in(&form, bytes + 1, len);
		memcpy(bytes + 1 + at, form.bits, form.width);
		missed += !ck_nonfinite_is_in(&form, bytes + 1, len);
		missed += !ck_nonfinite_is_in(&form, bytes + 1,
					      at + form.width);
		more += ck_nonfinite_is_in(&form, bytes + 1, at);
	}
	eq_u64(missed, 0);
	eq_u64(more, 0);
}

int main(void)
{
	unsigned with = 0;

	for (uint8_t i = 1; ck_dtype_at(i) != ck_dtype_at(CK_DTYPE_UNKNOWN);
	     i++) {
		if (ck_value_form_of(i).size == 0)
			continue;
		test_patterns(i);
		if (ck_nonfinite_form_of(i).width == 0)
			continue;
		test_places(i);
		with++;
	}
	eq_u64(with, 13);
	return tap_done();
}
