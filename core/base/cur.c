/* SPDX-License-Identifier: MIT */
/*
 * cur: a bounded cursor, the only code that steps through untrusted bytes. A
 * cursor is a pair of pointers, without memory of its own, for one thread.
 */
#include "ckptfs/base.h"

struct ck_cur ck_cur_make(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	return (struct ck_cur){ p, len ? p + len : p };
}

size_t ck_cur_left(const struct ck_cur *c)
{
	return (size_t)(c->end - c->p);
}

/* Reads the next `len` bytes, at most 8, as a little-endian number. */
static bool number(struct ck_cur *c, size_t len, uint64_t *out)
{
	uint64_t value = 0;

	if (ck_cur_left(c) < len)
		return false;
	for (size_t i = len; i > 0 && i--;)
		value = value << 8 | c->p[i];
	c->p += len;
	*out = value;
	return true;
}

bool ck_cur_u8(struct ck_cur *c, uint8_t *out)
{
	uint64_t value;

	if (!number(c, 1, &value))
		return false;
	*out = (uint8_t)value;
	return true;
}

bool ck_cur_u16(struct ck_cur *c, uint16_t *out)
{
	uint64_t value;

	if (!number(c, 2, &value))
		return false;
	*out = (uint16_t)value;
	return true;
}

bool ck_cur_u32(struct ck_cur *c, uint32_t *out)
{
	uint64_t value;

	if (!number(c, 4, &value))
		return false;
	*out = (uint32_t)value;
	return true;
}

bool ck_cur_u64(struct ck_cur *c, uint64_t *out)
{
	return number(c, 8, out);
}

bool ck_cur_skip(struct ck_cur *c, uint64_t len)
{
	if (len > ck_cur_left(c))
		return false;
	c->p += len;
	return true;
}

bool ck_cur_bytes(struct ck_cur *c, uint64_t len, struct ck_str *out)
{
	const char *p = (const char *)c->p;

	if (!ck_cur_skip(c, len))
		return false;
	*out = (struct ck_str){ p, (size_t)len };
	return true;
}

bool ck_cur_line(struct ck_cur *c, struct ck_str *out)
{
	const uint8_t *nl = NULL;

	if (ck_cur_left(c))
		nl = memchr(c->p, '\n', ck_cur_left(c));
	if (!nl)
		return false;
	*out = (struct ck_str){ (const char *)c->p, (size_t)(nl - c->p) };
	c->p = nl + 1;
	return true;
}
