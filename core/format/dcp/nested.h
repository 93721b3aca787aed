/* SPDX-License-Identifier: MIT */
/*
 * nested: the ranks of data files in subdirectories. A value, made once when a
 * checkpoint is loaded and then constant; any thread may read it.
 */
#ifndef CK_NESTED_H
#define CK_NESTED_H

#include "ckptfs/source.h"

/* Zero-initialise. */
struct ck_dcp_nested {
	/* Owned; n ranks, sorted. All data files of each rank are in one
	 * subdirectory. */
	uint64_t *ranks;
	size_t n;
};

/* Makes *out from all files that were added so far. Returns 0, or -ENOMEM. Caller must
 * call ck_dcp_nested_fini(), also after an error. */
CK_MUST_USE int ck_dcp_nested_make(const struct ck_files *files,
				   struct ck_dcp_nested *out);
void ck_dcp_nested_fini(struct ck_dcp_nested *nested);
/* Returns the rank in the last component of a path; CK_NO_RANK if the path has no rank,
 * or the rank is not in `nested`. */
uint64_t ck_dcp_nested_rank(const struct ck_dcp_nested *nested,
			    struct ck_str path);

#endif
