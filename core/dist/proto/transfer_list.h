/* SPDX-License-Identifier: MIT */
/*
 * transfer_list: encoded list of ranges of remote files that a round transfers.
 * It is part of a slot of the GPU gather engine, and of the request that the
 * ranks of a round prepare. Each entry is sent by one rank, as one message, and
 * arrives packed:
 *
 *	want	rank u32, body u32, bytes u32, at u32, body x u8
 */
#ifndef CK_TRANSFER_LIST_H
#define CK_TRANSFER_LIST_H

#include "wire.h"

enum {
	CK_WANT_HEAD = 16,  /* bytes before the body */
	CK_WANTS_MOST = 256 /* entries in a slot */
};

struct ck_want {
	uint32_t rank;
	uint32_t bytes; /* bytes to be transferred, at least 1 */
	uint32_t at;	/* destination: offset in `fill` of the slot */
	/* body of the READ for these bytes; empty: any bytes */
	struct ck_str body;
};

/* Appends an entry to the `used` bytes of out, which has room for `most`. False
 * if it does not fit. */
CK_MUST_USE bool ck_want_put(uint8_t *out, uint32_t most, uint32_t *used,
			     const struct ck_want *w);
/* Parses the next entry, borrowed from c. Returns 1; 0 at the end; -EPROTO if
 * it is invalid. rank and body are not checked. */
CK_MUST_USE int ck_want_next(struct ck_cur *c, struct ck_want *out);

#endif
