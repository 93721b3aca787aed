/* SPDX-License-Identifier: MIT */
/* object_item: of a checkpoint in which the item of each entry is one piece. */
#ifndef OBJECT_ITEM_H
#define OBJECT_ITEM_H

#include "ckptfs/format.h"

static inline int object_item(struct ck_checkpoint *cp, uint32_t object,
			      struct ck_buf *out, struct ck_diag *d)
{
	struct ck_object_gaps gaps;
	int rc = ck_object_item(cp, object, out, &gaps, d);

	if (gaps.n)
		abort();
	free(gaps.list);
	return rc;
}

#endif
