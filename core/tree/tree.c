/* SPDX-License-Identifier: MIT */
/*
 * tree: see tree.h. A question about a node finds its directory's row first and the
 * present catalog then, so that the catalog is never older than the generation in
 * which the directory got its number.
 */
#include "object.h"
#include "tree_internal.h"

#include <errno.h>

#if CK_VERSION_BITS == 16
_Static_assert(CK_TREE_FOREIGN == (uint64_t)CK_DIRS_MAX
					  << (CK_ENTRY_BITS + CK_VERSION_BITS),
	       "the last directory's numbers");
#endif

const struct ck_catalog *ck_dir_catalog(const struct ck_dir *dir)
{
	return ck_checkpoint_catalog(dir->root->cp);
}

/* False: the directory is gone. */
static bool place_find(struct ck_tree *t, uint32_t dir,
		       struct ck_tree_place *out)
{
	if (!ck_dirs_find(&t->dirs, dir, &out->row))
		return false;
	out->c = ck_dir_catalog(&out->row.dir);
	return true;
}

/* --- numbers ----------------------------------------------------------------------- */

int ck_tree_number(struct ck_tree *t, const struct ck_tree_place *p,
		   const struct ck_node *n, uint64_t *out)
{
	uint64_t version = n->about.version;
	struct ck_dir_row row;
	int rc;

	if (n->entry >= CK_ENTRIES_MAX)
		return -ENFILE;
	rc = ck_dirs_renew(&t->dirs, p->row.number, version, p->c->generation,
			   0, &row);
	if (rc == 0)
		*out = ck_number_of(row.number, n->entry,
				    ck_version_in(&row, version));
	return rc;
}

int ck_tree_enter(struct ck_tree *t, uint32_t in, struct ck_node *n)
{
	ck_auto_catalog *c = ck_dir_catalog(&n->dir);
	struct ck_dir_row row;
	int rc = ck_dirs_get(&t->dirs, in, n->entry, &n->dir, c->generation,
			     &row);

	if (rc)
		return rc;
	n->number = ck_number_of_dir(row.place);
	n->place = n->number;
	return 0;
}

/* --- finding ------------------------------------------------------------------------ */

static int about_of(const struct ck_tree_place *p, uint32_t entry,
		    struct ck_file_content *out)
{
	*out = (struct ck_file_content){ .type = CK_TYPE_FILE };
	return p->row.dir.view->stat(p->c, &p->row.dir, entry, out);
}

int ck_tree_child(const struct ck_tree_place *p, const struct ck_child *child,
		  struct ck_node *out)
{
	*out = (struct ck_node){
		.parent = ck_number_of_dir(p->row.place),
		.entry = child->entry,
		.names_msec = p->row.dir.names_msec,
		.dir = child->dir,
		.about = { .type = CK_TYPE_DIR },
	};
	if (child->type == CK_TYPE_DIR) {
		if (!out->dir.root)
			out->dir.root = p->row.dir.root;
		return 0;
	}
	out->dir = p->row.dir;
	out->place = ck_number_of(p->row.place, child->entry, 0);
	return about_of(p, child->entry, &out->about);
}

static struct ck_node dir_node(const struct ck_dir_row *row)
{
	return (struct ck_node){
		.number = ck_number_of_dir(row->place),
		.parent = ck_number_of_dir(row->parent),
		.place = ck_number_of_dir(row->place),
		.dir = row->dir,
		.entry = row->entry,
		.about = { .type = CK_TYPE_DIR },
	};
}

static int dir_find(struct ck_tree *t, uint64_t number, struct ck_node *out)
{
	struct ck_dir_row row;

	if (!ck_dirs_find(&t->dirs, ck_number_dir(number), &row))
		return -ESTALE;
	*out = dir_node(&row);
	return 0;
}

int ck_tree_find(struct ck_tree *t, uint64_t number, struct ck_node *out)
{
	struct ck_child child = { .type = CK_TYPE_FILE };
	struct ck_tree_place p;
	int rc;

	if (ck_number_is_dir(number))
		return dir_find(t, number, out);
	if (!ck_number_entry(number, &child.entry) ||
	    !place_find(t, ck_number_dir(number), &p))
		return -ESTALE;
	rc = ck_tree_child(&p, &child, out);
	out->number = number;
	ck_catalog_put(p.c);
	return rc == -ENOENT ? -ESTALE : rc;
}

/* What a name stands for, in a directory that is there. */
static int name_find(struct ck_tree *t, const struct ck_tree_place *p,
		     struct ck_str name, struct ck_node *out)
{
	struct ck_child child = { .type = CK_TYPE_FILE };
	int rc = p->row.dir.view->lookup(p->c, &p->row.dir, name, &child);

