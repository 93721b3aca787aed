/* SPDX-License-Identifier: MIT */
/*
 * tree_walk: all names of a tree as text, a line for each, by next(); each is looked
 * up, too, and asked about by its number.
 */
#ifndef CK_TREE_WALK_H
#define CK_TREE_WALK_H

#include "ckptfs/tree.h"
#include "tree_lookup.h"

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

/* --- by number ---------------------------------------------------------------- */

static inline int tree_stat(struct ck_tree *t, uint64_t number,
			    struct ck_node_stat *out)
{
	struct ck_node n;
	int rc = ck_tree_find(t, number, &n);

	return rc ? rc : ck_tree_stat(&n, out);
}

static inline int tree_parent(struct ck_tree *t, uint64_t number, uint64_t *out)
{
	struct ck_node n, parent;
	int rc = ck_tree_find(t, number, &n);

	rc = rc ? rc : ck_tree_parent(t, &n, &parent);
	*out = rc ? 0 : parent.number;
	return rc;
}

static inline int tree_slice(struct ck_tree *t, uint64_t number,
			     const struct ck_catalog **of,
			     struct ck_slice **out)
{
	struct ck_node n;
	int rc = ck_tree_find(t, number, &n);

	rc = rc ? rc : ck_tree_pin(t, &n, of);
	if (rc)
		return rc;
	rc = ck_tree_slice(*of, &n, out);
	if (rc)
		ck_catalog_put(*of);
	return rc;
}

static inline int tree_link(struct ck_tree *t, uint64_t number,
			    struct ck_buf *target)
{
	struct ck_node n;
	int rc = ck_tree_find(t, number, &n);

	return rc ? rc : ck_tree_link(&n, target);
}

/* --- a walk --------------------------------------------------------------------- */

/* How often lookup and stat found another node than the list did; *st is what lookup
 * found, in use. */
static inline size_t node_is_wrong(struct ck_tree *t, uint64_t in,
				   const char *path, const char *name,
				   struct ck_node_stat *st)
{
	struct ck_node_stat listed = *st, now;
	size_t wrong = tree_lookup(t, in, ck_str_from(name), st) != 0;
	struct ck_buf at = { 0 };
	struct ck_node n;
	uint64_t parent;

	if (listed.type == CK_TYPE_DIR && listed.number == 0)
		listed.number = st->number;
	if (listed.mode) /* else it is made when it is asked for */
		wrong += !node_is_same(&listed, st);
	wrong += listed.number != st->number ||
		 tree_stat(t, st->number, &now) != 0 || !node_is_same(&now, st);
	wrong += ck_tree_find(t, st->number, &n) || ck_tree_path(t, &n, &at) ||
		 strcmp(at.data, path + 1) != 0;
	ck_buf_fini(&at);
	if (st->type == CK_TYPE_DIR)
		wrong += tree_parent(t, st->number, &parent) != 0 ||
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
	struct ck_tree_list *list;
	struct ck_node_stat st;
	struct ck_node n;
	size_t wrong = 0;

	if (ck_tree_list(t, in, &list))
		return 1;
	for (uint64_t at = 0; ck_tree_list_next(list, &at, &n, &name) == 0;
	     at++) {
		st = (struct ck_node_stat){ .number = n.number,
					    .type = n.about.type };
		if (!n.about.made && ck_tree_list_stat(list, &n, &st))
			wrong++;
		below.len = 0;
		ck_buf_printf(&below, "%s/%s", path, name.data);
		wrong += node_is_wrong(t, in, below.data, name.data, &st);
		each(arg, below.data, &st);
		if (st.type == CK_TYPE_DIR)
			wrong += tree_walk(t, st.number, below.data, each, arg);
		ck_tree_forget(t, st.number, 1);
	}
	ck_tree_list_end(list);
	ck_buf_fini(&name);
	ck_buf_fini(&below);
	return wrong;
}

#endif
