/* SPDX-License-Identifier: MIT */
/*
 * json: appends single values as JSON. Any thread.
 */
#ifndef CKPTFS_JSON_H
#define CKPTFS_JSON_H

#include "ckptfs/base.h"

/* Appends "..." or, for bytes that are not UTF-8, {"$str":"<base64>"}. */
void ck_buf_json_str(struct ck_buf *b, struct ck_str s);
/* Appends the shortest number that reads back as `value`, always with '.' or
 * 'e', or {"$float":"nan"}. */
void ck_buf_json_float(struct ck_buf *b, double value);
/* Append an integer in decimal. */
void ck_buf_decimal(struct ck_buf *b, uint64_t value);
void ck_buf_i64(struct ck_buf *b, int64_t value);
/* Appends an integer of any width: two's complement, little-endian. The time
 * grows with the square of the width and is taken from *steps, of about 4 ns
 * each. False if too few are left: then nothing is appended. */
CK_MUST_USE bool ck_buf_json_int(struct ck_buf *b, struct ck_str le,
				 uint64_t *steps);

#endif