	if (rc == 0)
		rc = ck_tree_child(p, &child, out);
	if (rc == 0 && child.type != CK_TYPE_DIR)
		rc = ck_tree_number(t, p, out, &out->number);
	if (child.step) {
		rc = ck_tree_enter(t, p->row.number, out);
		out->held = rc == 0;
		ck_made_entered(child.step);
	}
	return rc;
}

int ck_tree_name(struct ck_tree *t, uint64_t dir, struct ck_str name,
		 struct ck_node *out)
{
	struct ck_tree_place p;
	int rc;

	if (!ck_number_is_dir(dir))
		return -ENOTDIR;
	do {
		if (!place_find(t, ck_number_dir(dir), &p))
			return -ESTALE;
		rc = name_find(t, &p, name, out);
		ck_catalog_put(p.c);
	} while (rc == -EAGAIN);
	return rc;
}

int ck_tree_present(struct ck_tree *t, const struct ck_node *n,
		    struct ck_node *out)
{
	const struct ck_child child = { .entry = n->entry };
	struct ck_tree_place p;
	int rc;

	do {
		if (!place_find(t, ck_number_dir(n->number), &p))
			return -ESTALE;
		rc = ck_tree_child(&p, &child, out);
		if (rc == 0)
			rc = ck_tree_number(t, &p, out, &out->number);
		ck_catalog_put(p.c);
	} while (rc == -EAGAIN);
	return rc == -ENOENT ? -ESTALE : rc;
}

int ck_tree_parent(struct ck_tree *t, const struct ck_node *n,
		   struct ck_node *out)
{
	return dir_find(t, n->parent, out);
}

/* Puts the name of a node, and a slash, before a path. */
static int name_prepend(const struct ck_node *in, const struct ck_node *n,
			struct ck_buf *path)
{
	ck_auto_catalog *c = ck_dir_catalog(&in->dir);
	struct ck_buf all = { 0 };

	in->dir.view->name(c, &in->dir, n->entry, &all);
	if (path->len) {
		ck_buf_text(&all, "/");
		ck_buf_add(&all, path->data, path->len);
	}
	ck_buf_fini(path);
	*path = all;
	return all.err;
}

int ck_tree_path(struct ck_tree *t, const struct ck_node *n, struct ck_buf *out)
{
	struct ck_node at = *n, in;
	struct ck_buf path = { 0 };
	int rc = 0;

	while (rc == 0 && at.place != CK_TREE_ROOT) {
		rc = ck_tree_parent(t, &at, &in);
		if (rc == 0)
			rc = name_prepend(&in, &at, &path);
		at = in;
	}
	if (rc == 0)
		ck_buf_add(out, path.data, path.len);
	ck_buf_fini(&path);
	return rc ? rc : out->err;
}

/* A step that was only listed becomes one that was looked up. */
static int listed_use(struct ck_tree *t, struct ck_node *n)
{
	struct ck_buf name = { 0 };
	struct ck_node in;
	int rc = dir_find(t, n->parent, &in);

	if (rc)
		return rc;
	rc = name_prepend(&in, n, &name);
	if (rc == 0)
		rc = ck_tree_name(t, n->parent,
				  (struct ck_str){ name.data, name.len }, n);
	ck_buf_fini(&name);
	n->held = false;
	return rc;
}

int ck_tree_use(struct ck_tree *t, struct ck_node *n)
{
	if (n->held) {
		n->held = false;
		return 0;
	}
	if (n->about.type == CK_TYPE_DIR && !n->dir.view)
		return listed_use(t, n);
	if (n->number == 0)
		return ck_tree_enter(t, ck_number_dir(n->parent), n);
	ck_tree_hold(t, n->number);
	return 0;
}

void ck_tree_hold(struct ck_tree *t, uint64_t number)
{
	ck_dirs_use(&t->dirs, ck_number_dir(number), 1);
}

void ck_tree_forget(struct ck_tree *t, uint64_t number, uint64_t n)
{
	ck_dirs_forget(&t->dirs, ck_number_dir(number), n);
}

/* --- nodes ------------------------------------------------------------------------- */

/* An object in another view than objects/: the tree makes its JSON. */
static bool is_json(const struct ck_node *n)
{
	return n->about.topic == CK_FILE_KIND_OBJECT &&
	       n->dir.view != &ck_view_objects;
}

static int made_size(const struct ck_catalog *c, const struct ck_node *n,
		     uint64_t *size)
{
	if (is_json(n))
		return ck_object_file_size(n->dir.root->cp, n->about.number,
					   CK_OBJECT_JSON, size);
	return n->dir.view->size(c, &n->dir, n->entry, size);
}

int ck_tree_stat_in(const struct ck_catalog *c, const struct ck_node *n,
		    struct ck_node_stat *out)
{
	const struct ck_tree_options *options = n->dir.root->options;
	int rc = 0;

