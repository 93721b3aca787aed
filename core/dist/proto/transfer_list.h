/* SPDX-License-Identifier: MIT */
/*
 * transfer_list: bytes of remote files that are to come by a round, as bytes: in a slot of a
 * gatherer, and in what the ranks of a round are asked to prepare. Each is that of one
 * rank, lies there packed, and is one message.
 *
 *	want	rank u32, body u32, bytes u32, at u32, body x u8
 */
#ifndef CK_WANTS_H
#define CK_WANTS_H

#include "ckptfs/wire.h"

enum {
	CK_WANT_HEAD = 16,  /* bytes before the body */
	CK_WANTS_MOST = 256 /* in a slot */
};

struct ck_want {
	uint32_t rank;
	uint32_t bytes;	    /* that come, at least 1 */
	uint32_t at;	    /* byte of the slot's `fill` where they go */
	struct ck_str body; /* of the READ that brings them; empty: any bytes */
};

/* Appends it to `used` bytes of `most`; false: there is no room. */
CK_MUST_USE bool ck_want_put(uint8_t *out, uint32_t most, uint32_t *used,
			     const struct ck_want *w);
/* 1: the next, borrowed; 0: there is no more; -EPROTO: what is there is none. */
CK_MUST_USE int ck_want_next(struct ck_cur *c, struct ck_want *out);

#endif
