/* SPDX-License-Identifier: MIT */
/*
 * dist_internal: what client and server side share: sizes and helpers of
 * messages, and a flag that wakes a thread in poll(2).
 */
#ifndef CK_DIST_INTERNAL_H
#define CK_DIST_INTERNAL_H

#include "dist/proto/wire.h"

enum {
	CK_READ_ROW = 24, /* bytes of a copy descriptor without loops */
	CK_LOOP_ROW = 16,
	CK_DIGEST_ROW = 24,
	CK_DIGEST_BYTES = 16,
	CK_LIST_HEAD = 16, /* bytes before the rows of a page */
	CK_LIST_ROW = 3,   /* bytes of a row without its name */
	CK_STAT_HEAD = 12, /* bytes before the names of a STAT */
};

/* The part of a copy descriptor that one READ requests. The runs of the parts
 * follow each other in packed order. */
struct ck_query_part {
	struct ck_copy_desc *whole;
	struct ck_copy_desc desc; /* its loops belong to the ck_query */
	uint64_t bytes;
};

/* Writes a text of at most CK_WIRE_NAME_MAX bytes. */
void ck_wire_text_put(struct ck_buf *b, struct ck_str text);
/* Reads a text, borrowed from c. False if c is too short or the text longer
 * than CK_WIRE_NAME_MAX. */
CK_MUST_USE bool ck_wire_text_get(struct ck_cur *c, struct ck_str *out);
/* Reads a u32. False unless it is there and 0. */
CK_MUST_USE bool ck_wire_zero(struct ck_cur *c);
/* Reads the first fields of READ and DIGEST: n, which must be 1 or more, and 0.
 * False if they are not so. */
CK_MUST_USE bool ck_wire_count(struct ck_cur *c, uint32_t *n);
/* A cursor at the beginning of the body of m. */
struct ck_cur ck_wire_body(const struct ck_message *m);

/* Creates an event: a descriptor that is readable from ck_event_wake() until
 * ck_event_drain(). Returns the descriptor, to be closed by close(2); or errors
 * of eventfd(2). */
CK_MUST_USE int ck_event_make(void);
void ck_event_wake(int event); /* Sets the event. Never blocks. Any thread. */
/* Clears the event. Never blocks. True if it was set. */
bool ck_event_drain(int event);

#endif
