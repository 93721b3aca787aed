/* SPDX-License-Identifier: MIT */
/*
 * tree_walk: all names of a tree as text, a line for each, by next(); each is looked
 * up, too, and asked about by its number.
 */
#ifndef CK_TREE_WALK_H
#define CK_TREE_WALK_H

#include "ckptfs/tree.h"

#include <inttypes.h>
#include <stdio.h>

static inline bool node_is_same(const struct ck_node_stat *a,
				const struct ck_node_stat *b)
{
	return a->number == b->number && a->type == b->type &&
	       a->size == b->size && a->mode == b->mode && a->uid == b->uid &&
	       a->gid == b->gid && a->mtime.tv_sec == b->mtime.tv_sec &&
	       a->mtime.tv_nsec == b->mtime.tv_nsec;
}

/* How often lookup and stat found another node than next() did; *st is what lookup
 * found, in use. A directory has a number only when it is looked up. */
static inline size_t node_is_wrong(struct ck_tree *t, uint64_t in,
				   const char *name, struct ck_node_stat *st)
{
	struct ck_node_stat listed = *st, now;
	size_t wrong = ck_tree_lookup(t, in, ck_str_from(name), st) != 0;
	uint64_t parent;

	if (listed.type == CK_TYPE_DIR && listed.number == 0)
		listed.number = st->number;
	if (listed.mode) /* else it is made when it is asked for */
		wrong += !node_is_same(&listed, st);
	wrong += listed.number != st->number ||
		 ck_tree_stat(t, st->number, &now) != 0 ||
		 !node_is_same(&now, st);
	if (st->type == CK_TYPE_DIR)
		wrong += ck_tree_parent(t, st->number, &parent) != 0 ||
			 parent != in;
	return wrong;
}

/* Calls each() with all nodes below a directory, parents first. Returns how many
 * were wrong as above. */
static inline size_t tree_walk(struct ck_tree *t, uint64_t in, const char *path,
			       void (*each)(void *arg, const char *path,
					    const struct ck_node_stat *st),
			       void *arg)
{
	struct ck_buf name = { 0 }, below = { 0 };
	struct ck_node_stat st;
	size_t wrong = 0;

	for (uint64_t at = 0; ck_tree_next(t, in, &at, &name, &st) == 0; at++) {
		wrong += node_is_wrong(t, in, name.data, &st);
		below.len = 0;
		ck_buf_printf(&below, "%s/%s", path, name.data);
		each(arg, below.data, &st);
		if (st.type == CK_TYPE_DIR)
			wrong += tree_walk(t, st.number, below.data, each, arg);
		ck_tree_forget(t, st.number, 1);
	}
	ck_buf_fini(&name);
	ck_buf_fini(&below);
	return wrong;
}

#endif
