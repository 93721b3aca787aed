/* SPDX-License-Identifier: MIT */
/*
 * pickle_text: parses the text arguments of protocol 0, and numbers of any
 * width. The results lie in the arena of the pickle; no other state.
 */
#include "pickle_internal.h"

#include <errno.h>
#include <stdio.h>

/* As CPython's limit for int(text): larger needs time that grows as the
 * square. */
enum { MAX_DIGITS = 4300, LIMBS = MAX_DIGITS / 9 + 1 };

struct ck_pv ck_text_long(struct ck_str le)
{
	uint64_t value = 0;

	if (le.len > 8)
		return (struct ck_pv){ .tag = CK_PV_BIGINT,
				       .len = (uint32_t)le.len,
				       .bytes = le.p };
	for (size_t i = le.len; i > 0 && i--;)
		value = value << 8 | (uint8_t)le.p[i];
	if (le.len && le.len < 8 && le.p[le.len - 1] < 0)
		value |= ~((UINT64_C(1) << 8 * le.len) - 1);
	return (struct ck_pv){ .tag = CK_PV_INT, .i = (int64_t)value };
}

static bool all_digits(struct ck_str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.len > 0;
}

/* Base 2^32, little-endian. */
struct limbs {
	uint32_t value[LIMBS];
	size_t n;
};

static void limbs_mul_add(struct limbs *l, uint32_t factor, uint32_t more)
{
	uint64_t carry = more;

	for (size_t i = 0; i < l->n; i++) {
		carry += (uint64_t)l->value[i] * factor;
		l->value[i] = (uint32_t)carry;
		carry >>= 32;
	}
	if (carry)
		l->value[l->n++] = (uint32_t)carry;
}

/* Nine digits at a time, or a number of them takes 50 times its bytes. */
static void limbs_read(struct limbs *l, struct ck_str digits)
{
	uint32_t factor = 1, value = 0;

	for (size_t i = 0; i < digits.len; i++) {
		factor *= 10;
		value = value * 10 + (uint32_t)(digits.p[i] - '0');
		if (factor == 1000000000 || i + 1 == digits.len) {
			limbs_mul_add(l, factor, value);
			factor = 1;
			value = 0;
		}
	}
}

/* The digits' value in base 256, little-endian, with a sign byte. */
static void decimal_to_le(struct ck_str digits, bool negative, uint8_t *le,
			  size_t len)
{
	struct limbs l;
	unsigned carry = 1;

	l.n = 0; /* limbs from n on are not read before they are set */
	limbs_read(&l, digits);
	for (size_t j = 0; j < len; j++) {
		uint32_t limb = j / 4 < l.n ? l.value[j / 4] : 0;

		le[j] = (uint8_t)(limb >> 8 * (j % 4));
	}
	for (size_t j = 0; negative && j < len; j++) {
		carry += (uint8_t)~le[j];
		le[j] = (uint8_t)carry;
		carry >>= 8;
	}
}

int ck_text_int(struct ck_vm *vm, struct ck_str s, struct ck_pv *out)
{
	bool negative = s.len && s.p[0] == '-';
	struct ck_str digits = s;
	uint8_t *le;
	size_t len;

	if (negative || (s.len && s.p[0] == '+'))
		digits = (struct ck_str){ s.p + 1, s.len - 1 };
	if (!all_digits(digits) || digits.len > MAX_DIGITS)
		return ck_vm_bad(vm, "malformed number");
	len = digits.len * 5 / 12 + 2; /* log(10) / log(256) is below 5/12 */
	le = ck_vm_alloc(vm, len);
	if (!le)
		return -ENOMEM;
	decimal_to_le(digits, negative, le, len);
	/* As short as Python writes it. */
	while (len > 1 &&
	       (le[len - 1] == 0 ? le[len - 2] < 0x80
				 : le[len - 1] == 0xff && le[len - 2] >= 0x80))
		len--;
	*out = ck_text_long((struct ck_str){ (const char *)le, len });
	return 0;
}

int ck_text_float(struct ck_vm *vm, struct ck_str s, struct ck_pv *out)
{
	char text[64];
	char *end;
	double value;

	if (s.len == 0 || s.len >= sizeof(text))
		return ck_vm_bad(vm, "malformed float");
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	value = strtod(text, &end);
	if (*end)
		return ck_vm_bad(vm, "malformed float");
	*out = (struct ck_pv){ .tag = CK_PV_FLOAT, .f = value };
	return 0;
}

