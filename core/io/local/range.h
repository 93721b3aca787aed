/* SPDX-License-Identifier: MIT */
/*
 * range: from a byte range of a file of the mount to what the planner is
 * asked, and from its copies back to ranges of data files.
 */
#ifndef CK_RANGE_H
#define CK_RANGE_H

#include "ckptfs/move.h"

/* A request for a box of a tensor, NULL: all of it; begin and end are the
 * caller's to set. The layout has no err. */
struct ck_request ck_range_request(const struct ck_layout *layout,
				   const uint64_t *box);
/* *end is behind the first run of a loop nest: puts it behind the last one; false if
 * there is no such number. */
CK_MUST_USE bool ck_loops_end(const struct ck_loop *loops, uint32_t nloops,
			      uint64_t *end);
/* Bytes that a copy of a plan brings. */
uint64_t ck_copy_bytes(const struct ck_plan *plan, const struct ck_plan_op *c);
/* The byte after the last one that a copy from an extent at pos loads; false
 * if there is no such number. */
CK_MUST_USE bool ck_range_end(const struct ck_plan *plan,
			      const struct ck_plan_op *c, uint64_t pos,
			      uint64_t *end);

#endif
