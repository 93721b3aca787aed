/* SPDX-License-Identifier: MIT */
/*
 * root: the directory that has the views' directories, in the order given, and those of
 * the tree's own views behind them.
 */
#include "tree_internal.h"

#include <errno.h>

static void child_set(const struct ck_root *r, size_t i, struct ck_child *out)
{
	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = (uint32_t)i,
		.dir = { .view = r->views[i],
			 .state = r->states[i],
			 .suffix = r->views[i]->suffix },
	};
}

static int root_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		       struct ck_str name, struct ck_child *out)
{
	const struct ck_root *r = dir->state;

	(void)c;
	for (size_t i = 0; i < r->n; i++)
		if (ck_str_is(name, r->views[i]->top)) {
			child_set(r, i, out);
			return 0;
		}
	return -ENOENT;
}

static int root_next(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint64_t *at, struct ck_child *out)
{
	const struct ck_root *r = dir->state;

	(void)c;
	if (*at >= r->n)
		return -ENOENT;
	child_set(r, *at, out);
	return 0;
}

static void root_name(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_buf *out)
{
	const struct ck_root *r = dir->state;

	(void)c;
	ck_buf_text(out, r->views[entry]->top);
}

/* There are no files in it. */
static int root_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_about *out)
{
	(void)c, (void)dir, (void)entry, (void)out;
	return -ENOENT;
}

static int root_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_slice **out)
{
	(void)c, (void)dir, (void)entry, (void)out;
	return -ENOENT;
}

static const struct ck_view view_root = {
	.top = "",
	.lookup = root_lookup,
	.next = root_next,
	.name = root_name,
	.stat = root_stat,
	.slice = root_slice,
};

static const struct ck_view *const own[] = { &ck_view_objects,
					     &ck_view_control };

/* Adds a view, with what it makes. */
static int view_add(struct ck_root *r, const struct ck_view_source *from,
		    const struct ck_view *view)
{
	r->views[r->n++] = view;
	return view->make ? view->make(from, &r->states[r->n - 1]) : 0;
}

static int views_make(struct ck_root *r, const struct ck_view *const *views,
		      size_t n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);
	const struct ck_view_source from = { c, r->cp, r };
	size_t all = n + CK_ARRAY_SIZE(own);
	int rc = 0;

	r->views = calloc(all, sizeof(*r->views));
	r->states = calloc(all, sizeof(*r->states));
	if (!r->views || !r->states)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < all; i++)
		rc = view_add(r, &from, i < n ? views[i] : own[i - n]);
	return rc;
}

int ck_root_make(struct ck_checkpoint *cp, const struct ck_view *const *views,
		 size_t nviews, const struct ck_tree_options *options,
		 struct ck_root **out)
{
	struct ck_root *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	r->cp = cp;
	r->options = options;
	r->damage = ck_damage_make(cp);
	rc = r->damage ? views_make(r, views, nviews) : -ENOMEM;
	if (rc)
		ck_root_free(r);
	else
		*out = r;
	return rc;
}

void ck_root_free(struct ck_root *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		if (r->states[i] && r->views[i]->free)
			r->views[i]->free(r->states[i]);
	free(r->states);
	free(r->views);
	ck_damage_free(r->damage);
	free(r);
}

struct ck_dir ck_root_dir(struct ck_root *r)
{
	return (struct ck_dir){ .view = &view_root, .state = r, .root = r };
}

struct ck_damage *ck_root_damage(const struct ck_root *r)
{
	return r->damage;
}

uint64_t ck_root_count(const struct ck_root *r)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);
	uint64_t n = 1 + r->n;

	for (size_t i = 0; i < r->n; i++)
		if (r->views[i]->count)
			n += r->views[i]->count(c, r->states[i]);
	return n;
}
