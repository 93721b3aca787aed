/* SPDX-License-Identifier: MIT */
/*
 * slice: the content of one file of the tree, an ordered list of parts. A view
 * makes it, and the I/O engine reads it; they share only this interface. Constant
 * once made; any thread.
 */
#ifndef CKPTFS_SLICE_H
#define CKPTFS_SLICE_H

#include "ckptfs/base.h"

/* How bytes written into a file are interpreted. */
enum ck_accepts {
	CK_ACCEPTS_NOTHING, /* cannot be written */
	/* an npy header, then elements in the order that it declares */
	CK_ACCEPTS_NPY,
	CK_ACCEPTS_RAW, /* elements in C order, as stored */
};

enum ck_part_kind {
	CK_PART_BYTES, /* bytes in memory: a header, a report */
	CK_PART_MADE,  /* bytes that the slice generates on demand */
	CK_PART_ZEROS,
	CK_PART_BOX,   /* elements of a tensor, in C order */
	CK_PART_RANGE, /* bytes of a data file, unchanged */
};

struct ck_part {
	uint8_t kind; /* enum ck_part_kind */
	/* CK_PART_BOX: the dtype of the tensor, if its elements are converted to float32;
	 * else CK_DTYPE_UNKNOWN. The length of the part is that of the float32. */
	uint8_t from;
	/* CK_PART_BOX: tensor; CK_PART_RANGE: data file; CK_PART_MADE: private to
	 * the slice */
	uint32_t number;

	union {
		const char *bytes; /* CK_PART_BYTES */
		/* CK_PART_BOX: offsets, then sizes in elements, inside the tensor;
		 * NULL: the whole tensor */
		const uint64_t *box;
		uint64_t fpos; /* CK_PART_RANGE */
	} at;		       /* memory owned by the slice */
};

/* Constant once it is made: any thread. */
struct ck_slice {
	uint64_t size; /* bytes */
	uint32_t nparts;
	/* Locate all boxes when the file is opened; otherwise each box at its first
	 * read. */
	bool at_open;
	/* Reads of some bytes are known to fail: pages must not be cached, since they
	 * would fail whole. */
	bool has_loss;
	/* positive errno of each read, there are no parts then; 0: reads succeed */
	int err;
	/* Part i is [begins[i], begins[i + 1]); nparts + 1 values. NULL: begin()
	 * computes them. */
	const uint64_t *begins;
	const struct ck_part *parts; /* nparts; NULL: part() computes them */
	/* Offset of part i, at most nparts (the size). Ascending. */
	uint64_t (*begin)(const struct ck_slice *s, uint32_t i);
	/* Part i. */
	struct ck_part (*part)(const struct ck_slice *s, uint32_t i);
	/* Appends the bytes of a CK_PART_MADE, as many as its length. Returns 0, or
	 * an error, which the read returns. May be NULL. */
	int (*make)(const struct ck_slice *s, uint32_t number,
		    struct ck_buf *out);
	/* Frees the slice; NULL: it is one allocation for free(). */
	void (*free)(struct ck_slice *s);
};

void ck_slice_free(struct ck_slice *s); /* NULL is allowed */
/* Index of the part that contains byte vpos, which must be below the size. */
uint32_t ck_slice_find(const struct ck_slice *s, uint64_t vpos);

static inline struct ck_part ck_slice_part(const struct ck_slice *s, uint32_t i)
{
	return s->parts ? s->parts[i] : s->part(s, i);
}

/* Offset of part i; of nparts the size. */
static inline uint64_t ck_slice_begin(const struct ck_slice *s, uint32_t i)
{
	return s->begins ? s->begins[i] : s->begin(s, i);
}

static inline uint64_t ck_slice_part_len(const struct ck_slice *s, uint32_t i)
{
	return ck_slice_begin(s, i + 1) - ck_slice_begin(s, i);
}

/* Makes a slice of at most 4 parts in one allocation. Zero-initialise, add parts,
 * make. */
struct ck_slice_builder {
	struct ck_slice_builder_part {
		struct ck_part part;
		uint64_t len;
		size_t copied; /* bytes of copied data behind the slice */
	} parts[4];

	uint32_t n;
};

/* Add a part; one without bytes is ignored unless it is a box. Caller owns the
 * memory that `at` points to; ck_slice_make() copies it. ndim: of the box. */
void ck_slice_add_bytes(struct ck_slice_builder *b, struct ck_str bytes);
void ck_slice_add_box(struct ck_slice_builder *b, uint32_t tensor,
		      uint32_t ndim, const uint64_t *box, uint64_t len);
void ck_slice_add_range(struct ck_slice_builder *b, uint32_t file,
			uint64_t fpos, uint64_t len);
/* Returns 0, or -ENOMEM. Caller must call ck_slice_free(). */
CK_MUST_USE int ck_slice_make(const struct ck_slice_builder *b,
			      struct ck_slice **out);

#endif
