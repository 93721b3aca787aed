/* SPDX-License-Identifier: MIT */
/*
 * forward_table: what a rank has passed on to others for its mount, and was not answered yet: an
 * answer that is none to any of it is not passed back. One thread at a time.
 */
#ifndef CK_FORWARD_TABLE_H
#define CK_FORWARD_TABLE_H

#include "ckptfs/wire.h"

/* Of one rank. */
struct ck_forward_table_sum {
	uint32_t open;	 /* requests */
	uint64_t bodies; /* bytes of these */
	bool lost;	 /* nothing more comes of it */
};

struct ck_forward_table {
	struct ck_forward_table_row **buckets;
	struct ck_forward_table_sum *ranks;
	uint32_t size; /* ranks */
};

/* -ENOMEM. */
CK_MUST_USE int ck_forward_table_init(struct ck_forward_table *p,
				      uint32_t size);
void ck_forward_table_fini(struct ck_forward_table *p);
/* A request that goes to a rank, which is not lost; its answer may have `room` bytes of
 * payload. -EPROTO: it has that id already, or more than anybody may ask of one;
 * -ENOMEM. */
CK_MUST_USE int ck_forward_table_add(struct ck_forward_table *p, uint32_t rank,
				     const struct ck_wire_head *head,
				     uint64_t room);
/* Whether a rank was asked what it answers; another such answer is none. */
CK_MUST_USE bool ck_forward_table_take(struct ck_forward_table *p,
				       uint32_t rank,
				       const struct ck_wire_head *answer);
/* A rank is lost: nothing that was asked of it is answered. */
void ck_forward_table_lose(struct ck_forward_table *p, uint32_t rank);
bool ck_forward_table_is_lost(const struct ck_forward_table *p, uint32_t rank);

#endif
