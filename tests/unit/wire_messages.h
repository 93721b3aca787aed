/* SPDX-License-Identifier: MIT */
/*
 * wire_messages: one of each message, made by hand: what wire.h says, a second time.
 */
#ifndef CK_WIRE_MESSAGES_H
#define CK_WIRE_MESSAGES_H

#include "../lib/wire_case.h"
#include "wire_cases.h"

enum { ID = 0x1122334455, EPOCH = 7 };

static uint8_t to[64]; /* of the moves of READ */
static const struct ck_loop loops[] = { { 3, 16, 100 }, { 2, 5, 10 } };
static struct ck_copy_desc batch[] = {
	{ .file = 0, .nloops = 2, .loops = loops, .fpos = 5, .run = 4 },
	{ .file = 1, .fpos = 0x123456789a, .run = 8 },
};

static inline void put_move(struct ck_buf *b, const struct ck_copy_desc *m)
{
	ck_buf_u32(b, m->file);
	ck_buf_u32(b, m->nloops);
	ck_buf_u64(b, m->fpos);
	ck_buf_u64(b, m->run);
	for (uint32_t k = 0; k < m->nloops; k++) {
		ck_buf_u64(b, m->loops[k].count);
		ck_buf_u64(b, m->loops[k].src);
	}
}

static inline void put_counted(struct ck_buf *b, uint32_t n)
{
	ck_buf_u32(b, n);
	ck_buf_u32(b, 0);
}

static inline void put_request(struct ck_buf *b, enum which which)
{
	if (which == LIST)
		ck_buf_add(b, "\5\0\0\0\0\0\0\0\3\0sub", 13);
	if (which == LOOK)
		ck_buf_add(b, "\1\0\0\0\2\0\0\0\2\0\0\0\1\0a\5\0sub/b", 22);
	if (which == READ) {
		put_counted(b, 2);
		put_move(b, &batch[0]);
		put_move(b, &batch[1]);
	}
	if (which == DIGEST) {
		put_counted(b, 2);
		for (uint32_t i = 0; i < 2; i++) {
			put_counted(b, i);
			ck_buf_u64(b, 100 + i);
			ck_buf_u64(b, 1000);
		}
	}
}

static inline void put_looked(struct ck_buf *b, uint32_t number, uint8_t seen,
			      uint8_t why, uint32_t err, uint32_t trouble)
{
	ck_buf_u32(b, number);
	ck_buf_u8(b, seen);
	ck_buf_u8(b, why);
	ck_buf_u16(b, 0);
	ck_buf_u32(b, err);
	ck_buf_u32(b, trouble);
	ck_buf_u32(b, seen ? S_IFREG | 0640 : 0);
	ck_buf_u32(b, seen ? 1000 : 0);
	ck_buf_u32(b, seen ? 100 : 0);
	ck_buf_u32(b, seen ? 0044 : 0);
	ck_buf_u32(b, seen ? 999999999 : 0);
	ck_buf_u64(b, seen ? 12345 : 0);
	ck_buf_u64(b, seen ? (uint64_t)-2 : 0);
}

static inline void put_answer(struct ck_buf *b, enum which which)
{
	if (which == A_LIST)
		ck_buf_add(b,
			   "\x4d\0\0\0\0\0\0\0\2\0\0\0\1\0\0\0"
			   "\1\1\0a\3\2\0bc",
			   25);
	if (which == A_LOOK) {
		ck_buf_u32(b, 2);
		put_looked(b, 17, 1, 0, 0, ESTALE);
		put_looked(b, 18, 0, 0, 0, EACCES);
	}
	if (which == A_READ)
		ck_buf_add(b, "\x55\x44\x33\x22\x11\0\0\0\0\0\0\0\5\0\0\0", 16);
	if (which == A_DIGEST)
		ck_buf_add(b, "0123456789abcdef", 16);
}

static const uint8_t packed[] = "aaaabbbbccccddddeeeeffffgggggggg";

static inline void put_message(struct ck_buf *b, enum which which)
{
	struct ck_buf body = { 0 };
	struct ck_wire_head head = { .type = (uint16_t)(which % AN_ANSWER),
				     .answer = which >= AN_ANSWER,
				     .id = ID,
				     .epoch = EPOCH };

	put_request(&body, which);
	put_answer(&body, which);
	head.body = (uint32_t)body.len;
	head.payload = which == A_READ ? 32 : 0;
	wire_add(b, &head, &body, packed);
	ck_buf_fini(&body);
}

#endif
