/* SPDX-License-Identifier: MIT */
/*
 * tree: see tree.h. A question about a node finds its directory's row first and the
 * present catalog then, so that the catalog is never older than the generation in
 * which the directory got its number.
 */
#include "tree_internal.h"

#include <errno.h>

struct ck_tree {
	/* Constant: */
	struct ck_checkpoint *cp;
	const struct ck_tree_options *options;
	struct ck_tree_views views;

	struct ck_dirs dirs; /* locks itself */
};

/* Where something is asked for. */
struct place {
	struct ck_dir_row row;
	const struct ck_catalog *c; /* held */
};

/* False: the directory is gone. */
static bool place_find(struct ck_tree *t, uint32_t dir, struct place *out)
{
	if (!ck_dirs_find(&t->dirs, dir, &out->row))
		return false;
	out->c = ck_checkpoint_catalog(t->cp);
	return true;
}

/* Of a directory's own number. */
static int place_of_dir(struct ck_tree *t, uint64_t number, struct place *out)
{
	if (!ck_number_is_dir(number))
		return -ENOTDIR;
	return place_find(t, ck_number_dir(number), out) ? 0 : -ESTALE;
}

/* --- numbers ----------------------------------------------------------------------- */

static uint64_t version_in(const struct ck_dir_row *row, uint64_t version)
{
	return version > row->base ? version - row->base : 0;
}

/* The number of an entry that is no directory; in use `uses` times more. */
static int number_file(struct ck_tree *t, const struct place *p, uint32_t entry,
		       uint64_t version, uint64_t uses, uint64_t *out)
{
	struct ck_dir_row row;
	int rc;

	if (entry >= CK_ENTRIES_MAX)
		return -ENFILE;
	rc = ck_dirs_renew(&t->dirs, p->row.number, version, p->c->generation,
			   uses, &row);
	if (rc == 0)
		*out = ck_number_of(row.number, entry,
				    version_in(&row, version));
	return rc;
}

/* Who only lists a directory takes no number for those in it. */
static int number_dir(struct ck_tree *t, const struct place *p,
		      const struct ck_child *child, uint64_t uses,
		      uint64_t *out)
{
	struct ck_dir_row row;
	int rc = 0;

	if (uses)
		rc = ck_dirs_get(&t->dirs, p->row.number, child->entry,
				 &child->dir, p->c->generation, &row);
	else
		row.number = ck_dirs_known(&t->dirs, p->row.number,
					   child->entry);
	*out = rc || row.number == 0 ? 0 : ck_number_of_dir(row.number);
	return rc;
}

/* --- names ------------------------------------------------------------------------- */

static int about_of(const struct place *p, uint32_t entry, struct ck_about *out)
{
	*out = (struct ck_about){ .type = CK_TYPE_FILE };
	return p->row.dir.view->stat(p->c, &p->row.dir, entry, out);
}

/* What a name stands for; its node is in use `uses` times more. */
static int child_stat(struct ck_tree *t, const struct place *p,
		      const struct ck_child *child, uint64_t uses,
		      struct ck_node_stat *out)
{
	struct ck_about about;
	int rc;

	*out = (struct ck_node_stat){ .number = 0 };
	if (child->type == CK_TYPE_DIR) {
		ck_tree_dir_attr(t->options, p->c, out);
		return number_dir(t, p, child, uses, &out->number);
	}
	out->type = child->type;
	if (child->made && uses == 0)
		return number_file(t, p, child->entry, 0, 0, &out->number);
	rc = about_of(p, child->entry, &about);
	if (rc)
		return rc;
	ck_tree_file_attr(t->options, p->c, &about, out);
	return number_file(t, p, child->entry, about.version, uses,
			   &out->number);
}

int ck_tree_lookup(struct ck_tree *t, uint64_t dir, struct ck_str name,
		   struct ck_node_stat *out)
{
	struct ck_child child = { .type = CK_TYPE_FILE };
	struct place p;
	int rc = place_of_dir(t, dir, &p);

	if (rc)
		return rc;
	rc = p.row.dir.view->lookup(p.c, &p.row.dir, name, &child);
	if (rc == 0)
		rc = child_stat(t, &p, &child, 1, out);
	ck_catalog_put(p.c);
	return rc;
}

/* False: it has no number, or is gone meanwhile, which is no reason to end. */
static bool is_listed(struct ck_tree *t, const struct place *p,
		      const struct ck_child *child, struct ck_node_stat *out,
		      int *rc)
{
	*rc = child_stat(t, p, child, 0, out);
	if (*rc != -ENOENT && *rc != -ENFILE)
		return true;
	*rc = 0;
	return false;
}

int ck_tree_next(struct ck_tree *t, uint64_t dir, uint64_t *at,
		 struct ck_buf *name, struct ck_node_stat *out)
{
	struct ck_child child = { .type = CK_TYPE_FILE };
	struct place p;
	int rc = place_of_dir(t, dir, &p);

