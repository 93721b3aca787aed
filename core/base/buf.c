/* SPDX-License-Identifier: MIT */
/*
 * buf: a byte buffer that grows by doubling, and the two printable forms of
 * untrusted bytes: escaped text and base64. A buffer is empty, has data, or has
 * failed (`err`), which ends in ck_buf_fini(). It has one user at a time.
 */
#include "ckptfs/base.h"

#include <errno.h>
#include <stdio.h>

void ck_buf_fini(struct ck_buf *b)
{
	free(b->data);
	*b = (struct ck_buf){ 0 };
}

/* Ensures room for `len` more bytes and a terminator. False if the buffer
 * failed. */
static bool reserve(struct ck_buf *b, size_t len)
{
	size_t need;
	size_t cap = b->cap ? b->cap : 64;
	char *data;

	if (b->err)
		return false;
	if (__builtin_add_overflow(b->len, len, &need) ||
	    __builtin_add_overflow(need, (size_t)1, &need) ||
	    need > SIZE_MAX / 2) {
		b->err = -ENOMEM;
		return false;
	}
	if (need <= b->cap)
		return true;
	while (cap < need)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data) {
		b->err = -ENOMEM;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

void ck_buf_add(struct ck_buf *b, const void *bytes, size_t len)
{
	if (!reserve(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, bytes, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void ck_buf_str(struct ck_buf *b, struct ck_str s)
{
	ck_buf_add(b, s.p, s.len);
}

void ck_buf_text(struct ck_buf *b, const char *text)
{
	ck_buf_add(b, text, strlen(text));
}

/* Appends the lowest `len` bytes of a number, little-endian. */
static void add_number(struct ck_buf *b, uint64_t value, size_t len)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(value >> 8 * i & 0xff);
	ck_buf_add(b, bytes, len);
}

void ck_buf_u8(struct ck_buf *b, uint8_t value)
{
	add_number(b, value, 1);
}

void ck_buf_u16(struct ck_buf *b, uint16_t value)
{
	add_number(b, value, 2);
}

void ck_buf_u32(struct ck_buf *b, uint32_t value)
{
	add_number(b, value, 4);
}

void ck_buf_u64(struct ck_buf *b, uint64_t value)
{
	add_number(b, value, 8);
}

void ck_buf_printf(struct ck_buf *b, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (len < 0 || !reserve(b, (size_t)len)) {
		b->err = -ENOMEM;
		return;
	}
	va_start(args, fmt);
	vsnprintf(b->data + b->len, (size_t)len + 1, fmt, args);
	va_end(args);
	b->len += (size_t)len;
}

/* Two bytes C2 80 to C2 9F are the control characters U+0080 to U+009F. */
static bool is_c1_control(const char *p, size_t len)
{
	return len == 2 && (uint8_t)p[0] == 0xc2 && (uint8_t)p[1] < 0xa0;
}

/* len: bytes of the UTF-8 character at p, 0 if it is malformed. */
static bool is_plain(const char *p, size_t len)
{
	uint8_t c = (uint8_t)*p;

	return len && !is_c1_control(p, len) && c >= 0x20 && c != 0x7f;
}

bool ck_str_plain(struct ck_str s)
{
	for (size_t i = 0, len; i < s.len; i += len) {
		len = ck_utf8_len(s.p + i, s.len - i);
		if (!is_plain(s.p + i, len))
			return false;
	}
	return true;
}

void ck_buf_escaped(struct ck_buf *b, struct ck_str s)
{
	size_t done = 0;

	for (size_t i = 0, len; i < s.len; i += len) {
		len = ck_utf8_len(s.p + i, s.len - i);
		if (s.p[i] != '%' && is_plain(s.p + i, len))
			continue;
		ck_buf_add(b, s.p + done, i - done);
		len = len ? len : 1;
		for (done = i; done < i + len; done++)
			ck_buf_printf(b, "%%%02X",
				      (unsigned)(uint8_t)s.p[done]);
	}
	if (done < s.len)
		ck_buf_add(b, s.p + done, s.len - done);
}

void ck_buf_plain_lines(struct ck_buf *b, struct ck_str text)
{
	struct ck_cur at = ck_cur_make(text.p, text.len);
	struct ck_str line;

	while (ck_cur_left(&at)) {
		bool ends = ck_cur_line(&at, &line);

		if (!ends)
			line = (struct ck_str){ (const char *)at.p,
						ck_cur_left(&at) };
		if (ck_str_plain(line))
			ck_buf_str(b, line);
		else
			ck_buf_escaped(b, line);
		if (!ends)
			return;
		ck_buf_text(b, "\n");
	}
}

void ck_buf_listed(struct ck_buf *b, struct ck_str escaped)
{
	for (size_t i = 0; i < escaped.len; i++)
		if (escaped.p[i] == ',')
			ck_buf_text(b, "%2C");
		else
			ck_buf_add(b, escaped.p + i, 1);
}

void ck_buf_base64(struct ck_buf *b, struct ck_str s)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < s.len; i += 3) {
		size_t left = s.len - i;
		uint32_t three = (uint32_t)(uint8_t)s.p[i] << 16;
		char out[4];

		if (left > 1)
			three |= (uint32_t)(uint8_t)s.p[i + 1] << 8;
		if (left > 2)
			three |= (uint8_t)s.p[i + 2];
		out[0] = digits[three >> 18];
		out[1] = digits[three >> 12 & 63];
		out[2] = left > 1 ? digits[three >> 6 & 63] : '=';
		out[3] = left > 2 ? digits[three & 63] : '=';
		ck_buf_add(b, out, 4);
	}
}
