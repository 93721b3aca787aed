/* SPDX-License-Identifier: MIT */
/*
 * kernel_launch: tiles are carried to the device behind the bytes that they move, by the same copy,
 * and the kernels are started on them.
 */
#ifndef CK_LAUNCH_TILES_H
#define CK_LAUNCH_TILES_H

#include "device.h"

/* Where the lists of a ck_tiles are in a slot. */
struct ck_placed {
	size_t nests; /* bytes from its beginning */

	struct {
		size_t at, n;
	} tiles[CK_TILE_KINDS];

	size_t end;
};

/* The first place from there on where a list may lie: its structs have numbers of 8 bytes. */
static inline size_t ck_tiles_aligned(size_t at)
{
	return (at + 15) & ~(size_t)15;
}

/* Copies the lists to slot + at, of which `size` bytes may be used. -E2BIG: they are
 * more. */
CK_MUST_USE int ck_tiles_place(const struct ck_tiles *tiles, uint8_t *slot,
			       size_t at, size_t size, struct ck_placed *out);
/* Starts the kernels on what was copied from there to `slot` of the device, on its way for
 * work. As of ck_device_check(). */
CK_MUST_USE int ck_tiles_launch(struct ck_device *g, CUdeviceptr slot,
				const struct ck_placed *placed);

#endif
