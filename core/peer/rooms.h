/* SPDX-License-Identifier: MIT */
/*
 * rooms: places for payloads in the memory of a link. A place is the mover's until the
 * answer has come, however long that takes, so nobody else gets it before.
 */
#ifndef CK_ROOMS_H
#define CK_ROOMS_H

#include "ckptfs/base.h"

struct ck_payload_room {
	uint64_t id; /* of the request */
	uint32_t peer;
	uint32_t first, n; /* blocks */
};

/* Zero-initialise. */
struct ck_rooms {
	uint8_t *taken; /* for each block */
	uint32_t nblocks;
	struct ck_payload_room *list;
	size_t n, cap;
};

enum { CK_ROOM_BLOCK = 64 << 10 };

/* -ENOMEM. size: of the memory, bytes. */
CK_MUST_USE int ck_rooms_make(struct ck_rooms *r, uint64_t size);
void ck_rooms_fini(struct ck_rooms *r);
/* A place of so many bytes. -EAGAIN: there is none; -ENOMEM. */
CK_MUST_USE int ck_rooms_take(struct ck_rooms *r, uint32_t peer, uint64_t id,
			      uint64_t bytes, uint64_t *place);
/* The place of a request; false: it has none. */
CK_MUST_USE bool ck_rooms_find(const struct ck_rooms *r, uint32_t peer,
			       uint64_t id, uint64_t *place, uint64_t *bytes);
void ck_rooms_give(struct ck_rooms *r, uint32_t peer, uint64_t id);
/* All of a peer. */
void ck_rooms_give_all(struct ck_rooms *r, uint32_t peer);
/* Bytes that a peer has. */
uint64_t ck_rooms_of(const struct ck_rooms *r, uint32_t peer);

#endif
