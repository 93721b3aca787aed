/* SPDX-License-Identifier: MIT */
/*
 * gather_tiles: converts the descriptors of a gather request to tiles, with
 * device addresses. No state.
 */
#include "gather_tiles.h"

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
