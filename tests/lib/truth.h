/* SPDX-License-Identifier: MIT */
/*
 * truth: what the slices of random worlds hold, byte by byte, in the plainest words;
 * for tests of reads.
 */
#ifndef CK_TRUTH_H
#define CK_TRUTH_H

#include "world.h"

static inline void random_extents(struct world *w, uint64_t *random)
{
	bool changed = boxes_one_in(random, 3);

	for (uint32_t i = 0; i < w->b.n; i++) {
		struct ck_extent *e = &w->extents[i];

		e->file = (uint32_t)boxes_below(random, NFILES);
		/* A span longer than its file exceeds the file. */
		e->pos = boxes_below(random,
				     w->b.span[i] <= FILE_BYTES
					     ? FILE_BYTES - w->b.span[i] + 1
					     : FILE_BYTES);
		if (boxes_one_in(random, 6))
			e->memory = content[boxes_below(random, NFILES)];
		if (boxes_one_in(random, 40))
			e->err = EBADMSG;
		if (changed && boxes_one_in(random, 2))
			e->change = (uint8_t)boxes_below(random, 8);
		w->layout.change |= e->change;
	}
}

/* --- brute force --------------------------------------------------------- */

static inline void negate_bytes(uint8_t *unit, const struct ck_dtype *dtype)
{
	unsigned carry = 1;

	if (dtype->is_float) {
		unit[dtype->unit - 1] ^= 0x80;
		return;
	}
	for (unsigned i = 0; i < dtype->unit; i++) {
		carry += 255U - unit[i];
		unit[i] = (uint8_t)carry;
		carry >>= 8;
	}
}

static inline void change_element(uint8_t *bytes, unsigned how,
				  const struct ck_dtype *dtype)
{
	for (unsigned u = 0; u < dtype->size; u += dtype->unit) {
		uint8_t old[16];

		memcpy(old, bytes + u, dtype->unit);
		for (unsigned i = 0; how & CK_CHANGE_SWAP && i < dtype->unit;
		     i++)
			bytes[u + i] = old[dtype->unit - 1U - i];
		if (how & CK_CHANGE_NEG)
			negate_bytes(bytes + u, dtype);
		if (how & CK_CHANGE_CONJ && dtype->is_complex && u)
			negate_bytes(bytes + u, dtype);
	}
}

enum { OUT_BYTES = 8 * BOXES_ELEMENTS * 16 + 1024 };

/* For each byte of the slice: its value, the error of reading it, and its file,
 * or -1. */
struct truth {
	uint8_t byte[OUT_BYTES];
	int err[OUT_BYTES];
	int file[OUT_BYTES];
};

static inline void define_tensor(struct world *w, const struct world_part *part,
				 struct truth *out)
{
	const struct ck_dtype *dtype = ck_dtype_at(w->layout.dtype);
	struct boxes *b = &w->b;
	uint64_t vpos = part->vpos;

	for (uint64_t n = 0; n < part->len / b->item; n++) {
		uint64_t index[BOXES_DIMS], src = 0;
		uint8_t element[16] = { 0 };
		int err = -ENODATA, file = -1;
		int64_t chunk;

		boxes_index(b->ndim, part->off, part->size, n, index);
		chunk = boxes_find(b, index, &src);
		if (chunk >= 0) {
			const struct ck_extent *e = &w->extents[chunk];
			const uint8_t *from = e->memory ? e->memory
							: content[e->file];

			memcpy(element, from + e->pos + src, b->item);
			change_element(element, e->change, dtype);
			err = -e->err;
			file = e->memory ? -1 : (int)e->file;
		}
		for (uint32_t i = 0; i < b->item; i++, vpos++) {
			out->byte[vpos] = element[i];
			out->err[vpos] = err;
			out->file[vpos] = file;
		}
	}
}

/* A part that is no box. */
static inline void define_part(const struct world_part *part, struct truth *out)
{
	uint8_t *to = out->byte + part->vpos;

	memset(to, 0, part->len);
	if (part->is_range)
		memcpy(to, content[part->file] + part->fpos, part->len);
	else if (!part->is_zeros)
		memcpy(to, part->literal, part->len);
	for (uint64_t i = part->vpos; i < part->vpos + part->len; i++) {
		out->err[i] = 0;
		out->file[i] = part->is_range ? (int)part->file : -1;
	}
}

static inline void define(struct world *w, struct truth *out)
{
	for (uint32_t i = 0; i < w->slice.nparts; i++) {
		const struct world_part *part = &w->given[i];

		if (part->is_box)
			define_tensor(w, part, out);
		else
			define_part(part, out);
	}
}

/* Is rc an answer that one of the bytes gives? */
static inline bool is_right_rc(const struct truth *t, uint64_t begin,
			       uint64_t end, int rc)
{
	bool bad = false;

	for (uint64_t i = begin; i < end; i++) {
		if (t->err[i] == rc && rc)
			return true;
		bad |= t->err[i] != 0;
	}
	return rc == 0 && !bad;
}

/* --- random slices ------------------------------------------------------- */

/* Of any other kind. */
static inline struct world_part random_literal(uint64_t *random)
{
	static const char text[] = "literal bytes, such as a header";
	struct world_part part = { .literal = text,
				   .len = boxes_below(random, sizeof(text)) };

	switch (boxes_below(random, 4)) {
	case 0: part.is_made = true; break;
	case 1: part.is_zeros = true; break;
	case 2:
		part.is_range = true;
		part.file = (uint32_t)boxes_below(random, NFILES);
		part.fpos = boxes_below(random, FILE_BYTES - sizeof(text));
		break;
	default: break;
	}
	return part;
}

/* Up to eight parts: boxes of the tensor, and others. */
static inline void random_slice(struct world *w, uint64_t *windows,
				uint64_t *random)
{
	uint64_t nparts = 1 + boxes_below(random, 8);

	w->slice.size = w->slice.nparts = 0;
	for (uint64_t i = 0; i < nparts; i++) {
		uint64_t *off = windows + i * 2 * BOXES_DIMS;
		uint64_t *size = off + BOXES_DIMS;
		struct world_part part = { .is_box = true,
					   .off = off,
					   .size = size };

		boxes_window(&w->b, off, size, random);
		part.len = boxes_volume(size, w->b.ndim) * w->b.item;
		if (boxes_one_in(random, 3))
			part = random_literal(random);
		add_part(w, part);
	}
}

/* One slice of a random tensor of any of these dtypes. */
static inline void random_world(struct world *w, const char *const *dtypes,
				unsigned n, uint64_t *windows, uint64_t *random)
{
	uint8_t dtype = dtype_of(dtypes[boxes_below(random, n)]);

	boxes_make(&w->b, ck_dtype_at(dtype)->size, random);
	make_world(w, dtype);
	random_extents(w, random);
	random_slice(w, windows, random);
}

#endif
