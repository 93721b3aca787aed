/* SPDX-License-Identifier: MIT */
/*
 * sections: a slice of millions of parts with little memory: the content of a file
 * of many tensors. A file is a sequence of sections. Each section is a table with
 * the same few columns for each row, such as header, box and trailer for each
 * tensor. Only the end of each row is stored, 8 bytes; a maker computes length and
 * kind of a part on demand. Reference-counted; any thread. A part of model.
 */
#ifndef CKPTFS_SECTIONS_H
#define CKPTFS_SECTIONS_H

#include "ckptfs/slice.h"

enum {
	CK_SECTIONS_MAX = 8,
	CK_SECTION_COLUMNS = 4,
};

struct ck_section {
	uint32_t rows;
	uint32_t columns; /* 1 to CK_SECTION_COLUMNS */
};

/* Index of one part. */
struct ck_section_at {
	uint32_t section, row, column;
};

/* Computes the parts: embed it. Constant from ck_sections_make() on, any thread. */
struct ck_sections_maker {
	/* Bytes of a part; must always be the same. */
	uint64_t (*len)(const struct ck_sections_maker *m,
			struct ck_section_at at);
	/* The part, without the number of a CK_PART_MADE. Boxes are valid as long
	 * as the maker. */
	struct ck_part (*part)(const struct ck_sections_maker *m,
			       struct ck_section_at at);
	/* Appends the bytes of a CK_PART_MADE. Returns 0, or an error, which the
	 * read returns. */
	int (*make)(const struct ck_sections_maker *m, struct ck_section_at at,
		    struct ck_buf *out);
	void (*free)(struct ck_sections_maker *m); /* may be NULL */
};

/* The ends of all rows. Reference-counted. */
struct ck_sections;

/* Takes ownership of the maker, also on error. Calls len() for each part. Returns
 * 0, or: -ENOMEM; -EOVERFLOW if there are more than 2^32 - 2 parts or 2^63 - 1
 * bytes. */
CK_MUST_USE int ck_sections_make(const struct ck_section *sections, uint32_t n,
				 struct ck_sections_maker *maker,
				 struct ck_sections **out);
/* Acquires a reference. */
struct ck_sections *ck_sections_hold(struct ck_sections *s);
void ck_sections_put(struct ck_sections *s);		/* NULL is allowed */
uint64_t ck_sections_size(const struct ck_sections *s); /* bytes of the file */
/* Makes a slice, which holds a reference. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_sections_slice(struct ck_sections *s, struct ck_slice **out);

#endif
