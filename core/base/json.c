/* SPDX-License-Identifier: MIT */
/*
 * json: strings and numbers as JSON spells them, so that Python's json gives
 * the same value back: a float in the shortest form that does, as Python's
 * repr() has it, and an integer of any width in all its digits.
 */
#include "ckptfs/base.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

enum { BASE = 1000000000, BASE_DIGITS = 9 };

/* --- strings ---------------------------------------------------------------- */

static void control_add(struct ck_buf *b, char c)
{
	static const char names[] = "\"\\\b\f\n\r\t";
	static const char letters[] = "\"\\bfnrt";
	const char *at = c ? strchr(names, c) : NULL;

	if (at)
		ck_buf_printf(b, "\\%c", letters[at - names]);
	else
		ck_buf_printf(b, "\\u%04x", (unsigned)(uint8_t)c);
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

/* A finite number that is not negative: 0.DIGITS times ten to `point`. */
struct decimal {
	char digits[20];
	int ndigits;
	int point;
};

/* The nearest number of n digits; whether it comes back as value. */
static bool nearest(double value, int n, struct decimal *out)
{
	char text[40];

	snprintf(text, sizeof(text), "%.*e", n - 1, value);
	out->digits[0] = text[0];
	if (n > 1)
		memcpy(out->digits + 1, text + 2, (size_t)n - 1);
	out->ndigits = n;
	out->point = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1;
	return strtod(text, NULL) == value;
}

static bool comes_back(double value, const struct decimal *dec)
{
	char text[40];

	snprintf(text, sizeof(text), "0.%.*se%d", dec->ndigits, dec->digits,
		 dec->point);
	return strtod(text, NULL) == value;
}

/* Below a power of two, doubles are twice as dense: a number of n digits
 * above it may come back where the nearest one, below it, does not. */
static bool above(double value, int n, struct decimal *out)
{
	int exponent;

	if (frexp(value, &exponent) != 0.5)
		return false;
	(void)nearest(value, n, out);
	for (int i = n; i-- > 0;) {
		if (out->digits[i] != '9') {
			out->digits[i]++;
			return comes_back(value, out);
		}
		out->digits[i] = '0';
	}
	return false; /* only nines: the longer form will do */
}

/* Digits that a number with fewer than 53 bits needs. */
static int least_digits(double value, struct decimal *out)
{
	int least = 1;

	for (int most = 17; least < most;) {
		int n = (least + most) / 2;

		if (nearest(value, n, out))
			most = n;
		else
			least = n + 1;
	}
	return least;
}

/* Numbers with 53 bits need 15 to 17 digits: what fewer say, 15 say with
 * zeros behind. */
static void shortest(double value, struct decimal *out)
{
	int n = value < 0x1p-1022 ? least_digits(value, out) : 15;

	while (n < 17 && !nearest(value, n, out) && !above(value, n, out))
		n++;
	if (n == 17)
		(void)nearest(value, n, out);
	while (out->ndigits > 1 && out->digits[out->ndigits - 1] == '0')
		out->ndigits--;
}

/* As Python: an exponent below 1e-4 and from 1e16 on. */
static void decimal_print(struct ck_buf *b, const struct decimal *dec)
{
	static const char zeros[] = "0000000000000000";
	size_t n = (size_t)dec->ndigits, whole = (size_t)dec->point;

	if (dec->point <= -4 || dec->point > 16) {
		ck_buf_add(b, dec->digits, 1);
		if (n > 1)
			ck_buf_text(b, ".");
		ck_buf_add(b, dec->digits + 1, n - 1);
		ck_buf_printf(b, "e%c%02d", dec->point > 0 ? '+' : '-',
			      abs(dec->point - 1));
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
	shortest(fabs(value), &dec);
	decimal_print(b, &dec);
}

/* --- integers --------------------------------------------------------------- */

/* The magnitude of a two's complement number in base 2^32, little-endian;
 * returns the limbs without zeros on top. */
static size_t magnitude(struct ck_str le, bool negative, uint32_t *limbs)
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

/* Divides by BASE; returns the remainder. */
static uint32_t divide(uint32_t *limbs, size_t *n)
{
	uint64_t rest = 0;

	for (size_t i = *n; i-- > 0;) {
		rest = rest << 32 | limbs[i];
		limbs[i] = (uint32_t)(rest / BASE);
		rest %= BASE;
	}
	while (*n && limbs[*n - 1] == 0)
		--*n;
	return (uint32_t)rest;
}

static void digits_print(struct ck_buf *b, const uint32_t *groups, size_t n)
{
	ck_buf_printf(b, "%u", n ? groups[n - 1] : 0);
	for (size_t i = n ? n - 1 : 0; i-- > 0;) {
		char text[BASE_DIGITS];
		uint32_t left = groups[i];

		for (size_t k = BASE_DIGITS; k-- > 0; left /= 10)
			text[k] = (char)('0' + left % 10);
		ck_buf_add(b, text, sizeof(text));
	}
}

bool ck_buf_json_int(struct ck_buf *b, struct ck_str le, uint64_t *steps)
{
	bool negative = le.len && le.p[le.len - 1] < 0;
	/* 32 / log2(10^9) is below 1.08 */
	size_t limbs = le.len / 4 + 1, room = limbs + limbs / 12 + 1, n;
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
	while (n)
		groups[ngroups++] = divide(number, &n);
	if (negative)
		ck_buf_text(b, "-");
	digits_print(b, groups, ngroups);
	return true;
}
