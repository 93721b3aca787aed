/* SPDX-License-Identifier: MIT */
/*
 * html_json: characters that have a meaning in HTML become \u escapes, which JSON and ECMAScript
 * read back. No state.
 */
#include "html_json.h"

#include <math.h>

static void escape_add(struct ck_buf *b, unsigned unit)
{
	static const char hex[] = "0123456789abcdef";
	const char text[] = { '\\',
			      'u',
			      hex[unit >> 12 & 15],
			      hex[unit >> 8 & 15],
			      hex[unit >> 4 & 15],
			      hex[unit & 15] };

	ck_buf_add(b, text, sizeof(text));
}

/* The code unit to escape at p, of which `len` bytes are one character; 0 if it stays. */
static unsigned escaped_unit(const char *p, size_t len)
{
	uint8_t c = (uint8_t)*p, last = (uint8_t)p[len - 1];

	if (len == 1)
		return c < 0x20 || c == 0x7f || strchr("<>&\"\\", c) ? c : 0;
	if (len == 2 && c == 0xc2 && last < 0xa0)
		return last; /* C1 control characters */
	if (len == 3 && memcmp(p, "\xe2\x80", 2) == 0 &&
	    (last == 0xa8 || last == 0xa9))
		return 0x2000U | (last - 0x80U);
	return 0;
}

/* The length of a surrogate in the form of UTF-8, as Python's surrogatepass has it; else 1. */
static size_t malformed_len(const char *p, size_t len)
{
	const uint8_t *u = (const uint8_t *)p;

	return len >= 3 && u[0] == 0xed && u[1] >= 0xa0 && u[1] < 0xc0 &&
			       u[2] >= 0x80 && u[2] < 0xc0
		       ? 3
		       : 1;
}

void ck_html_json_str(struct ck_buf *b, struct ck_str s)
{
	size_t done = 0, len;

	ck_buf_text(b, "\"");
	for (size_t i = 0; i < s.len; i += len) {
		unsigned unit = 0xfffd;

		len = ck_utf8_len(s.p + i, s.len - i);
		if (len) {
			unit = escaped_unit(s.p + i, len);
			if (!unit && s.p[i])
				continue;
		} else {
			len = malformed_len(s.p + i, s.len - i);
		}
		ck_buf_add(b, s.p + done, i - done);
		escape_add(b, unit);
		done = i + len;
	}
	if (done < s.len)
		ck_buf_add(b, s.p + done, s.len - done);
	ck_buf_text(b, "\"");
}

void ck_html_json_float(struct ck_buf *b, double value)
{
	if (!isfinite(value))
		ck_buf_text(b, "null");
	else if (value >= 0 && value < 1e15 && value == floor(value) &&
		 !signbit(value))
		ck_buf_decimal(b, (uint64_t)value);
	else
		ck_buf_json_float(b, value);
}
