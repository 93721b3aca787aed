/* SPDX-License-Identifier: MIT */
/*
 * rows: an array of rows that many values share. The rows lie in blocks, the
 * blocks in a tree of nodes; both are counted. A value that is made of another
 * one shares all of it at first, and changing a row copies its block and the
 * nodes that lead there, unless nobody else has them. So a value that stays as
 * it is, beside one that goes on, costs only the blocks that differ. A part of
 * base.
 *
 * Threads: a value that is not changed any more may be read by any number of
 * them; one that is being changed belongs to one. Values that share blocks may be
 * used, and ended, by different threads at once.
 */
#ifndef CKPTFS_ROWS_H
#define CKPTFS_ROWS_H

#include "ckptfs/base.h"

/* What rows are. Rows that were not added yet are zeros. */
struct ck_rows_type {
	uint32_t size; /* bytes of a row; a multiple of its alignment */
	uint32_t bits; /* a block has 1 << bits rows */
	/* Of rows that own something that is counted: a copy of one was made,
	 * one is gone. Also of rows of zeros. NULL: they own nothing. */
	void (*hold)(const void *row);
	void (*drop)(const void *row);
};

enum { CK_ROWS_FAN = 5 }; /* a node has 1 << CK_ROWS_FAN children */

struct ck_rows_node; /* a block, or a node above blocks */

struct ck_rows {
	const struct ck_rows_type *type;
	struct ck_rows_node *root; /* NULL: no rows */
	uint32_t n;
	uint32_t levels; /* of nodes above the blocks */
};

struct ck_rows_node {
	uint32_t refs; /* atomic */

	union {
		struct ck_rows_node *children[1 << CK_ROWS_FAN];
		_Alignas(8) char rows[1];
	};
};

/* As ck_rows_at(); for rows by the million it is faster to say what r->type says,
 * so that the compiler knows. */
static inline const void *ck_rows_at_of(const struct ck_rows *r, uint32_t i,
					uint32_t bits, uint32_t size)
{
	const struct ck_rows_node *node = r->root;
	uint32_t shift = bits + r->levels * CK_ROWS_FAN;
	uint32_t in_node = (1U << CK_ROWS_FAN) - 1;

	while (shift > bits) {
		shift -= CK_ROWS_FAN;
		node = node->children[(i >> shift) & in_node];
	}
	return node->rows + (size_t)(i & ((1U << bits) - 1)) * size;
}

/* Row i, of n. Good as long as the value, or another one that shares it. */
static inline const void *ck_rows_at(const struct ck_rows *r, uint32_t i)
{
	return ck_rows_at_of(r, i, r->type->bits, r->type->size);
}

/* Row i to be changed; not copied before it must be. NULL: out of memory; then
 * all rows are as they were. */
void *ck_rows_edit(struct ck_rows *r, uint32_t i);
/* Adds a row behind the others, which takes over what `row` owns. -ENOMEM,
 * -EOVERFLOW: nothing is added. */
CK_MUST_USE int ck_rows_add(struct ck_rows *r, const void *row);
/* Another value that has the same rows. */
struct ck_rows ck_rows_share(const struct ck_rows *r);
void ck_rows_fini(struct ck_rows *r);

#endif
