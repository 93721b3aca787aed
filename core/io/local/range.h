/* SPDX-License-Identifier: MIT */
/*
 * range: converts a byte range of a file of the mount to a request for the planner,
 * and plan ops to ranges of data files. No state; any thread.
 */
#ifndef CK_RANGE_H
#define CK_RANGE_H

#include "ckptfs/io.h"

enum { CK_FLOAT32_SIZE = 4 };

/* Request for a box of a tensor: ndim offsets, then ndim sizes, in elements; NULL for
 * the whole tensor. Caller sets begin and end. layout->err must be 0. */
struct ck_request ck_range_request(const struct ck_layout *layout,
				   const uint64_t *box);
/* Sets [*begin, *end), bytes of a box part, to the bytes of the elements that it needs, as
 * the tensor has them. */
void ck_range_source(const struct ck_part *p, uint64_t *begin, uint64_t *end);
/* Advances *end from the end of the first run of a loop nest to the end of the last
 * one. Returns false if that overflows. */
CK_MUST_USE bool ck_loops_end(const struct ck_loop *loops, uint32_t nloops,
			      uint64_t *end);
/* Number of bytes that a plan op copies. */
uint64_t ck_copy_bytes(const struct ck_plan *plan, const struct ck_plan_op *c);
/* Sets *end to the offset behind the last byte that a plan op loads from an extent
 * at `pos`. Returns false if that overflows. */
CK_MUST_USE bool ck_range_end(const struct ck_plan *plan,
			      const struct ck_plan_op *c, uint64_t pos,
			      uint64_t *end);

#endif
