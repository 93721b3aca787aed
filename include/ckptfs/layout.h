/* SPDX-License-Identifier: MIT */
/*
 * layout: the values that formats, views and movers hand to each other: where
 * the boxes of one tensor lie, and what one file of the mount consists of.
 */
#ifndef CKPTFS_LAYOUT_H
#define CKPTFS_LAYOUT_H

#include "ckptfs/model.h"

/* --- layout: where the boxes of one tensor lie ----------------------------- */

/* Values must be changed on the way: bits of ck_extent.change. */
enum ck_change {
	CK_CHANGE_SWAP = 1, /* bytes of each unit reversed */
	CK_CHANGE_CONJ = 2, /* imaginary unit negated */
	CK_CHANGE_NEG = 4,  /* each unit negated */
};

/* Where the elements of one box are: element i (an index in the box) starts
 * at pos + sum(i[d] * stride[d]). */
struct ck_extent {
	uint64_t pos;	       /* bytes, in the file or in memory */
	const uint8_t *memory; /* owned by the layout: the item after its
				* stream transforms; NULL: in the file */
	uint32_t file;	       /* number in catalog->files */
	uint16_t err;	       /* 0, or positive errno: this box cannot be
				* served */
	uint8_t change;	       /* enum ck_change */
	bool passing; /* err is of the moment: whoever asks again may know
				* more */
};

struct ck_layout {
	uint32_t tensor;
	uint32_t first;		   /* the tensor's chunk of extents[0] */
	uint32_t n;		   /* chunks: all of the tensor's, or one */
	uint64_t version;	   /* the tensor's, which it belongs to */
	struct ck_extent *extents; /* one for each chunk */
	uint64_t *strides;	   /* n * ndim, bytes */
	uint16_t change;	   /* union of the extents' */
	bool faulty;  /* some extent has err that is not passing; of a whole
		       * tensor: it has holes */
	bool passing; /* some extent is passing */
	struct ck_box_fault **faults; /* what was found in the items: one
				       * for each extent, each may be NULL;
				       * NULL: none */
};

/* --- slice: what one file of the mount consists of -------------------------- */

enum ck_part_kind { CK_PART_LITERAL, CK_PART_TENSOR };

struct ck_part {
	enum ck_part_kind kind;
	uint64_t vpos;	     /* where it begins in the file */
	uint64_t len;	     /* bytes */
	const char *literal; /* CK_PART_LITERAL: owned by the slice */
	uint32_t tensor;     /* CK_PART_TENSOR: index in catalog->tensors */
	const uint64_t *off; /* box in elements, owned; NULL: all of it */
	const uint64_t *size;
};

/* Parts in order of vpos, without gaps. One allocation: free() it. */
struct ck_slice {
	uint64_t size;
	uint32_t nparts;
	struct ck_part parts[];
};

#endif
