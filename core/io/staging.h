/* SPDX-License-Identifier: MIT */
/*
 * staging: splits a plan into two halves, for the gather engine. The first half
 * copies the runs of each copy, packed in the order of their file, into `fill`
 * of a slot. The second half, the descriptors of the slot, moves them from
 * there to the result. For one read and its thread.
 */
#ifndef CK_STAGING_H
#define CK_STAGING_H

#include "ckptfs/device.h"
#include "ckptfs/io.h"

/* Bytes of the result that belong to the reader. */
struct ck_arrival {
	uint64_t at, len; /* in slot->result */
	uint8_t *to;
};

/* The packed plans of one read. Zero-initialise all fields but the slot. Caller
 * owns the slot. */
struct ck_packing {
	struct ck_gather_slot *slot;
	struct ck_arrival *arrivals;
	size_t n, cap;
	uint64_t bytes; /* of all copies */
};

/* State of a packing, to return to. */
struct ck_packing_mark {
	uint32_t filled, results, ncopies, nloops;
	size_t n;
	uint64_t bytes;
};

/* Changes the destinations of the plan to slot->fill, and adds descriptors for the
 * rest. Bytes [skip, skip + len) of the result of the plan are later copied to
 * `to`. Returns 0, or: -E2BIG if the slot has no room, the plan is unchanged;
 * -ENOMEM. */
CK_MUST_USE int ck_packing_add(struct ck_packing *p, struct ck_plan *plan,
			       const struct ck_layout *layout, uint64_t skip,
			       uint64_t len, uint8_t *to);
/* Copies the result to the reader; returns the number of bytes. */
uint64_t ck_packing_arrive(const struct ck_packing *p);
struct ck_packing_mark ck_packing_mark(const struct ck_packing *p);
/* Removes all that was packed after `mark`. */
void ck_packing_back(struct ck_packing *p, const struct ck_packing_mark *mark);
/* Encodes the descriptors, whose ranges of `fill` peers then send straight to
 * the device. Returns false if the backend cannot encode them; the slot is
 * unchanged then. */
CK_MUST_USE bool ck_packing_encode(struct ck_packing *p,
				   struct ck_backend *remote,
				   const struct ck_copy_batch *batch);
void ck_packing_encode_none(struct ck_packing *p);
/* Removes all that was packed. */
void ck_packing_clear(struct ck_packing *p);
/* Does not put the slot. */
void ck_packing_fini(struct ck_packing *p);

#endif