struct ck_pv ck_text_str2(struct ck_str s)
{
	return (struct ck_pv){ .tag = ck_utf8_valid(s) ? CK_PV_STR
						       : CK_PV_BYTES,
			       .len = (uint32_t)s.len,
			       .bytes = s.p };
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* n hex digits at the cursor. */
static bool hex(struct ck_cur *c, unsigned n, uint32_t *out)
{
	struct ck_str digits;
	uint32_t value = 0;

	if (!ck_cur_bytes(c, n, &digits))
		return false;
	for (unsigned i = 0; i < n; i++) {
		int digit = hex_digit(digits.p[i]);

		if (digit < 0)
			return false;
		value = value << 4 | (uint32_t)digit;
	}
	*out = value;
	return true;
}

/* Decodes the escape after a backslash in a Python 2 string. */
static bool escape(struct ck_cur *c, struct ck_buf *b)
{
	static const char names[] = "\\'\"abfnrtv";
	static const char values[] = "\\'\"\a\b\f\n\r\t\v";
	uint32_t value;
	const char *at;
	uint8_t ch;

	if (!ck_cur_u8(c, &ch))
		return false;
	at = ch ? strchr(names, ch) : NULL;
	if (at) {
		ck_buf_add(b, values + (at - names), 1);
		return true;
	}
	if (ch == 'x') {
		if (!hex(c, 2, &value))
			return false;
	} else if (ch >= '0' && ch <= '7') {
		value = ch - (uint32_t)'0';
		for (int i = 0;
		     i < 2 && c->p < c->end && *c->p >= '0' && *c->p <= '7';
		     i++)
			value = value << 3 | (*c->p++ - (uint32_t)'0');
	} else {
		ck_buf_add(b, "\\", 1);
		value = ch;
	}
	ch = (uint8_t)value;
	ck_buf_add(b, &ch, 1);
	return true;
}

/* Moves the text of b into the tree. */
static int keep(struct ck_vm *vm, struct ck_buf *b, struct ck_str *out)
{
	char *copy = NULL;

	if (b->len > UINT32_MAX) {
		ck_buf_fini(b);
		return ck_vm_bad(vm, "a string of 4 GiB or more");
	}
	if (!b->err)
		copy = ck_vm_alloc(vm, b->len + 1);
	if (copy && b->len)
		memcpy(copy, b->data, b->len);
	*out = (struct ck_str){ copy, b->len };
	ck_buf_fini(b);
	return copy ? 0 : ck_fail(vm->d, ENOMEM, "pickle: out of memory");
}

int ck_text_string(struct ck_vm *vm, struct ck_str s, struct ck_pv *out)
{
	struct ck_buf b = { 0 };
	struct ck_str text;
	struct ck_cur c;
	bool good = true;
	uint8_t ch;
	int rc;

	if (s.len < 2 || (s.p[0] != '\'' && s.p[0] != '"') ||
	    s.p[s.len - 1] != s.p[0])
		return ck_vm_bad(vm, "string without quotes");
	c = ck_cur_make(s.p + 1, s.len - 2);
	while (good && ck_cur_u8(&c, &ch)) {
		if (ch == '\\')
			good = escape(&c, &b);
		else
			ck_buf_add(&b, &ch, 1);
	}
	if (!good) {
		ck_buf_fini(&b);
		return ck_vm_bad(vm, "malformed escape in a string");
	}
	rc = keep(vm, &b, &text);
	if (rc == 0)
		*out = ck_text_str2(text);
	return rc;
}

void ck_pickle_add_point(struct ck_buf *b, uint32_t cp)
{
	char out[4];
	size_t len = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = len; i > 1 && i--; cp >>= 6)
		out[i] = (char)(0x80 | (cp & 0x3f));
	out[0] = (char)(first[len] | cp);
	ck_buf_add(b, out, len);
}

/* \uXXXX or \UXXXXXXXX at the cursor, whose backslash was taken. */
static bool unicode_escape(struct ck_cur *c, struct ck_buf *b)
{
	uint32_t cp = '\\';
	uint8_t ch = c->p < c->end ? *c->p : 0;

	if (ch == 'u' || ch == 'U') {
		c->p++;
		if (!hex(c, ch == 'u' ? 4 : 8, &cp) || cp > 0x10ffff)
			return false;
	}
	ck_pickle_add_point(b, cp);
	return true;
}

int ck_text_unicode(struct ck_vm *vm, struct ck_str s, struct ck_pv *out)
{
	struct ck_cur c = ck_cur_make(s.p, s.len);
	struct ck_buf b = { 0 };
	struct ck_str text;
	bool good = true;
	uint8_t ch;
	int rc;

	while (good && ck_cur_u8(&c, &ch)) {
		if (ch == '\\')
			good = unicode_escape(&c, &b);
		else
			ck_pickle_add_point(&b, ch);
	}
	if (!good) {
		ck_buf_fini(&b);
		return ck_vm_bad(vm, "malformed escape in a string");
	}
	rc = keep(vm, &b, &text);
	if (rc == 0)
		*out = (struct ck_pv){ .tag = CK_PV_STR,
				       .len = (uint32_t)text.len,
				       .bytes = text.p };
	return rc;
}
