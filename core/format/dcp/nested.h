/* SPDX-License-Identifier: MIT */
/*
 * nested: ranks of data files that lie in directories of their own.
 */
#ifndef CK_NESTED_H
#define CK_NESTED_H

#include "ckptfs/source.h"

/* Zero-initialise. */
struct ck_dcp_nested {
	uint64_t *ranks; /* owned; n, rising: all files of each lie in one
			  * directory below the checkpoint's */
	size_t n;
};

/* Of all files that were added. -ENOMEM. */
CK_MUST_USE int ck_dcp_nested_make(const struct ck_files *files,
				   struct ck_dcp_nested *out);
void ck_dcp_nested_fini(struct ck_dcp_nested *nested);
/* The rank of a path with a directory; CK_NO_RANK if the path has no rank. */
uint64_t ck_dcp_nested_rank(const struct ck_dcp_nested *nested,
			    struct ck_str path);

#endif
