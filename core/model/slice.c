/* SPDX-License-Identifier: MIT */
/*
 * slice: the content of one file as an ordered list of parts: lookup of a part by
 * offset, and slices of at most four parts, as one allocation. A slice is constant; any
 * thread.
 */
#include "ckptfs/slice.h"

#include <assert.h>
#include <errno.h>

/* A file may have 100,000 parts. */
_Static_assert(sizeof(struct ck_part) <= 32, "a part is small");

void ck_slice_free(struct ck_slice *s)
{
	if (s && s->free)
		s->free(s);
	else
		free(s);
}

uint32_t ck_slice_find(const struct ck_slice *s, uint64_t vpos)
{
	uint32_t lo = 0;
	uint32_t hi = s->nparts;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (ck_slice_begin(s, mid) <= vpos)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* --- a few parts ----------------------------------------------------------- */

static void add(struct ck_slice_builder *b, struct ck_part part, uint64_t len,
		size_t copied)
{
	assert(b->n < CK_ARRAY_SIZE(b->parts));
	b->parts[b->n++] = (struct ck_slice_builder_part){ part, len, copied };
}

void ck_slice_add_bytes(struct ck_slice_builder *b, struct ck_str bytes)
{
	struct ck_part part = { .kind = CK_PART_BYTES, .at.bytes = bytes.p };

	if (bytes.len)
		add(b, part, bytes.len, bytes.len);
}

void ck_slice_add_box(struct ck_slice_builder *b, uint32_t tensor,
		      uint32_t ndim, const uint64_t *box, uint64_t len)
{
	struct ck_part part = { .kind = CK_PART_BOX,
				.number = tensor,
				.at.box = box };

	add(b, part, len, box ? 2 * ndim * sizeof(*box) : 0);
}

void ck_slice_add_range(struct ck_slice_builder *b, uint32_t file,
			uint64_t fpos, uint64_t len)
{
	struct ck_part part = { .kind = CK_PART_RANGE,
				.number = file,
				.at.fpos = fpos };

	if (len)
		add(b, part, len, 0);
}

/* The slice, its parts and their offsets; then copied bytes, each piece at a multiple
 * of 8. */
struct built {
	struct ck_slice slice;
	struct ck_part parts[4];
	uint64_t begins[5];
	uint64_t copied[];
};

static const void *copy(uint64_t **to, const void *from, size_t len)
{
	void *copied = *to;

	if (len)
		memcpy(copied, from, len);
	*to += (len + 7) / 8;
	return copied;
}

int ck_slice_make(const struct ck_slice_builder *b, struct ck_slice **out)
{
	size_t bytes = sizeof(struct built);
	struct built *s;
	uint64_t *to;

	for (uint32_t i = 0; i < b->n; i++)
		bytes += (b->parts[i].copied + 7) / 8 * 8;
	s = malloc(bytes);
	if (!s)
		return -ENOMEM;
	s->slice = (struct ck_slice){ .nparts = b->n,
				      .begins = s->begins,
				      .parts = s->parts };
	to = s->copied;
	for (uint32_t i = 0; i < b->n; i++) {
		const struct ck_slice_builder_part *p = &b->parts[i];

		s->parts[i] = p->part;
		if (p->part.kind == CK_PART_BYTES)
			s->parts[i].at.bytes = copy(&to, p->part.at.bytes,
						    p->copied);
		else if (p->part.kind == CK_PART_BOX && p->part.at.box)
			s->parts[i].at.box = copy(&to, p->part.at.box,
						  p->copied);
		s->begins[i] = s->slice.size;
		s->slice.size += p->len;
	}
	s->begins[b->n] = s->slice.size;
	*out = &s->slice;
	return 0;
}
