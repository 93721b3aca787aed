/* SPDX-License-Identifier: MIT */
/*
 * kernel_launch: converts the descriptors of a gather request to tiles, with device
 * addresses, copies lists of tiles into a slot, and launches the kernels on them. No
 * state.
 */
#include "kernel_launch.h"

#include <errno.h>

int ck_work_tiles(const struct ck_gpu_work *w, uint64_t staged, uint64_t result,
		  struct ck_tiles *out)
{
	int rc = 0;

	ck_tiles_clear(out);
	for (uint32_t i = 0; i < w->ncopies && rc == 0; i++) {
		const struct ck_gather_desc *c = &w->copies[i];
		const struct ck_tile_copy copy = {
			.src = staged + c->src,
			.dst = result + c->dst,
			.run = c->run,
			.nloops = c->nloops,
			.loops = w->loops + c->loop,
			.dtype = ck_dtype_at(c->dtype),
			.change = c->change,
		};

		rc = ck_tiles_add(out, &copy);
	}
	return rc;
}

static int place(const void *list, size_t bytes, uint8_t *slot, size_t size,
		 struct ck_placed *out, size_t *at)
{
	*at = ck_tiles_aligned(out->end);
	if (*at > size || bytes > size - *at)
		return -E2BIG;
	if (bytes)
		memcpy(slot + *at, list, bytes);
	out->end = *at + bytes;
	return 0;
}

int ck_tiles_place(const struct ck_tiles *tiles, uint8_t *slot, size_t at,
		   size_t size, struct ck_placed *out)
{
	int rc;

	*out = (struct ck_placed){ .end = at };
	rc = place(tiles->nests, tiles->nnests * sizeof(*tiles->nests), slot,
		   size, out, &out->nests);
	for (unsigned kind = 0; kind < CK_TILE_KINDS && rc == 0; kind++) {
		size_t n = tiles->of[kind].n;

		out->tiles[kind].n = n;
		rc = place(tiles->of[kind].list, n * sizeof(struct ck_tile),
			   slot, size, out, &out->tiles[kind].at);
	}
	return rc;
}

int ck_tiles_launch(struct ck_device *g, CUdeviceptr slot,
		    const struct ck_placed *placed)
{
	CUdeviceptr nests = slot + placed->nests;
	int rc = 0;

	for (unsigned kind = 0; kind < CK_TILE_KINDS && rc == 0; kind++) {
		CUdeviceptr tiles = slot + placed->tiles[kind].at;
		size_t n = placed->tiles[kind].n;
		void *args[] = { &tiles, &nests };

		if (n > INT32_MAX)
			return -EOVERFLOW;
		if (n)
			rc = ck_device_check(
				g, g->cuda->cuLaunchKernel(
					   g->kernels[kind], (unsigned)n, 1, 1,
					   CK_TILE_THREADS, 1, 1, 0,
					   g->streams[CK_GPU_STREAM_WORK], args,
					   NULL));
	}
	return rc;
}
