/* SPDX-License-Identifier: MIT */
/* view_many: the view of view_many.c. */
#ifndef CK_VIEW_MANY_H
#define CK_VIEW_MANY_H

#include "ckptfs/view.h"
#include "model/spec.h"

extern const struct ck_view view_many;

/* The rows that a rank has of so many: as torch.chunk cuts them. */
static inline void many_rows(uint64_t rows, uint32_t ranks, uint32_t rank,
			     uint64_t *begin, uint64_t *end)
{
	uint64_t each = (rows + ranks - 1) / ranks;

	*begin = ck_min(rank * each, rows);
	*end = ck_min(*begin + each, rows);
}

#endif
