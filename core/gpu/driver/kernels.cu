/* SPDX-License-Identifier: MIT */
/*
 * kernels: one kernel for each enum ck_tile_kind, with the name that ck_tile_kernel()
 * returns. A block of CK_TILE_THREADS threads copies a tile. ptx.py makes kernels.ptx
 * from this file.
 */
#include "change.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(CK_TILE_THREADS)
#define TILES                                                                  \
	const struct ck_tile *__restrict__ tiles,                              \
		const struct ck_nest *__restrict__ nests

#define VECTORS(size)                                                          \
	KERNEL ck_tiles_##size(TILES)                                          \
	{                                                                      \
		struct ck_tile t = tiles[blockIdx.x];                          \
                                                                               \
		ck_tile_vectors(&t, &nests[t.nest], threadIdx.x,               \
				CK_TILE_THREADS, size);                        \
	}

VECTORS(1)
VECTORS(2)
VECTORS(4)
VECTORS(8)
VECTORS(16)

KERNEL ck_tiles_long(TILES)
{
	struct ck_tile t = tiles[blockIdx.x];

	ck_tile_long(&t, &nests[t.nest], threadIdx.x, CK_TILE_THREADS);
}

KERNEL ck_tiles_change(TILES)
{
	struct ck_tile t = tiles[blockIdx.x];

	ck_tile_change(&t, &nests[t.nest], threadIdx.x, CK_TILE_THREADS);
}
