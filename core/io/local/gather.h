/* SPDX-License-Identifier: MIT */
/*
 * gather: copies a plan's runs into one buffer, and changes values there.
 */
#ifndef CK_GATHER_H
#define CK_GATHER_H

#include "ckptfs/move.h"

struct ck_gather {
	const struct ck_plan *plan;
	const uint8_t *const *from; /* for each copy, its first run; NULL: it
				     * is left out */
	uint8_t *to;		    /* byte 0 of the plan's destination */
};

/* Copies. `from` is memory. */
void ck_gather_run(const struct ck_gather *g);
/* The same. `from` may be in mapped files: -EIO if one of them became too
 * short meanwhile. */
CK_MUST_USE int ck_gather_desc(const struct ck_gather *g);

/* Changes the values that copy number i brought to `to`; `how` is a set of
 * enum ck_change. The plan's range must consist of whole elements. */
void ck_gather_change(const struct ck_gather *g, size_t i,
		      const struct ck_dtype *dtype, unsigned how);

#endif