	*out = (struct ck_node_stat){ .number = n->number };
	if (n->about.type == CK_TYPE_DIR)
		ck_tree_dir_attr(options, c, out);
	else
		ck_tree_file_attr(options, c, &n->about, out);
	if (n->about.made)
		rc = made_size(c, n, &out->size);
	return rc;
}

int ck_tree_stat(const struct ck_node *n, struct ck_node_stat *out)
{
	ck_auto_catalog *c = ck_dir_catalog(&n->dir);

	return ck_tree_stat_in(c, n, out);
}

/* The version that a file has in a catalog. */
static uint64_t version_of(const struct ck_catalog *c, const struct ck_node *n,
			   struct ck_file_content *about)
{
	*about = n->about;
	if (n->dir.view && n->dir.view->stat(c, &n->dir, n->entry, about) == 0)
		return about->version;
	return 0;
}

/* Who may read the bytes that a catalog has of a file, as the present one knows it. */
static mode_t bytes_mode(const struct ck_catalog *of,
			 const struct ck_catalog *now, const struct ck_node *n,
			 const struct ck_file_content *about)
{
	struct ck_many many;
	mode_t mode = 0444;

	if (about->topic != CK_FILE_KIND_MANY ||
	    n->dir.view->many(of, &n->dir, n->entry, &many))
		return ck_catalog_attr(now, ck_about_items(of, about)).mode;
	for (uint32_t i = 0; i < many.n; i++)
		mode &= ck_catalog_attr(
				now, ck_items_of_tensor(
					     of, ck_catalog_tensor(
							 of, many.tensors[i])))
				.mode;
	for (uint32_t i = 0; i < many.nobjects; i++)
		mode &= ck_catalog_attr(
				now, ck_items_of_object(
					     of, ck_catalog_object(
							 of, many.objects[i])))
				.mode;
	many.put(many.arg);
	return mode;
}

/* The present catalog knows the files of all that were before. */
void ck_tree_rights(const struct ck_catalog *of, const struct ck_node *n,
		    struct ck_node_stat *out)
{
	const struct ck_tree_options *options = n->dir.root->options;
	ck_auto_catalog *now = ck_dir_catalog(&n->dir);
	struct ck_file_content old, present;
	mode_t bytes;

	uint64_t was, is;

	*out = (struct ck_node_stat){ .number = n->number };
	if (n->about.type == CK_TYPE_DIR) {
		ck_tree_dir_attr(options, now, out);
		return;
	}
	was = version_of(of, n, &old);
	is = version_of(now, n, &present);
	ck_tree_file_attr(options, now, &present, out);
	if (was == is)
		return;
	bytes = bytes_mode(of, now, n, &old) & 0444;
	out->mode = (out->mode & ~(mode_t)0444) | (bytes & ~options->umask);
}

int ck_tree_pin(struct ck_tree *t, const struct ck_node *n,
		const struct ck_catalog **out)
{
	struct ck_tree_place p;
	struct ck_file_content about;
	int rc;

	if (n->about.type == CK_TYPE_DIR)
		return -EISDIR;
	if (n->about.type == CK_TYPE_LINK)
		return -ELOOP;
	if (ck_root_is_gone(n->dir.root))
		return -ESTALE;
	if (!place_find(t, ck_number_dir(n->number), &p))
		return -ESTALE;
	rc = about_of(&p, n->entry, &about);
	if (rc == -ENOENT ||
	    (rc == 0 && ck_number_version(n->number) !=
				ck_version_in(&p.row, about.version)))
		rc = -ESTALE;
	if (rc)
		ck_catalog_put(p.c);
	else
		*out = p.c;
	return rc;
}

int ck_tree_slice(const struct ck_catalog *c, const struct ck_node *n,
		  struct ck_slice **out)
{
	bool transient;

	if (is_json(n))
		return ck_object_file_slice(n->dir.root->cp, n->about.number,
					    CK_OBJECT_JSON, out, &transient);
	return n->dir.view->slice(c, &n->dir, n->entry, out);
}

int ck_tree_link(const struct ck_node *n, struct ck_buf *target)
{
	ck_auto_catalog *c = ck_dir_catalog(&n->dir);
	int rc;

	if (n->about.type != CK_TYPE_LINK)
		return -EINVAL;
	rc = n->dir.view->link(c, &n->dir, n->entry, target);
	return rc ? rc : target->err;
}

/* --- the tree ---------------------------------------------------------------------- */

int ck_tree_make(struct ck_root *root, struct ck_tree **out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(root->cp);
	struct ck_dir dir = ck_root_dir(root);
	struct ck_tree *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	rc = ck_dirs_init(&t->dirs, &dir, c->generation);
	if (rc) {
		free(t);
		return rc;
	}
	if (root->made)
		ck_made_begin(root->made, &t->dirs);
	*out = t;
	return 0;
}

void ck_tree_free(struct ck_tree *t)
{
	if (!t)
		return;
	ck_dirs_fini(&t->dirs);
	free(t);
}
