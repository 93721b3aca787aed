/* SPDX-License-Identifier: MIT */
/*
 * sections: a slice of millions of parts, of which next to nothing is kept: what a
 * file of many tensors is. It is some sections behind each other, and each of them a
 * table: the same few columns for each row, as a header, a box and a trailer for each
 * tensor. Kept are 8 bytes a row, where it ends; how long a part is and what it is,
 * the maker says when it is asked. A part of model.
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

/* One part. */
struct ck_section_at {
	uint32_t section, row, column;
};

/* Who knows the parts: embed it. Constant from ck_sections_make() on, any thread. */
struct ck_sections_maker {
	/* Bytes; always the same. */
	uint64_t (*len)(const struct ck_sections_maker *m,
			struct ck_section_at at);
	/* What it is, but for the number of a CK_PART_MADE. Boxes are valid as long
	 * as the maker. */
	struct ck_part (*part)(const struct ck_sections_maker *m,
			       struct ck_section_at at);
	/* Appends the bytes of a CK_PART_MADE. Errors are those of the read. */
	int (*make)(const struct ck_sections_maker *m, struct ck_section_at at,
		    struct ck_buf *out);
	void (*free)(struct ck_sections_maker *m); /* may be NULL */
};

/* Where all parts are. Counted, for all that are open and whoever keeps it. */
struct ck_sections;

/* Takes the maker in any case. Asks it for the length of each part. -ENOMEM;
 * -EOVERFLOW: more than 2^32 - 2 parts, or than 2^63 - 1 bytes. */
CK_MUST_USE int ck_sections_make(const struct ck_section *sections, uint32_t n,
				 struct ck_sections_maker *maker,
				 struct ck_sections **out);
/* One more who has it. */
struct ck_sections *ck_sections_hold(struct ck_sections *s);
void ck_sections_put(struct ck_sections *s);		/* NULL is allowed */
uint64_t ck_sections_size(const struct ck_sections *s); /* bytes of the file */
/* A slice, which holds it. -ENOMEM. */
CK_MUST_USE int ck_sections_slice(struct ck_sections *s, struct ck_slice **out);

#endif
