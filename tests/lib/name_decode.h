/* SPDX-License-Identifier: MIT */
/*
 * name_decode: the inverse of ck_name_stem(), which the program does not need.
 */
#ifndef CK_NAME_DECODE_H
#define CK_NAME_DECODE_H

#include "ckptfs/model.h"

#include <errno.h>

/* 0 to 15, or 16 for other characters than upper-case hex digits. */
static inline unsigned hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'A' && c <= 'F')
		return (unsigned)(c - 'A') + 10;
	return 16;
}

static inline bool unescape(struct ck_str stem, struct ck_buf *out)
{
	for (size_t i = 0; i < stem.len; i++) {
		unsigned high, low;
		uint8_t byte;

		if (stem.p[i] != '%') {
			ck_buf_add(out, stem.p + i, 1);
			continue;
		}
		if (stem.len - i < 3)
			return false;
		high = hex_value(stem.p[i + 1]);
		low = hex_value(stem.p[i + 2]);
		if (high > 15 || low > 15)
			return false;
		byte = (uint8_t)(high << 4 | low);
		ck_buf_add(out, &byte, 1);
		i += 2;
	}
	return true;
}

/* A name has one spelling: what does not encode to the stem given is no
 * stem. That refuses needless escapes, raw control bytes and all else that
 * ck_name_stem() never writes. */
static inline int decode_exactly(struct ck_str stem, struct ck_buf *name,
				 struct ck_buf *again)
{
	bool same;

	if (!ck_str_is(stem, "%_") && (stem.len == 0 || !unescape(stem, name)))
		return -EINVAL;
	ck_name_stem((struct ck_str){ name->data, name->len }, 1, again);
	if (name->err || again->err)
		return -ENOMEM;
	same = ck_str_eq((struct ck_str){ again->data, again->len }, stem);
	return same ? 0 : -EINVAL;
}

/* Appends the name that a stem stands for. Returns 0, or: -EINVAL if it is no stem; -ENOENT
 * if it is shortened (`%~`): only the catalog knows its name. */
static inline int name_decode(struct ck_str stem, struct ck_buf *out)
{
	struct ck_buf name = { 0 }, again = { 0 };
	int rc;

	if (ck_str_starts(stem, CK_STR("%~")))
		return -ENOENT;
	if (stem.len > 200)
		return -EINVAL;
	rc = decode_exactly(stem, &name, &again);
	if (rc == 0)
		ck_buf_add(out, name.data, name.len);
	if (rc == 0 && out->err)
		rc = out->err;
	ck_buf_fini(&name);
	ck_buf_fini(&again);
	return rc;
}

#endif
