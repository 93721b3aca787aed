/* SPDX-License-Identifier: MIT */
/*
 * range: see range.h. Shared by the reads and by what reads ahead of them.
 */
#include "range.h"

uint32_t ck_range_part(const struct ck_slice *slice, uint64_t vpos)
{
	uint32_t lo = 0;
	uint32_t hi = slice->nparts;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (slice->parts[mid].vpos <= vpos)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

struct ck_request ck_range_request(const struct ck_catalog *c,
				   const struct ck_part *part,
				   const struct ck_layout *layout)
{
	static const uint64_t zeros[CK_MAX_DIMS];
	static const uint32_t only[1];
	const struct ck_tensor *t = &c->tensors[part->tensor];
	/* dimensions of a tensor without a fault are not negative */
	const uint64_t *shape = (const uint64_t *)ck_catalog_shape(c, t);

	return (struct ck_request){
		.ndim = t->ndim,
		.item = ck_dtype_at(t->dtype)->size,
		.off = part->off ? part->off : zeros,
		.size = part->size ? part->size : shape,
		.nchunks = layout->n,
		.boxes = ck_catalog_box(c, t, layout->first),
		.strides = layout->strides,
		.order = layout->n == t->nchunks ? c->order + t->chunk : only,
	};
}

bool ck_range_end(const struct ck_plan *plan, const struct ck_copy *c,
		  uint64_t pos, uint64_t *end)
{
	if (!ck_add(end, pos, c->src) || !ck_add(end, *end, c->run))
		return false;
	for (uint32_t k = 0; k < c->nloops; k++) {
		const struct ck_loop *loop = &plan->loops[c->loop + k];
		uint64_t way;

		if (!ck_mul(&way, loop->count - 1, loop->src) ||
		    !ck_add(end, *end, way))
			return false;
	}
	return true;
}
