/* SPDX-License-Identifier: MIT */
/*
 * kernel_launch: the tiles of a gather request, and the launch of their
 * kernels. The lists of tiles lie in the slot behind the bytes that they move,
 * so that one copy brings both to the device.
 */
#ifndef CK_KERNEL_LAUNCH_H
#define CK_KERNEL_LAUNCH_H

#include "cuda_device.h"
#include "gpu/gpu.h"

/* Positions of the lists of a ck_tiles in a slot, in bytes. */
struct ck_placed {
	size_t nests;

	struct {
		size_t at, n;
	} tiles[CK_TILE_KINDS];

	size_t end;
};

/* The next aligned position: the structs of the lists contain 64-bit
 * integers. */
static inline size_t ck_tiles_aligned(size_t at)
{
	return (at + 15) & ~(size_t)15;
}

/* Replaces the contents of out by the tiles of w. staged: device address of the
 * bytes of `fill`; result: of the result. Returns as ck_tiles_add(). */
CK_MUST_USE int ck_work_tiles(const struct ck_gpu_work *w, uint64_t staged,
			      uint64_t result, struct ck_tiles *out);
/* Copies the lists to slot + at. size: bytes of the slot. Returns 0, or -E2BIG
 * if they do not fit. */
CK_MUST_USE int ck_tiles_place(const struct ck_tiles *tiles, uint8_t *slot,
			       size_t at, size_t size, struct ck_placed *out);
/* Launches the kernels on the lists, after the slot was copied to `slot` on the
 * device, in the stream for kernels. Returns as ck_device_check(), or
 * -EOVERFLOW if a list has more than INT32_MAX tiles. */
CK_MUST_USE int ck_tiles_launch(struct ck_device *g, CUdeviceptr slot,
				const struct ck_placed *placed);

#endif
