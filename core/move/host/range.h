/* SPDX-License-Identifier: MIT */
/*
 * range: from a byte range of a file of the mount to what the planner is
 * asked, and from its copies back to ranges of data files.
 */
#ifndef CK_RANGE_H
#define CK_RANGE_H

#include "ckptfs/move.h"

/* The part of a slice that holds byte vpos, which is below its size. */
uint32_t ck_range_part(const struct ck_slice *slice, uint64_t vpos);
/* A request for the box of a part; begin and end are the caller's to set.
 * The tensor must be one without a fault of its own. */
struct ck_request ck_range_request(const struct ck_catalog *c,
				   const struct ck_part *part,
				   const struct ck_layout *layout);
/* The byte after the last one that a copy from an extent at pos loads; false
 * if there is no such number. */
CK_MUST_USE bool ck_range_end(const struct ck_plan *plan,
			      const struct ck_copy *c, uint64_t pos,
			      uint64_t *end);

#endif
