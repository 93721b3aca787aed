/* SPDX-License-Identifier: MIT */
/*
 * transfer_list: encoding and parsing of transfer lists. No state, any thread.
 */
#include "transfer_list.h"

#include <errno.h>

static void put_u32(uint8_t *out, uint32_t n)
{
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(n >> 8 * i & 0xff);
}

bool ck_want_put(uint8_t *out, uint32_t most, uint32_t *used,
		 const struct ck_want *w)
{
	uint8_t *at = out + *used;

	if (most - *used < CK_WANT_HEAD ||
	    w->body.len > most - *used - CK_WANT_HEAD)
		return false;
	put_u32(at, w->rank);
	put_u32(at + 4, (uint32_t)w->body.len);
	put_u32(at + 8, w->bytes);
	put_u32(at + 12, w->at);
	if (w->body.len)
		memcpy(at + CK_WANT_HEAD, w->body.p, w->body.len);
	*used += CK_WANT_HEAD + (uint32_t)w->body.len;
	return true;
}

int ck_want_next(struct ck_cur *c, struct ck_want *out)
{
	uint32_t body;

	if (ck_cur_left(c) == 0)
		return 0;
	if (!ck_cur_u32(c, &out->rank) || !ck_cur_u32(c, &body) ||
	    !ck_cur_u32(c, &out->bytes) || !ck_cur_u32(c, &out->at) ||
	    !ck_cur_bytes(c, body, &out->body) || out->bytes == 0)
		return -EPROTO;
	return 1;
}
