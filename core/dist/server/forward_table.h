/* SPDX-License-Identifier: MIT */
/*
 * forward_table: requests that a rank has forwarded to other ranks for its
 * mount, and that have no reply yet. A reply that matches no entry is not
 * forwarded to the mount. One thread at a time.
 */
#ifndef CK_FORWARD_TABLE_H
#define CK_FORWARD_TABLE_H

#include "dist/proto/wire.h"

/* Totals of one rank. */
struct ck_forward_table_sum {
	uint32_t open;	 /* requests */
	uint64_t bodies; /* of these, bytes */
	bool lost;	 /* sends no more replies */
};

struct ck_forward_table {
	struct ck_forward_table_row **buckets;
	struct ck_forward_table_sum *ranks;
	uint32_t size; /* ranks */
};

/* size: ranks of the job. Returns 0, or -ENOMEM; ck_forward_table_fini() is due
 * in both cases. */
CK_MUST_USE int ck_forward_table_init(struct ck_forward_table *p,
				      uint32_t size);
void ck_forward_table_fini(struct ck_forward_table *p);
/* Enters a request to a rank, which must not be lost. room: the most bytes of
 * payload that its reply may have. Returns 0, or: -EPROTO if the rank has a
 * request with that id, or more requests or bytes than the limits
 * CK_WIRE_OPEN_MAX and CK_WIRE_BODIES_MAX; -ENOMEM. */
CK_MUST_USE int ck_forward_table_add(struct ck_forward_table *p, uint32_t rank,
				     const struct ck_wire_head *head,
				     uint64_t room);
/* Removes the request that a reply belongs to. False if there is no such
 * request, or if type, epoch or payload size do not match it. */
CK_MUST_USE bool ck_forward_table_take(struct ck_forward_table *p,
				       uint32_t rank,
				       const struct ck_wire_head *answer);
/* Marks a rank as lost, and removes its requests. */
void ck_forward_table_lose(struct ck_forward_table *p, uint32_t rank);
/* True after ck_forward_table_lose() of this rank. */
bool ck_forward_table_is_lost(const struct ck_forward_table *p, uint32_t rank);

#endif
