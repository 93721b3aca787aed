/* SPDX-License-Identifier: MIT */
/*
 * staging: a plan in two halves, for a gatherer. The first brings the runs of each copy, one
 * behind the other and in the order in which they lie in their file, into a slot; it is the
 * same plan with other places. The second, from there to where they belong, is what the
 * slot is told.
 */
#ifndef CK_PACKED_H
#define CK_PACKED_H

#include "ckptfs/gatherer.h"
#include "ckptfs/move.h"

/* Bytes of the result, for the reader. */
struct ck_arrival {
	uint64_t at, len; /* in slot->result */
	uint8_t *to;
};

/* What one read packs. Zero-initialise, but for the slot, which is the caller's. */
struct ck_packing {
	struct ck_gather_slot *slot;
	struct ck_arrival *arrivals;
	size_t n, cap;
	uint64_t bytes; /* of all copies */
};

/* What was packed so far. */
struct ck_packing_mark {
	uint32_t filled, results, ncopies, nloops;
	size_t n;
	uint64_t bytes;
};

/* The copies of the plan lead into slot->fill from now on. Bytes [skip, skip + len) of
 * what it brought before go to `to`. -E2BIG: there is no room for it, and the plan is as
 * it was; -ENOMEM. */
CK_MUST_USE int ck_packing_add(struct ck_packing *p, struct ck_plan *plan,
			       const struct ck_layout *layout, uint64_t skip,
			       uint64_t len, uint8_t *to);
/* The result is there: copies it to the reader, so many bytes. */
uint64_t ck_packing_arrive(const struct ck_packing *p);
struct ck_packing_mark ck_packing_mark(const struct ck_packing *p);
/* What was packed since is not. */
void ck_packing_back(struct ck_packing *p, const struct ck_packing_mark *mark);
/* Those bytes of `fill` are to come from others straight to the device, if that can be.
 * What has failed is filled in. */
CK_MUST_USE bool ck_packing_want(struct ck_packing *p,
				 struct ck_backend *remote,
				 const struct ck_moves *moves);
void ck_packing_want_none(struct ck_packing *p);
/* Nothing is packed. */
void ck_packing_clear(struct ck_packing *p);
/* The slot is not put back. */
void ck_packing_fini(struct ck_packing *p);

#endif
