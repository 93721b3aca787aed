/* SPDX-License-Identifier: MIT */
/*
 * range: arithmetic of byte ranges, shared by reads, writes and read-ahead. No state.
 */
#include "range.h"

struct ck_request ck_range_request(const struct ck_layout *layout,
				   const uint64_t *box)
{
	static const uint64_t zeros[CK_MAX_DIMS];

	return (struct ck_request){
		.ndim = layout->ndim,
		.item = ck_dtype_at(layout->dtype)->size,
		.off = box ? box : zeros,
		.size = box ? box + layout->ndim : layout->shape,
		.nchunks = layout->n,
		.boxes = layout->boxes,
		.strides = layout->strides,
		.order = layout->order,
	};
}

void ck_range_source(const struct ck_part *p, uint64_t *begin, uint64_t *end)
{
	uint64_t item = ck_dtype_at(p->from)->size;

	if (p->from == CK_DTYPE_UNKNOWN)
		return;
	*begin = *begin / CK_FLOAT32_SIZE * item;
	*end = (*end + CK_FLOAT32_SIZE - 1) / CK_FLOAT32_SIZE * item;
}

bool ck_loops_end(const struct ck_loop *loops, uint32_t nloops, uint64_t *end)
{
	for (uint32_t k = 0; k < nloops; k++) {
		uint64_t reach;

		if (!ck_mul(&reach, loops[k].count - 1, loops[k].src) ||
		    !ck_add(end, *end, reach))
			return false;
	}
	return true;
}

uint64_t ck_copy_bytes(const struct ck_plan *plan, const struct ck_plan_op *c)
{
	uint64_t bytes = c->run;

	for (uint32_t k = 0; k < c->nloops; k++)
		bytes *= plan->loops[c->loop + k].count;
	return bytes;
}

bool ck_range_end(const struct ck_plan *plan, const struct ck_plan_op *c,
		  uint64_t pos, uint64_t *end)
{
	if (!ck_add(end, pos, c->src) || !ck_add(end, *end, c->run))
		return false;
	return c->nloops == 0 ||
	       ck_loops_end(plan->loops + c->loop, c->nloops, end);
}
