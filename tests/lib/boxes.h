/* SPDX-License-Identifier: MIT */
/*
 * boxes: random sharded tensors, small enough to be checked byte by byte.
 * Grids with uneven and empty parts, irregular cuts, holes; items that are
 * contiguous, padded, permuted or expanded.
 */
#ifndef CK_BOXES_H
#define CK_BOXES_H

#include "tap.h"

enum { BOXES_DIMS = 8, BOXES_MAX = 40, BOXES_ELEMENTS = 240 };

struct boxes {
	uint32_t ndim, item, n;
	bool holes; /* some element is in no box */
	bool dense; /* all items are contiguous */
	uint64_t shape[BOXES_DIMS];
	int64_t box[BOXES_MAX * 2 * BOXES_DIMS]; /* as ck_request.boxes */
	uint64_t strides[BOXES_MAX * BOXES_DIMS];
	uint64_t span[BOXES_MAX]; /* bytes from the first to the last one */
	uint32_t order[BOXES_MAX];
};

static inline uint64_t boxes_below(uint64_t *random, uint64_t n)
{
	return tap_random(random) % n;
}

static inline bool boxes_one_in(uint64_t *random, uint64_t n)
{
	return boxes_below(random, n) == 0;
}

static inline int64_t *boxes_at(struct boxes *b, uint32_t i)
{
	return b->box + (size_t)i * 2 * b->ndim;
}

static inline uint64_t boxes_volume(const uint64_t *size, uint32_t ndim)
{
	uint64_t volume = 1;

	for (uint32_t d = 0; d < ndim; d++)
		volume *= size[d];
	return volume;
}

static inline void boxes_shape(struct boxes *b, uint64_t *random)
{
	uint64_t volume = 1;

	b->ndim = (uint32_t)boxes_below(random, BOXES_DIMS + 1);
	for (uint32_t d = 0; d < b->ndim; d++)
		b->shape[d] = 1;
	for (uint32_t tries = 0; b->ndim && tries < b->ndim + 2; tries++) {
		uint64_t d = boxes_below(random, b->ndim);
		uint64_t size = 1 + boxes_below(random, 7);

		if (b->shape[d] != 1 || volume * size > BOXES_ELEMENTS)
			continue;
		b->shape[d] = size;
		volume *= size;
	}
	if (b->ndim && boxes_one_in(random, 50))
		b->shape[boxes_below(random, b->ndim)] = 0;
}

/* Cuts box i in two at a random place, which may leave one part empty. */
static inline void boxes_cut(struct boxes *b, uint32_t i, uint64_t *random)
{
	int64_t *a = boxes_at(b, i);
	int64_t *c = boxes_at(b, b->n);
	uint64_t d = boxes_below(random, b->ndim);
	uint64_t whole = (uint64_t)a[b->ndim + d];
	uint64_t first = boxes_below(random, whole + 1);

	memcpy(c, a, 2 * b->ndim * sizeof(*a));
	a[b->ndim + d] = (int64_t)first;
	c[d] += (int64_t)first;
	c[b->ndim + d] = (int64_t)(whole - first);
	b->n++;
}

static inline void boxes_cut_irregular(struct boxes *b, uint64_t *random)
{
	uint64_t cuts = boxes_below(random, 12);

	for (uint64_t i = 0; i < cuts; i++)
		boxes_cut(b, (uint32_t)boxes_below(random, b->n), random);
}

/* Cuts one dimension of all boxes into parts as torch.chunk does. */
static inline void boxes_cut_grid(struct boxes *b, uint64_t d, uint64_t parts)
{
	uint32_t old = b->n;
	uint64_t part = (b->shape[d] + parts - 1) / parts;

	for (uint32_t i = 0; i < old; i++) {
		const int64_t *whole = boxes_at(b, i);

		for (uint64_t k = 0; k < parts; k++) {
			uint64_t lo = k * part, hi = lo + part;
			bool last = k + 1 == parts;
			int64_t *a = boxes_at(b, last ? i : b->n++);

			lo = lo < b->shape[d] ? lo : b->shape[d];
			hi = hi < b->shape[d] ? hi : b->shape[d];
			if (!last)
				memcpy(a, whole, 2 * b->ndim * sizeof(*a));
			a[d] = (int64_t)lo;
			a[b->ndim + d] = (int64_t)(hi - lo);
		}
	}
}

