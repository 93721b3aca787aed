/* SPDX-License-Identifier: MIT */
/*
 * box_read: one box of a tensor, and its destination in memory, as pieces that several
 * threads can read.
 */
#ifndef CK_BOX_READ_H
#define CK_BOX_READ_H

#include "client_internal.h"

struct ck_box_read {
	struct ckptfs *ck;
	struct ckptfs_box *box;
	uint32_t row; /* of the tensor, in the catalog; UINT32_MAX: not found */
	/* ndim offsets and ndim sizes of the part that the file at box->path has; NULL: the
	 * whole tensor */
	uint64_t *part;
	uint32_t ndim;
	size_t item; /* bytes of an element */
	/* Arrays of ndim, in one allocation. counts: elements of the destination; cover:
	 * sizes of the smallest box of the tensor that has them all. */
	uint64_t *offsets, *counts, *cover, *steps;
	int64_t *strides; /* of the destination, in bytes */
	uint64_t *
		blocks; /* bytes of the covering box in one index of each dimension */
	struct ck_tree_file file; /* the covering box; must not move */
	/* A piece has `per` indexes of dimension `split`, one of each dimension before it,
	 * and all behind it. */
	uint32_t split;
	uint64_t per;
	uint64_t pieces; /* 0: the box has no elements */
	/* A piece has the same bytes in the same order in tensor and destination. */
	bool direct;
};

/* A test has smaller ones. */
#ifndef CK_BOX_STAGE
/* most bytes of a piece that is not direct */
#define CK_BOX_STAGE	    ((size_t)256 << 10)
/* most bytes of a direct piece, so that threads share a box */
#define CK_BOX_DIRECT	    ((size_t)8 << 20)
/* of a piece with fewer bytes, the stage costs less */
#define CK_BOX_DIRECT_LEAST ((size_t)32 << 10)
/* a gap of this many bytes between indexes is not read */
#define CK_BOX_GAP	    ((size_t)4 << 10)
/* bytes below which another thread costs more than it saves */
#define CK_BOX_THREAD	    ((size_t)1 << 20)
#endif

/* Checks the box, and opens it without reading anything. Caller calls ck_box_read_end() in any
 * case; `r` must not move. Returns 0, or: -ENOENT; -ENOTTY; -EINVAL; -ERANGE; -ENOMEM; the error of
 * the tensor. Does not set the error of the thread. */
CK_MUST_USE int ck_box_read_begin(struct ckptfs *ck, struct ckptfs_box *box,
				  struct ck_box_read *r);
void ck_box_read_end(struct ck_box_read *r);
/* Reads one piece. stage: CK_BOX_STAGE bytes of the calling thread. Any thread. Returns 0, or
 * the error of the read. */
CK_MUST_USE int ck_box_read_piece(struct ck_box_read *r, uint64_t piece,
				  void *stage);
/* Sets the error of the thread after ck_box_read_begin() or a piece returned rc. Returns
 * rc. */
int ck_box_read_failed(struct ck_box_read *r, int rc);
/* Reads the headers of the items of the box. Returns 0, or the error of the first one with a
 * fault, which is then the error of the thread. */
CK_MUST_USE int ck_box_read_check(struct ck_box_read *r);

#endif
