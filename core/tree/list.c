/* SPDX-License-Identifier: MIT */
/*
 * list: a directory that is read, and all that are in use. A reader takes the numbers of
 * files from the row that the directory had at the beginning, and says at the end how
 * many of them are in use.
 */
#include "tree_internal.h"

#include <errno.h>

struct ck_tree_list {
	struct ck_tree *tree;
	struct ck_tree_place place; /* the directory is in use */
	uint64_t uses;		    /* of files of it, by this reader */
};

int ck_tree_list(struct ck_tree *t, uint64_t dir, struct ck_tree_list **out)
{
	struct ck_tree_list *l;
	int rc;

	if (!ck_number_is_dir(dir))
		return -ENOTDIR;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->tree = t;
	/* The present one in its place, whatever its versions. */
	rc = ck_dirs_renew(&t->dirs, ck_number_dir(dir), 0, 0, 1,
			   &l->place.row);
	if (rc) {
		free(l);
		return rc;
	}
	l->place.c = ck_checkpoint_catalog(t->cp);
	*out = l;
	return 0;
}

void ck_tree_list_end(struct ck_tree_list *l)
{
	if (!l)
		return;
	if (l->uses)
		ck_dirs_use(&l->tree->dirs, l->place.row.number, l->uses);
	ck_dirs_forget(&l->tree->dirs, l->place.row.number, 1);
	ck_catalog_put(l->place.c);
	free(l);
}

/* --- its entries ------------------------------------------------------------------- */

/* A number of the row at hand, if it has room for the version. */
static bool number_of_row(const struct ck_dir_row *row, struct ck_node *n)
{
	uint64_t version = n->about.version;
	uint64_t behind = version > row->base ? version - row->base : 0;

	if (behind >= CK_VERSIONS_MAX || n->entry >= CK_ENTRIES_MAX)
		return false;
	n->number = ck_number_of(row->number, n->entry, behind);
	return true;
}

static int number_set(struct ck_tree_list *l, struct ck_node *n)
{
	const struct ck_dir_row *row = &l->place.row;

	if (n->about.type == CK_TYPE_DIR) {
		n->number = ck_dirs_listed(&l->tree->dirs, row->number,
					   n->entry, &n->dir,
					   l->place.c->generation);
		if (n->number)
			n->number = ck_number_of_dir((uint32_t)n->number);
		return 0;
	}
	return number_of_row(row, n)
		       ? 0
		       : ck_tree_number(l->tree, &l->place, n, 0, &n->number);
}

/* One that is gone meanwhile, or has no number, is no reason to end. */
static int entry_at(struct ck_tree_list *l, uint64_t *at, struct ck_node *out)
{
	const struct ck_dir *dir = &l->place.row.dir;
	struct ck_child child;
	int rc;

	for (;; ++*at) {
		child = (struct ck_child){ .type = CK_TYPE_FILE };
		rc = dir->view->next(l->place.c, dir, at, &child);
		if (rc)
			return rc;
		rc = ck_tree_child(&l->place, &child, out);
		if (rc == 0)
			rc = number_set(l, out);
		if (rc != -ENOENT && rc != -ENFILE)
			return rc;
	}
}

int ck_tree_list_next(struct ck_tree_list *l, uint64_t *at, struct ck_node *out,
		      struct ck_buf *name)
{
	const struct ck_dir *dir = &l->place.row.dir;
	int rc = entry_at(l, at, out);

	if (rc)
		return rc;
	name->len = 0;
	dir->view->name(l->place.c, dir, out->entry, name);
	return name->err;
}

int ck_tree_list_use(struct ck_tree_list *l, struct ck_node *n)
{
	uint32_t in = l->place.row.number;

	if (n->about.type == CK_TYPE_DIR)
		return ck_tree_enter(l->tree, in, l->place.c->generation, n);
	if (ck_number_dir(n->number) == in)
		l->uses++;
	else
		ck_dirs_use(&l->tree->dirs, ck_number_dir(n->number), 1);
	return 0;
}

int ck_tree_list_stat(struct ck_tree_list *l, const struct ck_node *n,
		      struct ck_node_stat *out)
{
	return ck_tree_stat_in(l->tree, l->place.c, n, out);
}

/* --- all of them --------------------------------------------------------------------- */

/* The files of a view that shows the time of the checkpoint have no versions. */
static void each_dated(const struct ck_tree_place *p,
		       void (*each)(void *arg, uint64_t number), void *arg)
{
	const struct ck_dir *dir = &p->row.dir;
	struct ck_child child = { .type = CK_TYPE_FILE };

	for (uint64_t at = 0; dir->view->next(p->c, dir, &at, &child) == 0;
	     at++)
		if (child.type == CK_TYPE_FILE)
			each(arg, ck_number_of(p->row.number, child.entry, 0));
}

int ck_tree_each(struct ck_tree *t, void (*each)(void *arg, uint64_t number),
		 void *arg)
{
	ck_auto_free struct ck_dir_row *rows = NULL;
	ck_auto_catalog *c = NULL;
	size_t n;
	int rc = ck_dirs_used(&t->dirs, &rows, &n);

	if (rc)
		return rc;
	c = ck_checkpoint_catalog(t->cp);
	for (size_t i = 0; i < n; i++) {
		const struct ck_tree_place p = { .row = rows[i], .c = c };

		each(arg, ck_number_of_dir(rows[i].number));
		if (rows[i].dir.view->is_dated)
			each_dated(&p, each, arg);
	}
	return 0;
}

uint64_t ck_tree_count(struct ck_tree *t)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(t->cp);
	const struct ck_tree_views *v = &t->views;
	uint64_t n = 1 + v->n;

	for (size_t i = 0; i < v->n; i++)
		if (v->views[i]->count)
			n += v->views[i]->count(c, v->states[i]);
	return n;
}
