/* SPDX-License-Identifier: MIT */
/*
 * What both ends share: pieces of messages, and how a thread that waits is woken.
 */
#ifndef CK_PEER_INTERNAL_H
#define CK_PEER_INTERNAL_H

#include "ckptfs/wire.h"

enum {
	CK_READ_ROW = 24, /* bytes of a move without loops */
	CK_LOOP_ROW = 16,
	CK_DIGEST_ROW = 24,
	CK_DIGEST_BYTES = 16,
	CK_LIST_HEAD = 16, /* bytes before the rows of a page */
	CK_LIST_ROW = 3,   /* bytes without the name */
	CK_LOOK_HEAD = 12, /* bytes before the names of a LOOK */
};

/* A part of a move that one READ asks for: its runs lie behind those of the part
 * before. */
struct ck_ask_part {
	struct ck_move *whole;
	struct ck_move move; /* its loops are the ask's */
	uint64_t bytes;
};

/* A text of at most CK_WIRE_NAME_MAX bytes. */
void ck_wire_text_put(struct ck_buf *b, struct ck_str text);
CK_MUST_USE bool ck_wire_text_get(struct ck_cur *c, struct ck_str *out);
/* A number that has to be 0. */
CK_MUST_USE bool ck_wire_zero(struct ck_cur *c);
/* n, 0: what READ and DIGEST begin with. n >= 1. */
CK_MUST_USE bool ck_wire_count(struct ck_cur *c, uint32_t *n);
struct ck_cur ck_wire_body(const struct ck_message *m);

/* A descriptor that is readable once it was woken, until it is drained; close(2) it.
 * Neither waits. Errors of eventfd(2). */
CK_MUST_USE int ck_event_make(void);
void ck_event_wake(int event); /* any thread */
/* Whether somebody woke it. */
bool ck_event_drain(int event);

#endif
