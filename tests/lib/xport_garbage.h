/* SPDX-License-Identifier: MIT */
/* xport_garbage: invalid heads of messages, for any transport. */
#ifndef CK_TRANSPORT_GARBAGE_H
#define CK_TRANSPORT_GARBAGE_H

#include "dist/proto/wire.h"

/* Patched over the head of a PING or of an answer to READ. */
static const struct garbage {
	bool answer;
	uint8_t at, len, bytes[8];
} garbage[] = {
	{ false, 0, 4, "ckpv" },	    /* magic */
	{ false, 0, 1, { 0 } },		    /* magic */
	{ false, 4, 2, { 0, 0 } },	    /* version */
	{ false, 4, 2, { 2, 0 } },	    /* version */
	{ false, 6, 2, { 0, 0 } },	    /* type */
	{ false, 6, 2, { 10, 0 } },	    /* type */
	{ false, 6, 2, { 6, 1 } },	    /* type */
	{ false, 8, 4, { 2, 0, 0, 0 } },    /* flags */
	{ true, 8, 4, { 0, 0, 0, 0 } },	    /* flags: a request, with payload */
	{ true, 8, 4, { 1, 0, 0, 0x80 } },  /* flags */
	{ false, 12, 4, { 5, 0, 0, 0 } },   /* err of a request */
	{ true, 12, 4, { 5, 0, 0, 0 } },    /* err with body */
	{ true, 12, 4, { 0, 0x10, 0, 0 } }, /* err too great */
	{ false, 24, 8, { 1 } },	    /* payload of a request */
	{ true, 24, 8, { 1, 0, 0, 4 } },    /* payload too great */
	{ true, 24, 8, "\377\377\377\377\377\377\377" }, /* payload too great */
	{ true, 6, 2, { 3, 0 } },			 /* payload of a STAT */
	{ true, 32, 4, { 1, 0, 0x10, 0 } },		 /* body too great */
	{ false, 32, 4, "\377\377\377\377" },		 /* body too great */
	{ false, 40, 1, { 1 } },			 /* zeros */
	{ false, 51, 1, { 1 } },			 /* zeros */
	{ false, 63, 1, { 1 } },			 /* zeros */
};

/* head: of a PING, or of an answer to READ with that payload and body. */
static inline void garbage_put(const struct garbage *g, uint64_t payload,
			       uint32_t body, uint8_t head[CK_WIRE_HEAD])
{
	struct ck_wire_head ping = { .type = CK_WIRE_PING };
	struct ck_wire_head read = { .type = CK_WIRE_READ,
				     .answer = true,
				     .id = 7,
				     .payload = payload,
				     .body = body };

	ck_wire_head_put(g->answer ? &read : &ping, head);
	memcpy(head + g->at, g->bytes, g->len);
}

#endif
