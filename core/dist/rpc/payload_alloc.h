/* SPDX-License-Identifier: MIT */
/*
 * payload_alloc: requests of a link that were not answered yet, and places for their payloads in
 * its memory. A place is the mover's until the answer has come, however long that takes,
 * so nobody else gets it before; and so long the request is its owner's burden, whoever
 * still waits for it here.
 */
#ifndef CK_PAYLOAD_ALLOC_H
#define CK_PAYLOAD_ALLOC_H

#include "ckptfs/base.h"

struct ck_payload_room {
	uint64_t id; /* of the request */
	uint32_t peer;
	uint32_t first, n; /* blocks; none: no payload will come */
	uint32_t body;	   /* bytes of the request's */
};

/* What a peer has of all this. */
struct ck_payload_alloc_sum {
	uint64_t requests, bodies; /* bytes */
	uint64_t bytes;		   /* of places */
};

/* Zero-initialise. */
struct ck_payload_alloc {
	uint8_t *taken; /* for each block */
	uint32_t nblocks;
	struct ck_payload_room *list;
	size_t n, cap;
};

enum { CK_ROOM_BLOCK = 64 << 10 };

/* -ENOMEM. size: of the memory, bytes. */
CK_MUST_USE int ck_payload_alloc_make(struct ck_payload_alloc *r,
				      uint64_t size);
void ck_payload_alloc_fini(struct ck_payload_alloc *r);
/* Enters a request with so many bytes of a body, and finds a place for `bytes` bytes of
 * payload, if that is not 0. -EAGAIN: there is none; -ENOMEM. */
CK_MUST_USE int ck_payload_alloc_take(struct ck_payload_alloc *r, uint32_t peer,
				      uint64_t id, uint32_t body,
				      uint64_t bytes, uint64_t *place);
/* The place of a request; false: it has none. */
CK_MUST_USE bool ck_payload_alloc_find(const struct ck_payload_alloc *r,
				       uint32_t peer, uint64_t id,
				       uint64_t *place, uint64_t *bytes);
void ck_payload_alloc_give(struct ck_payload_alloc *r, uint32_t peer,
			   uint64_t id);
/* All of a peer. */
void ck_payload_alloc_give_all(struct ck_payload_alloc *r, uint32_t peer);
struct ck_payload_alloc_sum ck_payload_alloc_of(
	const struct ck_payload_alloc *r, uint32_t peer);

#endif
