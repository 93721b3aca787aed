/* SPDX-License-Identifier: MIT */
/*
 * layout: the locations of the boxes of one tensor: lookup by chunk, and comparison of
 * two layouts. core/format makes layouts. A layout is constant, except for `touches`,
 * which is atomic; any thread.
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

void ck_layout_renew(const struct ck_layout *layout, uint64_t touches)
{
	uint64_t *to = (uint64_t *)(uintptr_t)&layout->touches;

	if (__atomic_load_n(to, __ATOMIC_RELAXED) < touches)
		__atomic_store_n(to, touches, __ATOMIC_RELEASE);
}

/* Returns the bytes from the first element of box k to the end of the last one. */
static uint64_t span_of(const struct ck_layout *layout, uint32_t k)
{
	const int64_t *size = layout->boxes +
			      (2 * (size_t)k + 1) * layout->ndim;
	const uint64_t *strides =
		layout->strides ? layout->strides + (size_t)k * layout->ndim
				: NULL;
	uint64_t dense = ck_dtype_at(layout->dtype)->size, span = dense;

	for (uint32_t d = layout->ndim; d > 0 && d--;) {
		span += ((uint64_t)size[d] - 1) *
			(strides ? strides[d] : dense);
		dense *= (uint64_t)size[d];
	}
	return span;
}

static bool extent_is_same(const struct ck_layout *a, const struct ck_layout *b,
			   uint32_t k)
{
	const struct ck_extent *x = &a->extents[k], *y = &b->extents[k];

	if (ck_layout_box_is_empty(a, k))
		return true;
	if (x->err || y->err || x->file != y->file || x->change != y->change ||
	    !x->memory != !y->memory)
		return false;
	return x->memory ? memcmp(x->memory + x->pos, y->memory + y->pos,
				  span_of(a, k)) == 0
			 : x->pos == y->pos;
}

bool ck_layout_is_same(const struct ck_layout *a, const struct ck_layout *b)
{
	size_t strides = (size_t)a->n * a->ndim * sizeof(*a->strides);

	if (a->version != b->version || a->n != b->n || a->err != b->err ||
	    !a->strides != !b->strides)
		return false;
	if (a->strides && strides &&
	    memcmp(a->strides, b->strides, strides) != 0)
		return false;
	for (uint32_t k = 0; k < a->n; k++)
		if (!extent_is_same(a, b, k))
			return false;
	return true;
}
