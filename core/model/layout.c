/* SPDX-License-Identifier: MIT */
/*
 * layout: see layout.h. Made by core/format, which finds what is in it.
 */
#include "ckptfs/layout.h"

bool ck_layout_find(const struct ck_layout *layout, uint32_t chunk,
		    uint32_t *box)
{
	if (!layout->chunks) {
		*box = chunk;
		return chunk < layout->n;
	}
	for (uint32_t k = 0; k < layout->n; k++)
		if (layout->chunks[k] == chunk) {
			*box = k;
			return true;
		}
	return false;
}
