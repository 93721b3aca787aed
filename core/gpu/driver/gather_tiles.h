/* SPDX-License-Identifier: MIT */
/* gather_tiles: the tiles (tiles.h) of a gather request for a GPU. */
#ifndef CK_GATHER_TILES_H
#define CK_GATHER_TILES_H

#include "gpu/gpu.h"
#include "tiles.h"

/* Replaces the contents of out by the tiles of w. staged: device address of the
 * bytes of `fill`; result: of the result. Returns as ck_tiles_add(). */
CK_MUST_USE int ck_work_tiles(const struct ck_gpu_work *w, uint64_t staged,
			      uint64_t result, struct ck_tiles *out);

#endif
