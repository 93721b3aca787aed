/* SPDX-License-Identifier: MIT */
/*
 * slice: what one file of the tree consists of, an ordered list of parts. A view
 * makes it, a mover reads it, and neither knows more of the other.
 */
#ifndef CKPTFS_SLICE_H
#define CKPTFS_SLICE_H

#include "ckptfs/base.h"

/* What is written into a file becomes part of the checkpoint as: */
enum ck_accepts {
	CK_ACCEPTS_NOTHING, /* it cannot be written */
	CK_ACCEPTS_NPY,	    /* a header, then elements in the order it says */
	CK_ACCEPTS_RAW,	    /* elements in C order, as stored */
};

enum ck_part_kind {
	CK_PART_BYTES, /* a header, a report: they are in memory */
	CK_PART_MADE,  /* bytes that the slice makes when they are asked for */
	CK_PART_ZEROS,
	CK_PART_BOX,   /* elements of a tensor, in C order */
	CK_PART_RANGE, /* bytes of a data file, as they are */
};

struct ck_part {
	uint8_t kind;	 /* enum ck_part_kind */
	uint32_t number; /* CK_PART_BOX: of the tensor; CK_PART_RANGE: of the
			  * data file; CK_PART_MADE: the slice's own */

	union {
		const char *bytes;   /* CK_PART_BYTES */
		const uint64_t *box; /* CK_PART_BOX: its offsets, then its sizes
				      * in elements, inside the tensor; NULL:
				      * all of the tensor */
		uint64_t fpos;	     /* CK_PART_RANGE */
	} at;			     /* what it points to is the slice's */
};

/* Constant once it is made: any thread. */
struct ck_slice {
	uint64_t size; /* bytes */
	uint32_t nparts;
	bool at_open; /* the items of its boxes are looked at when it is opened;
		       * else each when a read first touches it */
	int err; /* what each read of it answers; 0: its bytes. No part, then */
	/* Part i is [begins[i], begins[i + 1]); nparts + 1 of them. NULL: begin()
	 * says. */
	const uint64_t *begins;
	const struct ck_part *parts; /* nparts; NULL: part() says */
	/* Where part i begins, of nparts the size: never before an earlier one. */
	uint64_t (*begin)(const struct ck_slice *s, uint32_t i);
	/* What part i is. */
	struct ck_part (*part)(const struct ck_slice *s, uint32_t i);
	/* Appends the bytes of a CK_PART_MADE, as many as it is long. Errors are
	 * those of the read that asks. May be NULL. */
	int (*make)(const struct ck_slice *s, uint32_t number,
		    struct ck_buf *out);
	/* Frees the slice; NULL: it is one allocation. */
	void (*free)(struct ck_slice *s);
};

void ck_slice_free(struct ck_slice *s); /* NULL is allowed */
/* The part that holds byte vpos, which is below its size. */
uint32_t ck_slice_find(const struct ck_slice *s, uint64_t vpos);

static inline struct ck_part ck_slice_part(const struct ck_slice *s, uint32_t i)
{
	return s->parts ? s->parts[i] : s->part(s, i);
}

/* i: at most nparts, which begins at the end. */
static inline uint64_t ck_slice_begin(const struct ck_slice *s, uint32_t i)
{
	return s->begins ? s->begins[i] : s->begin(s, i);
}

static inline uint64_t ck_slice_part_len(const struct ck_slice *s, uint32_t i)
{
	return ck_slice_begin(s, i + 1) - ck_slice_begin(s, i);
}

/* A slice of a few parts, in one allocation. Zero-initialise, add, make. */
struct ck_slice_builder {
	struct ck_slice_builder_part {
		struct ck_part part;
		uint64_t len;
		size_t copied; /* bytes behind the slice */
	} parts[4];

	uint32_t n;
};

/* At most 4 parts. What `at` points to is copied by make: the caller's until
 * then. ndim: of the box. Nothing is added of no bytes, but a box. */
void ck_slice_add_bytes(struct ck_slice_builder *b, struct ck_str bytes);
void ck_slice_add_box(struct ck_slice_builder *b, uint32_t tensor,
		      uint32_t ndim, const uint64_t *box, uint64_t len);
void ck_slice_add_range(struct ck_slice_builder *b, uint32_t file,
			uint64_t fpos, uint64_t len);
/* -ENOMEM. */
CK_MUST_USE int ck_slice_make(const struct ck_slice_builder *b,
			      struct ck_slice **out);

#endif
