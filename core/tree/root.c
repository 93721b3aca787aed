/* SPDX-License-Identifier: MIT */
/*
 * root: the directory that has the views' directories, in the order given, and those of
 * the tree's own views behind them.
 */
#include "tree_internal.h"

#include <errno.h>

static void child_set(const struct ck_tree_views *v, size_t i,
		      struct ck_child *out)
{
	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = (uint32_t)i,
		.dir = { .view = v->views[i],
			 .state = v->states[i],
			 .suffix = v->views[i]->suffix },
	};
}

static int root_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		       struct ck_str name, struct ck_child *out)
{
	const struct ck_tree_views *v = dir->state;

	(void)c;
	for (size_t i = 0; i < v->n; i++)
		if (ck_str_is(name, v->views[i]->top)) {
			child_set(v, i, out);
			return 0;
		}
	return -ENOENT;
}

static int root_next(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint64_t *at, struct ck_child *out)
{
	const struct ck_tree_views *v = dir->state;

	(void)c;
	if (*at >= v->n)
		return -ENOENT;
	child_set(v, *at, out);
	return 0;
}

static void root_name(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_buf *out)
{
	const struct ck_tree_views *v = dir->state;

	(void)c;
	ck_buf_text(out, v->views[entry]->top);
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

const struct ck_view ck_view_root = {
	.top = "",
	.lookup = root_lookup,
	.next = root_next,
	.name = root_name,
	.stat = root_stat,
	.slice = root_slice,
};

static const struct ck_view *const own[] = { &ck_view_objects,
					     &ck_view_control };

int ck_tree_views_make(const struct ck_view_source *from,
		       const struct ck_view *const *views, size_t n,
		       struct ck_tree_views *out)
{
	size_t all = n + CK_ARRAY_SIZE(own);
	int rc = 0;

	*out = (struct ck_tree_views){
		.views = calloc(all, sizeof(*out->views)),
		.states = calloc(all, sizeof(*out->states)),
	};
	if (!out->views || !out->states)
		rc = -ENOMEM;
	for (; rc == 0 && out->n < all; out->n++) {
		const struct ck_view *view = out->n < n ? views[out->n]
							: own[out->n - n];

		out->views[out->n] = view;
		if (view->make)
			rc = view->make(from, &out->states[out->n]);
	}
	if (rc)
		ck_tree_views_fini(out);
	return rc;
}

void ck_tree_views_fini(struct ck_tree_views *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->states[i] && v->views[i]->free)
			v->views[i]->free(v->states[i]);
	free(v->states);
	free(v->views);
}
