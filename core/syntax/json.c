/* SPDX-License-Identifier: MIT */
/*
 * json: prints strings and numbers as JSON, so that Python's json module reads
 * the same value back: a float in its shortest form, as Python's repr() prints
 * it, and an integer of any width with all digits. No state; any thread.
 */
#include "ckptfs/json.h"
#include "pow10.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

enum { BASE = 1000000000, BASE_DIGITS = 9, CHAINS = 4 };

/* --- strings ---------------------------------------------------------------- */

static void control_add(struct ck_buf *b, char c)
{
	static const char names[] = "\"\\\b\f\n\r\t";
	static const char letters[] = "\"\\bfnrt";
	static const char hex[] = "0123456789abcdef";
	const char *at = c ? strchr(names, c) : NULL;
	char text[] = "\\u0000";

	if (at) {
		text[1] = letters[at - names];
		ck_buf_add(b, text, 2);
		return;
	}
	text[4] = hex[(uint8_t)c >> 4];
	text[5] = hex[c & 15];
	ck_buf_add(b, text, 6);
}

void ck_buf_json_str(struct ck_buf *b, struct ck_str s)
{
	size_t done = 0;

	if (!ck_utf8_valid(s)) {
		ck_buf_text(b, "{\"$str\":\"");
		ck_buf_base64(b, s);
		ck_buf_text(b, "\"}");
		return;
	}
	if (s.len == 0)
		s.p = ""; /* s.p may be NULL */
	ck_buf_text(b, "\"");
	for (size_t i = 0; i < s.len; i++) {
		if ((uint8_t)s.p[i] >= 0x20 && s.p[i] != '"' && s.p[i] != '\\')
			continue;
		ck_buf_add(b, s.p + done, i - done);
		control_add(b, s.p[i]);
		done = i + 1;
	}
	ck_buf_add(b, s.p + done, s.len - done);
	ck_buf_text(b, "\"");
}

/* --- floats ----------------------------------------------------------------- */

/* A finite number above 0: 0.DIGITS times ten to `point`. */
struct decimal {
	char digits[20];
	int ndigits;
	int point;
};

/* c * 2^q and the bounds of the decimals that read back as it, all times
 * four. */
struct interval {
	uint64_t below, value, above;
	int q;
	bool closed; /* the bounds themselves read back: c is even */
	bool uneven; /* below a power of two, doubles are twice as dense */
};

static struct interval interval_make(double value)
{
	struct interval v = { 0 };
	uint64_t bits, c;
	int exponent;

	memcpy(&bits, &value, sizeof(bits));
	c = bits & ((UINT64_C(1) << 52) - 1);
	exponent = (int)(bits >> 52);
	v.uneven = c == 0 && exponent > 1;
	if (exponent)
		c |= UINT64_C(1) << 52;
	v.q = (exponent ? exponent : 1) - 1075;
	v.closed = c % 2 == 0;
	v.value = 4 * c;
	v.below = 4 * c - 2 + v.uneven;
	v.above = 4 * c + 2;
	return v;
}

static int floor_log2_pow10(int e)
{
	return (e * 1741647) >> 19;
}

/* floor(log10(2^e)), or of 3/4 of it. */
static int floor_log10_pow2(int e, bool three_quarters)
{
	return (e * 1262611 - (three_quarters ? 524031 : 0)) >> 22;
}

