/* SPDX-License-Identifier: MIT */
/*
 * json: appends single values as JSON.
 */
#ifndef CKPTFS_JSON_H
#define CKPTFS_JSON_H

#include "ckptfs/base.h"

/* As JSON: "..." or, of what is no UTF-8, {"$str":"<base64>"}. */
void ck_buf_json_str(struct ck_buf *b, struct ck_str s);
/* The shortest number that comes back the same, always with '.' or 'e', or
 * {"$float":"nan"}. */
void ck_buf_json_float(struct ck_buf *b, double value);
void ck_buf_i64(struct ck_buf *b, int64_t value);
/* An integer of any width: two's complement, little-endian. The time is the
 * square of the width: *steps of about 4 ns are used up; false and nothing
 * appended if there are too few. */
CK_MUST_USE bool ck_buf_json_int(struct ck_buf *b, struct ck_str le,
				 uint64_t *steps);

#endif
