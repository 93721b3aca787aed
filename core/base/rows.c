/* SPDX-License-Identifier: MIT */
/*
 * rows: a persistent array in blocks below a tree of nodes. A node or block
 * with one reference is changed in place; with more, it is copied first. The
 * tree grows by a new root. rows.h states the rules for threads.
 */
#include "rows.h"

#include <errno.h>
#include <stddef.h>

enum { CHILDREN = 1 << CK_ROWS_FAN };

/* Row numbers have 32 bits. */
#define ROWS_MAX UINT32_MAX

static size_t block_bytes(const struct ck_rows_type *type)
{
	return offsetof(struct ck_rows_node, rows) +
	       ((size_t)type->size << type->bits);
}

static char *row_in(struct ck_rows_node *block, const struct ck_rows_type *type,
		    uint32_t i)
{
	return block->rows + (size_t)i * type->size;
}

/* Allocates a block (level 0) or a node, zeroed, with one reference. */
static struct ck_rows_node *node_make(const struct ck_rows_type *type,
				      uint32_t level)
{
	struct ck_rows_node *node = calloc(
		1, level ? sizeof(struct ck_rows_node) : block_bytes(type));

	if (node)
		node->refs = 1;
	return node;
}

static void node_hold(struct ck_rows_node *node)
{
	__atomic_fetch_add(&node->refs, 1, __ATOMIC_RELAXED);
}

static bool is_last(struct ck_rows_node *node)
{
	return node &&
	       __atomic_sub_fetch(&node->refs, 1, __ATOMIC_ACQ_REL) == 0;
}

static void block_put(const struct ck_rows_type *type,
		      struct ck_rows_node *block)
{
	if (!is_last(block))
		return;
	for (uint32_t i = 0; type->drop && i < 1U << type->bits; i++)
		type->drop(row_in(block, type, i));
	free(block);
}

/* Recursion is as deep as the tree, at most seven levels. */
static void node_put(const struct ck_rows_type *type, /* NOLINT */
		     struct ck_rows_node *node, uint32_t level)
{
	if (level == 0) {
		block_put(type, node);
		return;
	}
	if (!is_last(node))
		return;
	for (uint32_t i = 0; i < CHILDREN; i++)
		node_put(type, node->children[i], level - 1);
	free(node);
}

/* --- changing ---------------------------------------------------------------- */

static void copy_block(const struct ck_rows_type *type, struct ck_rows_node *to,
		       const struct ck_rows_node *from)
{
	memcpy(to->rows, from->rows, (size_t)type->size << type->bits);
	for (uint32_t i = 0; type->hold && i < 1U << type->bits; i++)
		type->hold(row_in(to, type, i));
}

static void copy_node(struct ck_rows_node *to, const struct ck_rows_node *from)
{
	for (uint32_t i = 0; i < CHILDREN; i++) {
		to->children[i] = from->children[i];
		if (to->children[i])
			node_hold(to->children[i]);
	}
}

/* Replaces *at by a copy, or by a new node or block if it is NULL. Returns it,
 * or NULL when out of memory. */
static struct ck_rows_node *copy_of(const struct ck_rows_type *type,
				    struct ck_rows_node **at, uint32_t level)
{
	struct ck_rows_node *old = *at, *copy = node_make(type, level);

	if (!copy)
		return NULL;
	if (old && level == 0)
		copy_block(type, copy, old);
	else if (old)
		copy_node(copy, old);
	*at = copy;
	node_put(type, old, level);
	return copy;
}

/* Ensures that *at has one reference, by a copy if needed. NULL when out of
 * memory. */
static inline struct ck_rows_node *own(const struct ck_rows_type *type,
				       struct ck_rows_node **at, uint32_t level)
{
	struct ck_rows_node *node = *at;

	if (node && __atomic_load_n(&node->refs, __ATOMIC_ACQUIRE) == 1)
		return node;
	return copy_of(type, at, level);
}

void *ck_rows_edit(struct ck_rows *r, uint32_t i)
{
	const struct ck_rows_type *type = r->type;
	struct ck_rows_node **at = &r->root, *node;

	for (uint32_t level = r->levels; level > 0; level--) {
		uint32_t shift = type->bits + (level - 1) * CK_ROWS_FAN;

		node = own(type, at, level);
		if (!node)
			return NULL;
		at = &node->children[(i >> shift) & (CHILDREN - 1)];
	}
	node = own(type, at, 0);
	return node ? row_in(node, type, i & ((1U << type->bits) - 1)) : NULL;
}

/* The number of rows that the tree can have with its present levels. */
static uint64_t room(const struct ck_rows *r)
{
	return UINT64_C(1) << (r->type->bits + r->levels * CK_ROWS_FAN);
}

/* Adds a node above the root. */
static int raise_root(struct ck_rows *r)
{
	struct ck_rows_node *root = node_make(r->type, r->levels + 1);

	if (!root)
		return -ENOMEM;
	root->children[0] = r->root;
	r->root = root;
	r->levels++;
	return 0;
}

int ck_rows_add(struct ck_rows *r, const void *row)
{
	char *to;
	int rc;

	if (r->n == ROWS_MAX)
		return -EOVERFLOW;
	while (r->root && r->n >= room(r)) {
		rc = raise_root(r);
		if (rc)
			return rc;
	}
	to = ck_rows_edit(r, r->n);
	if (!to)
		return -ENOMEM;
	memcpy(to, row, r->type->size);
	r->n++;
	return 0;
}

struct ck_rows ck_rows_share(const struct ck_rows *r)
{
	if (r->root)
		node_hold(r->root);
	return *r;
}

void ck_rows_fini(struct ck_rows *r)
{
	node_put(r->type, r->root, r->levels);
	*r = (struct ck_rows){ .type = r->type };
}