	if (rc)
		return rc;
	for (bool more = true; more && rc == 0;) {
		name->len = 0;
		child = (struct ck_child){ .type = CK_TYPE_FILE };
		rc = p.row.dir.view->next(p.c, &p.row.dir, at, &child, name);
		if (rc == 0 && name->err)
			rc = name->err;
		more = rc == 0 && !is_listed(t, &p, &child, out, &rc);
		*at += more;
	}
	ck_catalog_put(p.c);
	return rc;
}

int ck_tree_parent(struct ck_tree *t, uint64_t dir, uint64_t *out)
{
	uint32_t parent;

	if (!ck_number_is_dir(dir))
		return -ENOTDIR;
	if (!ck_dirs_parent(&t->dirs, ck_number_dir(dir), &parent))
		return -ESTALE;
	*out = ck_number_of_dir(parent);
	return 0;
}

void ck_tree_forget(struct ck_tree *t, uint64_t number, uint64_t n)
{
	ck_dirs_forget(&t->dirs, ck_number_dir(number), n);
}

/* --- nodes ------------------------------------------------------------------------- */

/* Of a node that is no directory. The catalog of *p is held. */
static int file_find(struct ck_tree *t, uint64_t number, struct place *p,
		     uint32_t *entry, struct ck_about *about)
{
	int rc;

	if (!ck_number_entry(number, entry) ||
	    !place_find(t, ck_number_dir(number), p))
		return -ESTALE;
	rc = about_of(p, *entry, about);
	if (rc)
		ck_catalog_put(p->c);
	return rc == -ENOENT ? -ESTALE : rc;
}

static int dir_stat(struct ck_tree *t, uint64_t number,
		    struct ck_node_stat *out)
{
	struct place p;
	int rc = place_of_dir(t, number, &p);

	if (rc)
		return rc;
	ck_tree_dir_attr(t->options, p.c, out);
	ck_catalog_put(p.c);
	return 0;
}

int ck_tree_stat(struct ck_tree *t, uint64_t number, struct ck_node_stat *out)
{
	struct ck_about about;
	struct place p;
	uint32_t entry;
	int rc;

	*out = (struct ck_node_stat){ .number = number };
	if (ck_number_is_dir(number))
		return dir_stat(t, number, out);
	rc = file_find(t, number, &p, &entry, &about);
	if (rc)
		return rc;
	ck_tree_file_attr(t->options, p.c, &about, out);
	ck_catalog_put(p.c);
	return 0;
}

static int slice_of(uint64_t number, const struct place *p, uint32_t entry,
		    const struct ck_about *about, struct ck_slice **out)
{
	const struct ck_dir *dir = &p->row.dir;

	if (about->type == CK_TYPE_LINK)
		return -ELOOP;
	if (ck_number_version(number) != version_in(&p->row, about->version))
		return -ESTALE;
	return dir->view->slice(p->c, dir, entry, out);
}

int ck_tree_slice(struct ck_tree *t, uint64_t number,
		  const struct ck_catalog **catalog, struct ck_slice **out)
{
	struct ck_about about;
	struct place p;
	uint32_t entry;
	int rc;

	if (ck_number_is_dir(number))
		return -EISDIR;
	rc = file_find(t, number, &p, &entry, &about);
	if (rc)
		return rc;
	rc = slice_of(number, &p, entry, &about, out);
	if (rc)
		ck_catalog_put(p.c);
	else
		*catalog = p.c;
	return rc;
}

int ck_tree_link(struct ck_tree *t, uint64_t number, struct ck_buf *target)
{
	struct ck_about about;
	struct place p;
	uint32_t entry;
	int rc;

	if (ck_number_is_dir(number))
		return -EINVAL;
	rc = file_find(t, number, &p, &entry, &about);
	if (rc)
		return rc;
	rc = about.type == CK_TYPE_LINK
		     ? p.row.dir.view->link(p.c, &p.row.dir, entry, target)
		     : -EINVAL;
	ck_catalog_put(p.c);
	return rc ? rc : target->err;
}

/* --- the tree ---------------------------------------------------------------------- */

static int tree_init(struct ck_tree *t, const struct ck_view *const *views,
		     size_t nviews)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(t->cp);
	struct ck_dir root = { .view = &ck_view_root, .state = &t->views };
	const struct ck_view_source from = { c, t->cp, t->options };
	int rc = ck_tree_views_make(&from, views, nviews, &t->views);

	if (rc)
		return rc;
	rc = ck_dirs_init(&t->dirs, &root, c->generation);
	if (rc)
		ck_tree_views_fini(&t->views);
	return rc;
}

int ck_tree_make(struct ck_checkpoint *cp, const struct ck_view *const *views,
		 size_t nviews, const struct ck_tree_options *options,
		 struct ck_tree **out)
{
	struct ck_tree *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->cp = cp;
	t->options = options;
	rc = tree_init(t, views, nviews);
	if (rc) {
		free(t);
		return rc;
	}
	*out = t;
	return 0;
}

void ck_tree_free(struct ck_tree *t)
{
	if (!t)
		return;
	ck_dirs_fini(&t->dirs);
	ck_tree_views_fini(&t->views);
	free(t);
}
