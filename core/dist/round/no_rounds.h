/* SPDX-License-Identifier: MIT */
/*
 * no_rounds: the body of the message that a rank sends, instead of the messages
 * of rounds.h, if it takes no part in rounds. It is empty, or has a zero, which
 * is no kind of message, and the reason:
 *
 *	0 u16, text
 */
#ifndef CK_NO_ROUNDS_H
#define CK_NO_ROUNDS_H

#include "ckptfs/base.h"

enum {
	CK_NO_ROUNDS_TEXT = 255, /* most bytes of the reason */
	CK_NO_ROUNDS = 2 + CK_NO_ROUNDS_TEXT,
};

/* True if the body is such a message. */
static inline bool ck_no_rounds_is(struct ck_str body)
{
	return body.len == 0 ||
	       (body.len >= 2 && body.p[0] == 0 && body.p[1] == 0);
}

/* The reason in such a message, borrowed. It may be empty, and have any bytes:
 * the sender is not trusted. */
static inline struct ck_str ck_no_rounds_why(struct ck_str body)
{
	size_t len = body.len < 2 ? 0 : body.len - 2;

	return (struct ck_str){ len ? body.p + 2 : body.p,
				ck_min(len, CK_NO_ROUNDS_TEXT) };
}

/* Writes such a message. Returns its length in bytes. A long reason is cut. */
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