static inline void boxes_cut_grids(struct boxes *b, uint64_t *random)
{
	for (uint64_t d = 0; d < b->ndim; d++) {
		uint64_t parts = 1 + boxes_below(random, 5);

		if (boxes_one_in(random, 2) && b->n * parts <= BOXES_MAX - 4)
			boxes_cut_grid(b, d, parts);
	}
}

static inline uint64_t boxes_box_volume(struct boxes *b, uint32_t i)
{
	const int64_t *size = boxes_at(b, i) + b->ndim;
	uint64_t volume = 1;

	for (uint32_t d = 0; d < b->ndim; d++)
		if (size[d] == 0)
			return 0;
	for (uint32_t d = 0; d < b->ndim; d++)
		volume *= (uint64_t)size[d];
	return volume;
}

static inline void boxes_drop(struct boxes *b, uint64_t *random)
{
	uint32_t i = (uint32_t)boxes_below(random, b->n);

	if (boxes_box_volume(b, i) > 0)
		b->holes = true;
	b->n--;
	memcpy(boxes_at(b, i), boxes_at(b, b->n),
	       2 * b->ndim * sizeof(int64_t));
}

/* A box without elements may be anywhere. */
static inline void boxes_add_empty(struct boxes *b, uint64_t *random)
{
	int64_t *a = boxes_at(b, b->n++);

	for (uint32_t d = 0; d < b->ndim; d++) {
		a[d] = (int64_t)boxes_below(random, 9);
		a[b->ndim + d] = (int64_t)boxes_below(random, 9);
	}
	a[b->ndim + boxes_below(random, b->ndim)] = 0;
	if (boxes_one_in(random, 4))
		a[0] = INT64_MAX;
	else if (boxes_one_in(random, 3))
		a[boxes_below(random, b->ndim)] = -3;
	if (a[b->ndim] && boxes_one_in(random, 4))
		a[b->ndim] = INT64_C(1) << 62;
}

static inline void boxes_shuffle(uint32_t *a, uint32_t n, uint64_t *random)
{
	for (uint32_t i = n; i > 1; i--) {
		uint64_t k = boxes_below(random, i);
		uint32_t swap = a[i - 1];

		a[i - 1] = a[k];
		a[k] = swap;
	}
}

/* Strides of box i; any kind of item that torch can write. */
static inline void boxes_strides(struct boxes *b, uint32_t i, uint64_t *random)
{
	const int64_t *size = boxes_at(b, i) + b->ndim;
	uint64_t *stride = b->strides + (size_t)i * b->ndim;
	uint32_t from_inner[BOXES_DIMS] = { 0 };
	uint64_t kind = b->dense ? 0 : boxes_below(random, 4);
	uint64_t next = b->item;

	for (uint32_t d = 0; d < b->ndim; d++)
		from_inner[d] = b->ndim - 1 - d;
	if (kind == 1)
		boxes_shuffle(from_inner, b->ndim, random);
	b->span[i] = b->item;
	for (uint32_t k = 0; k < b->ndim; k++) {
		uint32_t d = from_inner[k];
		/* one without elements may be of any size otherwise */
		uint64_t n = size[d] && size[d] < 9 ? (uint64_t)size[d] : 1;

		if (kind == 2) /* padded, perhaps not by whole elements */
			next += boxes_below(random, 3) * b->item / 2;
		stride[d] = next;
		if (kind == 3 && boxes_one_in(random, 2))
			stride[d] = 0;
		else
			next *= n;
		if (n > 1)
			b->span[i] += (n - 1) * stride[d];
		else if (boxes_one_in(random, 8))
			stride[d] = tap_random(random); /* never used */
	}
}

