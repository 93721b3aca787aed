/* SPDX-License-Identifier: MIT */
/*
 * list: listings of one directory, and of all directories in use. A listing numbers files
 * by the row that the directory had at its beginning. At its end the listing counts the
 * uses of these numbers. One thread uses a listing.
 */
#include "tree_internal.h"

#include <errno.h>

struct ck_tree_list {
	struct ck_tree *tree;
	struct ck_tree_place place; /* the directory is in use */
	uint64_t uses;		    /* of its files, by this listing */
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
	/* Its newest number. */
	rc = ck_dirs_renew(&t->dirs, ck_number_dir(dir), 0, UINT64_MAX, 1,
			   &l->place.row);
	if (rc) {
		free(l);
		return rc;
	}
	l->place.c = ck_dir_catalog(&l->place.row.dir);
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

/* Numbers a file by this row. Returns false if the row cannot represent the version. */
static bool number_of_row(const struct ck_dir_row *row, struct ck_node *n)
{
	uint64_t behind = ck_version_in(row, n->about.version);

	if (behind >= CK_VERSIONS_MAX || n->entry >= CK_ENTRIES_MAX)
		return false;
	n->number = ck_number_of(row->number, n->entry, behind);
	return true;
}

/* Returns 0 if the directory has no number. */
static uint64_t dir_number(struct ck_tree_list *l, const struct ck_node *n)
{
	ck_auto_catalog *c = ck_dir_catalog(&n->dir);
	uint32_t number = ck_dirs_listed(&l->tree->dirs, l->place.row.number,
					 n->entry, &n->dir, c->generation);

	return number ? ck_number_of_dir(number) : 0;
}

static int number_set(struct ck_tree_list *l, struct ck_node *n)
{
	const struct ck_dir_row *row = &l->place.row;

	if (n->about.type == CK_TYPE_DIR) {
		n->number = n->dir.view ? dir_number(l, n) : 0;
		return 0;
	}
	return number_of_row(row, n)
		       ? 0
		       : ck_tree_number(l->tree, &l->place, n, &n->number);
}

/* Finds the next entry from *at on. Entries that were removed meanwhile, or for which no
 * number is free, are skipped. An entry without a number in this generation is listed
 * without one. */
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
			return rc == -EAGAIN ? 0 : rc;
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

	if (n->about.type == CK_TYPE_DIR && !n->dir.view)
		return ck_tree_use(l->tree, n);
	if (n->about.type == CK_TYPE_DIR)
		return ck_tree_enter(l->tree, in, n);
	if (ck_number_dir(n->number) == in)
		l->uses++;
	else
		ck_tree_hold(l->tree, n->number);
	return 0;
}

/* A directory may be another checkpoint's. */
int ck_tree_list_stat(const struct ck_tree_list *l, const struct ck_node *n,
		      struct ck_node_stat *out)
{
	return n->dir.root == l->place.row.dir.root
		       ? ck_tree_stat_in(l->place.c, n, out)
		       : ck_tree_stat(n, out);
}

/* --- all of them --------------------------------------------------------------------- */

/* The files of a view that shows the time of the checkpoint have no versions. */
static void each_dated(const struct ck_dir_row *row,
		       void (*each)(void *arg, uint64_t number), void *arg)
{
	ck_auto_catalog *c = ck_dir_catalog(&row->dir);
	const struct ck_view *view = row->dir.view;
	struct ck_child child = { .type = CK_TYPE_FILE };

	for (uint64_t at = 0; view->next(c, &row->dir, &at, &child) == 0; at++)
		if (child.type == CK_TYPE_FILE)
			each(arg, ck_number_of(row->number, child.entry, 0));
}

int ck_tree_each(struct ck_tree *t, void (*each)(void *arg, uint64_t number),
		 void *arg)
{
	ck_auto_free struct ck_dir_row *rows = NULL;
	size_t n;
	int rc = ck_dirs_used(&t->dirs, &rows, &n);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		each(arg, ck_number_of_dir(rows[i].place));
		if (rows[i].dir.view->is_dated)
			each_dated(&rows[i], each, arg);
		ck_dirs_forget(&t->dirs, rows[i].number, 1);
	}
	return 0;
}
