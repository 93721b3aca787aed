/* SPDX-License-Identifier: MIT */
/*
 * liar_case: what ranks say that are wrong, known to them (liar.c) and to those who hear
 * it (honest.c). Each rank from LIARS on is one liar; the case of the first is an
 * argument of both programs.
 */
#ifndef CK_LIAR_CASE_H
#define CK_LIAR_CASE_H

#include "../lib/xport_case.h"
#include "../lib/xport_garbage.h"

enum {
	LIARS = 2,	   /* ranks that are honest */
	PAYLOAD = 1 << 20, /* bytes, of an answer with id 7 */
	BODY = 100,
	SHUT_MSEC = 2500, /* so long is there who takes nothing */
};

/* Behind those of garbage[]. */
enum lie {
	ONE_BYTE = CK_ARRAY_SIZE(garbage),
	HALF_HEAD,
	TOO_LONG,
	FAR_TOO_LONG,
	BODY_SHORT,
	BODY_LONG,
	SMALL_SHORT,
	NO_BULK,     /* a payload that never comes, and then garbage */
	BULK_SHORT,  /* a piece is */
	BULK_LONG,   /* a piece is */
	SECOND_LONG, /* the second piece of a large one */
	FLOOD,	     /* of garbage */
	AFTER_BYE,   /* goes on after it has said goodbye */
	TAKES_NONE,  /* of what it is sent */
	NO_LIE,	     /* and is gone when all have met to end MPI */
	LIES
};

static inline uint64_t lie_payload(unsigned lie)
{
	return lie == SECOND_LONG ? 6 << 20 : PAYLOAD;
}

/* How many messages are heard of it. */
static inline unsigned lie_heard(unsigned lie)
{
	return lie == NO_LIE ? 3 : 1;
}

#endif
