/* SPDX-License-Identifier: MIT */
/*
 * window: finds the chunks of a tensor that a window of it touches. Chunks are sorted
 * by offset. The search skips those that begin behind the last element of the window,
 * goes backwards from there, and ends when the window is covered. Stateless; any
 * thread.
 */
#include "ckptfs/model.h"
#include "ckptfs/table.h"

#include <errno.h>

/* True for a box without elements, whose offsets and other sizes may have any
 * values. */
static bool is_empty(const uint64_t *size, uint32_t ndim)
{
	return ck_dims_have_zero((const int64_t *)size, ndim);
}

static uint64_t volume(const uint64_t *size, uint32_t ndim)
{
	uint64_t elements = !is_empty(size, ndim);

	for (uint32_t d = 0; d < ndim && elements; d++)
		elements *= size[d];
	return elements;
}

/* Returns the number of elements that a chunk and the window share. */
static uint64_t shared(const struct ck_tensor *t, uint32_t chunk,
		       const uint64_t *window)
{
	const uint64_t *box = (const uint64_t *)ck_tensor_box(t, chunk);
	uint64_t elements = !is_empty(box + t->ndim, t->ndim);

	for (uint32_t d = 0; d < t->ndim && elements; d++) {
		uint64_t begin = ck_max(box[d], window[d]);
		uint64_t end = ck_min(box[d] + box[t->ndim + d],
				      window[d] + window[t->ndim + d]);

		elements *= end > begin ? end - begin : 0;
	}
	return elements;
}

/* True if a box begins behind an element, in C order. */
static bool is_behind(const int64_t *off, uint32_t ndim, const int64_t *last)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (off[d] != last[d])
			return off[d] > last[d];
	return false;
}

uint32_t ck_boxes_before(const int64_t *boxes, uint32_t ndim,
			 const uint32_t *order, uint32_t n, const int64_t *last)
{
	return (uint32_t)CK_COUNT_BEFORE(
		n, i,
		!is_behind(boxes + (size_t)order[i] * 2 * ndim, ndim, last));
}

/* Returns the number of chunks, in order, that do not begin behind the window. */
static uint32_t count_before(const struct ck_tensor *t, const uint64_t *window)
{
	int64_t last[CK_MAX_DIMS];

	for (uint32_t d = 0; d < t->ndim; d++)
		last[d] = (int64_t)(window[d] + window[t->ndim + d] - 1);
	return ck_boxes_before(ck_tensor_box(t, 0), t->ndim, t->facts->order,
			       t->nchunks, last);
}

static void reverse(uint32_t *numbers, uint32_t n)
{
	for (uint32_t i = 0; i < n / 2; i++) {
		uint32_t swap = numbers[i];

		numbers[i] = numbers[n - 1 - i];
		numbers[n - 1 - i] = swap;
	}
}

int ck_tensor_window(const struct ck_tensor *t, const uint64_t *window,
		     uint32_t **chunks, uint32_t *n, bool *covered)
{
	const uint32_t *order = t->facts->order;
	uint64_t missing = volume(window + t->ndim, t->ndim);
	uint32_t *found = NULL;
	size_t cap = 0;

	*n = 0;
	for (uint32_t i = missing ? count_before(t, window) : 0;
	     i > 0 && missing > 0; i--) {
		uint64_t elements = shared(t, order[i - 1], window);
		uint32_t *more;

		if (elements == 0)
			continue;
		more = ck_grow(found, &cap, *n, 1, sizeof(*found));
		if (!more) {
			free(found);
			return -ENOMEM;
		}
		found = more;
		found[(*n)++] = order[i - 1];
		missing -= ck_min(missing, elements);
	}
	reverse(found, *n);
	*chunks = found;
	*covered = missing == 0;
	return 0;
}
