/* SPDX-License-Identifier: MIT */
/*
 * payload_alloc: the table of requests in flight on a link, and the allocator
 * of blocks in its shared memory for their payloads.
 *
 * A request keeps its entry and its blocks until its reply has arrived or its
 * peer is lost, even if the caller has cancelled it: the rank may still write
 * the blocks, and the file server still holds the request. Guarded by the lock
 * of the link.
 */
#ifndef CK_PAYLOAD_ALLOC_H
#define CK_PAYLOAD_ALLOC_H

#include "ckptfs/base.h"

struct ck_payload_room {
	uint64_t id; /* of the request */
	uint32_t peer;
	uint32_t first, n; /* blocks; n is 0 if the reply has no payload */
	uint32_t body;	   /* bytes of the request's body */
};

/* Totals of one peer. */
struct ck_payload_alloc_sum {
	uint64_t requests, bodies; /* bodies: bytes */
	uint64_t bytes;		   /* bytes of allocated blocks */
};

/* Zero-initialise. */
struct ck_payload_alloc {
	uint8_t *taken; /* a flag for each block */
	uint32_t nblocks;
	struct ck_payload_room *list;
	size_t n, cap;
};

enum { CK_ROOM_BLOCK = 64 << 10 };

/* size: bytes of the memory. Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_payload_alloc_make(struct ck_payload_alloc *r,
				      uint64_t size);
void ck_payload_alloc_fini(struct ck_payload_alloc *r);
/* Enters a request that has `body` bytes of body, and allocates blocks for
 * `bytes` bytes of payload unless bytes is 0. *place: offset of the blocks in
 * the memory. Returns 0, or: -EAGAIN if no run of free blocks is long enough;
 * -ENOMEM. */
CK_MUST_USE int ck_payload_alloc_take(struct ck_payload_alloc *r, uint32_t peer,
				      uint64_t id, uint32_t body,
				      uint64_t bytes, uint64_t *place);
/* Finds the blocks of a request: their offset, and their length in bytes. False
 * if the request is unknown or has no payload. */
CK_MUST_USE bool ck_payload_alloc_find(const struct ck_payload_alloc *r,
				       uint32_t peer, uint64_t id,
				       uint64_t *place, uint64_t *bytes);
/* Removes a request and frees its blocks; does nothing if it is unknown. */
void ck_payload_alloc_give(struct ck_payload_alloc *r, uint32_t peer,
			   uint64_t id);
/* Removes all requests of a peer. */
void ck_payload_alloc_give_all(struct ck_payload_alloc *r, uint32_t peer);
struct ck_payload_alloc_sum ck_payload_alloc_of(
	const struct ck_payload_alloc *r, uint32_t peer);

#endif
