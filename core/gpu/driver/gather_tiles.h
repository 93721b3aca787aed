/* SPDX-License-Identifier: MIT */
/*
 * gather_tiles: the tiles of a gathering that a GPU is asked for.
 */
#ifndef CK_WORK_H
#define CK_WORK_H

#include "ckptfs/gpu.h"
#include "ckptfs/tiles.h"

/* What is filled is on the device from `staged` on, and the result goes to `result`. As of
 * ck_tiles_add(). */
CK_MUST_USE int ck_work_tiles(const struct ck_gpu_work *w, uint64_t staged,
			      uint64_t result, struct ck_tiles *out);

#endif
