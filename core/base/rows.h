/* SPDX-License-Identifier: MIT */
/*
 * rows: a persistent array: copies share rows, and a change copies only a part.
 * The rows lie in blocks, and a tree of nodes leads to the blocks; both are
 * reference-counted. A new copy shares all blocks. The change of a row copies
 * its block and the nodes above it, unless only this copy refers to them. So an
 * old copy beside a newer one costs only the blocks that differ. A part of
 * base.
 *
 * Threads: any number of threads may read a copy that no longer changes; one
 * thread at a time may change a copy. Different threads may use and free copies
 * that share blocks at the same time.
 */
#ifndef CKPTFS_ROWS_H
#define CKPTFS_ROWS_H

#include "ckptfs/base.h"

/* The type of the rows. Rows that are not added yet are zeros. */
struct ck_rows_type {
	uint32_t size; /* bytes of a row; a multiple of its alignment */
	uint32_t bits; /* a block has 1 << bits rows */
	/* For rows that own reference-counted objects: called after a row was
	 * copied, and before one is freed; also for rows of zeros. NULL if rows
	 * own nothing. */
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

/* As ck_rows_at(), with constants that must equal those of r->type: faster for
 * millions of rows. */
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

/* Row i, below n. Valid as long as this copy, or one that shares the row. */
static inline const void *ck_rows_at(const struct ck_rows *r, uint32_t i)
{
	return ck_rows_at_of(r, i, r->type->bits, r->type->size);
}

/* Row i for a change; its block is copied only if it is shared. NULL when out
 * of memory: then all rows are unchanged. */
void *ck_rows_edit(struct ck_rows *r, uint32_t i);
/* Appends a row, which takes ownership of the objects of `row`. Returns 0, or
 * -ENOMEM or -EOVERFLOW: then nothing is appended. */
CK_MUST_USE int ck_rows_add(struct ck_rows *r, const void *row);
/* A copy that shares all rows. */
struct ck_rows ck_rows_share(const struct ck_rows *r);
void ck_rows_fini(struct ck_rows *r);

#endif
