/* SPDX-License-Identifier: MIT */
/*
 * liar_case: the invalid messages that malicious ranks (liar.c) send and that honest ranks
 * (honest.c) receive. Each rank from LIARS on is malicious; the case of the first one is an
 * argument of both programs.
 */
#ifndef CK_LIAR_CASE_H
#define CK_LIAR_CASE_H

#include "../lib/xport_case.h"
#include "../lib/xport_garbage.h"

enum {
	LIARS = 2,	   /* the number of honest ranks */
	PAYLOAD = 1 << 20, /* bytes, of a reply with id 7 */
	BODY = 100,
	SHUT_MSEC = 2500, /* lifetime of the rank that receives nothing */
};

/* The numbers follow those of garbage[]. */
enum lie {
	ONE_BYTE = CK_ARRAY_SIZE(garbage),
	HALF_HEAD,
	TOO_LONG,
	FAR_TOO_LONG,
	BODY_SHORT,
	BODY_LONG,
	SMALL_SHORT,
	NO_BULK,     /* a missing payload, and then garbage */
	BULK_SHORT,  /* a segment of the payload is too short */
	BULK_LONG,   /* a segment of the payload is too long */
	SECOND_LONG, /* the second segment of a large payload is too long */
	FLOOD,	     /* of garbage */
	AFTER_BYE,   /* sends after its last message */
	TAKES_NONE,  /* receives no message */
	NO_LIE,	     /* valid, but exits before MPI_Finalize */
	LIES
};

static inline uint64_t lie_payload(unsigned lie)
{
	return lie == SECOND_LONG ? 6 << 20 : PAYLOAD;
}

/* The number of its messages that an honest rank accepts. */
static inline unsigned lie_heard(unsigned lie)
{
	return lie == NO_LIE ? 3 : 1;
}

#endif