static inline bool boxes_before(struct boxes *b, uint32_t i, uint32_t k)
{
	const int64_t *x = boxes_at(b, i);
	const int64_t *y = boxes_at(b, k);

	for (uint32_t d = 0; d < b->ndim; d++)
		if (x[d] != y[d])
			return x[d] < y[d];
	return false;
}

static inline void boxes_sort(struct boxes *b, uint64_t *random)
{
	for (uint32_t i = 0; i < b->n; i++)
		b->order[i] = i;
	boxes_shuffle(b->order, b->n, random);
	for (uint32_t i = 1; i < b->n; i++)
		for (uint32_t k = i; k > 0; k--) {
			uint32_t swap = b->order[k];

			if (!boxes_before(b, swap, b->order[k - 1]))
				break;
			b->order[k] = b->order[k - 1];
			b->order[k - 1] = swap;
		}
}

/* Makes a random tensor with elements of `item` bytes. */
static inline void boxes_make(struct boxes *b, uint32_t item, uint64_t *random)
{
	b->item = item;
	b->n = 1;
	b->holes = false;
	b->dense = boxes_one_in(random, 3);
	boxes_shape(b, random);
	for (uint32_t d = 0; d < b->ndim; d++) {
		b->box[d] = 0;
		b->box[b->ndim + d] = (int64_t)b->shape[d];
	}
	if (b->ndim > 0) {
		if (boxes_one_in(random, 2))
			boxes_cut_grids(b, random);
		else
			boxes_cut_irregular(b, random);
		if (boxes_one_in(random, 4))
			boxes_add_empty(b, random);
	}
	if (boxes_one_in(random, 10))
		boxes_drop(b, random);
	for (uint32_t i = 0; i < b->n; i++)
		boxes_strides(b, i, random);
	boxes_sort(b, random);
}

/* As ck_request.strides and ck_layout.strides. */
static inline const uint64_t *boxes_strides_given(const struct boxes *b)
{
	return b->dense ? NULL : b->strides;
}

/* Where an element of the tensor is: the box, and in *src its byte relative
 * to the box's first element. -1: in no box. */
static inline int64_t boxes_find(struct boxes *b, const uint64_t *index,
				 uint64_t *src)
{
	for (uint32_t i = 0; i < b->n; i++) {
		const int64_t *off = boxes_at(b, i);
		const int64_t *size = off + b->ndim;
		const uint64_t *stride = b->strides + (size_t)i * b->ndim;
		bool inside = boxes_box_volume(b, i) > 0;

		*src = 0;
		for (uint32_t d = 0; d < b->ndim && inside; d++) {
			int64_t k = (int64_t)index[d] - off[d];

			inside = k >= 0 && k < size[d];
			*src += inside ? (uint64_t)k * stride[d] : 0;
		}
		if (inside)
			return i;
	}
	return -1;
}

/* A random box inside the tensor, never an empty one if that is possible. */
static inline void boxes_window(const struct boxes *b, uint64_t *off,
				uint64_t *size, uint64_t *random)
{
	bool all = boxes_one_in(random, 3);

	for (uint32_t d = 0; d < b->ndim; d++) {
		off[d] = 0;
		size[d] = b->shape[d];
		if (all || b->shape[d] == 0)
			continue;
		off[d] = boxes_below(random, b->shape[d]);
		size[d] = 1 + boxes_below(random, b->shape[d] - off[d]);
	}
}

/* The element with number n in C order of a box. */
static inline void boxes_index(uint32_t ndim, const uint64_t *off,
			       const uint64_t *size, uint64_t n,
			       uint64_t *index)
{
	for (uint32_t d = ndim; d > 0 && d--;) {
		index[d] = off[d] + n % size[d];
		n /= size[d];
	}
}

#endif
