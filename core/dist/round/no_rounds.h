/* SPDX-License-Identifier: MIT */
/*
 * no_rounds: what a rank says, instead of messages of rounds.h, that takes no part in rounds:
 * nothing, or why, behind a number that no kind of message has.
 *
 *	0 u16, text
 */
#ifndef CK_NO_ROUNDS_H
#define CK_NO_ROUNDS_H

#include "ckptfs/base.h"

enum {
	CK_NO_ROUNDS_TEXT = 255, /* bytes, at most */
	CK_NO_ROUNDS = 2 + CK_NO_ROUNDS_TEXT,
};

static inline bool ck_no_rounds_is(struct ck_str body)
{
	return body.len == 0 ||
	       (body.len >= 2 && body.p[0] == 0 && body.p[1] == 0);
}

/* Of one that is that: borrowed; it may be empty, and have any bytes. */
static inline struct ck_str ck_no_rounds_why(struct ck_str body)
{
	size_t len = body.len < 2 ? 0 : body.len - 2;

	return (struct ck_str){ len ? body.p + 2 : body.p,
				ck_min(len, CK_NO_ROUNDS_TEXT) };
}

/* So many bytes of it. */
static inline size_t ck_no_rounds_put(char out[static CK_NO_ROUNDS],
				      struct ck_str why)
{
	size_t len = ck_min(why.len, CK_NO_ROUNDS_TEXT);

	memset(out, 0, 2);
	if (len)
		memcpy(out + 2, why.p, len);
	return 2 + len;
}

#endif