/* The upper 64 bits of g * c, the lowest of them set if any below is. */
static uint64_t round_to_odd(const uint64_t g[static 2], uint64_t c)
{
	__extension__ typedef unsigned __int128 u128;
	u128 low = (u128)g[1] * c;
	u128 high = (u128)g[0] * c + (uint64_t)(low >> 64);

	return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* The shortest decimal that reads back as `value`, and the nearest of several,
 * as digits * 10^*exponent: Schubfach, R. Giulietti, "The Schubfach way to
 * render doubles", 2020. */
static uint64_t shortest(double value, int *exponent)
{
	struct interval v = interval_make(value);
	int k = floor_log10_pow2(v.q, v.uneven);
	int shift = v.q + floor_log2_pow10(-k) + 1;
	const uint64_t *g = ck_pow10 + 2 * (-k - CK_POW10_LEAST);
	uint64_t low = round_to_odd(g, v.below << shift) + !v.closed;
	uint64_t mid = round_to_odd(g, v.value << shift);
	uint64_t high = round_to_odd(g, v.above << shift) - !v.closed;
	uint64_t s = mid / 4, tens = s / 10;
	bool down, up;

	*exponent = k + 1;
	down = low <= 40 * tens;
	up = 40 * tens + 40 <= high;
	if (s >= 10 && down != up)
		return tens + up;
	*exponent = k;
	down = low <= 4 * s;
	up = 4 * s + 4 <= high;
	if (down != up)
		return s + up;
	return s + (mid > 4 * s + 2 || (mid == 4 * s + 2 && s % 2));
}

static void decimal_make(double value, struct decimal *out)
{
	int exponent, n = 0;
	uint64_t digits = shortest(value, &exponent);

	for (; digits % 10 == 0; digits /= 10)
		exponent++;
	for (uint64_t left = digits; left; left /= 10)
		n++;
	out->ndigits = n;
	out->point = exponent + n;
	for (; n > 0; digits /= 10)
		out->digits[--n] = (char)('0' + digits % 10);
}

/* Prints with an exponent below 1e-4 and from 1e16 on, as Python does. */
static void decimal_print(struct ck_buf *b, const struct decimal *dec)
{
	static const char zeros[] = "0000000000000000";
	size_t n = (size_t)dec->ndigits, whole = (size_t)dec->point;

	if (dec->point <= -4 || dec->point > 16) {
		ck_buf_add(b, dec->digits, 1);
		if (n > 1)
			ck_buf_text(b, ".");
		ck_buf_add(b, dec->digits + 1, n - 1);
		ck_buf_text(b, dec->point > 0 ? "e+" : "e-");
		if (abs(dec->point - 1) < 10)
			ck_buf_text(b, "0");
		ck_buf_i64(b, abs(dec->point - 1));
	} else if (dec->point <= 0) {
		ck_buf_text(b, "0.");
		ck_buf_add(b, zeros, (size_t)-dec->point);
		ck_buf_add(b, dec->digits, n);
	} else if (n <= whole) {
		ck_buf_add(b, dec->digits, n);
		ck_buf_add(b, zeros, whole - n);
		ck_buf_text(b, ".0");
	} else {
		ck_buf_add(b, dec->digits, whole);
		ck_buf_text(b, ".");
		ck_buf_add(b, dec->digits + whole, n - whole);
	}
}

void ck_buf_json_float(struct ck_buf *b, double value)
{
	struct decimal dec;

	if (isnan(value) || isinf(value)) {
		ck_buf_printf(b, "{\"$float\":\"%s\"}",
			      isnan(value) ? "nan"
					   : (value < 0 ? "-inf" : "inf"));
		return;
	}
	if (signbit(value))
		ck_buf_text(b, "-");
	if (value == 0) {
		ck_buf_text(b, "0.0");
		return;
	}
	decimal_make(fabs(value), &dec);
	decimal_print(b, &dec);
}

/* --- integers --------------------------------------------------------------- */

void ck_buf_decimal(struct ck_buf *b, uint64_t value)
{
	char text[20];
	size_t i = sizeof(text);

	do {
		text[--i] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	ck_buf_add(b, text + i, sizeof(text) - i);
}

void ck_buf_i64(struct ck_buf *b, int64_t value)
{
	if (value < 0)
		ck_buf_text(b, "-");
	ck_buf_decimal(b, value < 0 ? ~(uint64_t)value + 1 : (uint64_t)value);
}

/* The magnitude of a two's complement number in base 2^32, little-endian;
 * returns the limbs without zeros on top. */
static CK_WRAPS size_t magnitude(struct ck_str le, bool negative,
				 uint32_t *limbs)
{
	size_t n = le.len / 4 + 1, carry = 1;

	memset(limbs, negative ? 0xff : 0, n * sizeof(*limbs));
	if (le.len)
		memcpy(limbs, le.p, le.len); /* little-endian hosts only */
	for (size_t i = 0; negative && i < n; i++) {
		limbs[i] = ~limbs[i] + (uint32_t)carry;
		carry = carry && limbs[i] == 0;
	}
	while (n && limbs[n - 1] == 0)
		n--;
	return n;
}

static inline uint32_t divide_limb(uint64_t *rest, uint32_t limb)
{
	uint64_t value = *rest << 32 | limb;

	*rest = value % BASE;
	return (uint32_t)(value / BASE);
}

/* Divides by BASE four times in one pass, each division one limb behind the
 * previous one. A single division would stall at each limb on the remainder of
 * the one before. */
static void divide(uint32_t *limbs, size_t *n, uint32_t rests[static CHAINS])
{
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (size_t i = *n; i > 0 && i--;) {
		uint32_t limb = divide_limb(&a, limbs[i]);

		limb = divide_limb(&b, limb);
		limb = divide_limb(&c, limb);
		limbs[i] = divide_limb(&d, limb);
	}
	rests[0] = (uint32_t)a;
	rests[1] = (uint32_t)b;
	rests[2] = (uint32_t)c;
	rests[3] = (uint32_t)d;
	while (*n && limbs[*n - 1] == 0)
		--*n;
}

static void digits_print(struct ck_buf *b, const uint32_t *groups, size_t n)
{
	ck_buf_i64(b, n ? groups[n - 1] : 0);
	for (size_t i = n ? n - 1 : 0; i > 0 && i--;) {
		char text[BASE_DIGITS];
		uint32_t left = groups[i];

		for (size_t k = BASE_DIGITS; k > 0 && k--; left /= 10)
			text[k] = (char)('0' + left % 10);
		ck_buf_add(b, text, sizeof(text));
	}
}

bool ck_buf_json_int(struct ck_buf *b, struct ck_str le, uint64_t *steps)
{
	bool negative = le.len && le.p[le.len - 1] < 0;
	/* 32 / log2(10^9) is below 1.08 */
	size_t limbs = le.len / 4 + 1, room = limbs + limbs / 12 + CHAINS + 1,
	       n;
	ck_auto_free uint32_t *number = malloc(limbs * sizeof(*number));
	ck_auto_free uint32_t *groups = malloc(room * sizeof(*groups));
	size_t ngroups = 0;
	uint64_t need;

	if (!number || !groups) {
		b->err = -ENOMEM;
		return true;
	}
	n = magnitude(le, negative, number);
	if (!ck_mul(&need, n, n) || need / 2 > *steps)
		return false;
	*steps -= need / 2;
	for (; n; ngroups += CHAINS)
		divide(number, &n, groups + ngroups);
	while (ngroups && groups[ngroups - 1] == 0)
		ngroups--;
	if (negative)
		ck_buf_text(b, "-");
	digits_print(b, groups, ngroups);
	return true;
}
