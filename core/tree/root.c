/* SPDX-License-Identifier: MIT */
/*
 * root: the directory that has the views' directories, in the order given, and those of
 * the tree's own views behind them.
 */
#include "format/run/run.h"
#include "object.h"
#include "tree_internal.h"

#include <errno.h>

bool ck_root_has(const struct ck_root *r, const struct ck_catalog *c, size_t i)
{
	const struct ck_view *v = r->views[i];

	return !v->is_empty || !v->is_empty(c, r->states[i]);
}

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

	for (size_t i = 0; i < r->n; i++)
		if (ck_str_is(name, r->views[i]->top)) {
			if (!ck_root_has(r, c, i)) {
				if (r->views[i]->absent)
					r->views[i]->absent(c, r->states[i]);
				return -ENOENT;
			}
			child_set(r, i, out);
			return 0;
		}
	return -ENOENT;
}

static int root_next(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint64_t *at, struct ck_child *out)
{
	const struct ck_root *r = dir->state;

	while (*at < r->n && !ck_root_has(r, c, *at))
		++*at;
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
		     uint32_t entry, struct ck_file_content *out)
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

enum { OWN = 2 }; /* views of the tree itself */

/* Options of the view that have no effect. */
static void view_log(const struct ck_root *r, const struct ck_catalog *c,
		     size_t i)
{
	struct ck_buf line = { 0 };
	size_t start;

	if (!r->views[i]->log)
		return;
	ck_buf_printf(&line, "%s: ", ck_show(ck_str_from(r->cp->path)));
	start = line.len;
	r->views[i]->log(c, r->states[i], &line);
	if (line.len > start && !line.err)
		ck_view_note(r->options->view, line.data);
	ck_buf_fini(&line);
}

void ck_root_log_copies(const struct ck_root *r, const char *more)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);
	struct ck_buf names = { 0 };
	unsigned n = 0;

	for (size_t i = 0; i < r->n && !r->made; i++) {
		if (r->views[i] == &ck_view_objects ||
		    r->views[i] == &ck_view_control || !ck_root_has(r, c, i))
			continue;
		ck_buf_printf(&names, " %s", r->views[i]->top);
		n++;
	}
	if (more && !r->made) {
		ck_buf_printf(&names, " %s", more);
		n++;
	}
	if (n > 1 && !names.err)
		ck_log("note: cp -r of the mount copies the data once for each of%s; "
		       "copy full and objects, or use: ckptfs cp -r SRC DEST",
		       names.data);
	ck_buf_fini(&names);
}

/* Adds a view, with what it makes, if it is wanted. */
static int view_add(struct ck_root *r, const struct ck_view_source *from,
		    const struct ck_view *view)
{
	if (view != &ck_view_control &&
	    !ck_view_is_wanted(from->options, view->top))
		return 0;
	r->views[r->n++] = view;
	return view->make ? view->make(from, &r->states[r->n - 1]) : 0;
}

static int views_make(struct ck_root *r, const struct ck_view *const *views,
		      size_t n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);
	static const struct ck_view_options none;
	const struct ck_view_options *o = r->options->view;
	const struct ck_view_source from = {
		.catalog = c,
		.options = o ? o : &none,
		.aside = o && o->aside ? o->aside : r->aside,
		.root = r,
		.objects = { r->cp, ck_object_record, ck_object_print,
			     ck_object_pickle },
	};
	size_t entries = 0;
	int rc = 0;

	r->views = calloc(n + OWN, sizeof(*r->views));
	r->states = calloc(n + OWN, sizeof(*r->states));
	if (!r->views || !r->states)
		return -ENOMEM;
	while (entries < n && !views[entries]->is_form)
		entries++;
	for (size_t i = 0; rc == 0 && i < entries; i++)
		rc = view_add(r, &from, views[i]);
	if (rc == 0 && !r->made) /* a run directory has no entries */
		rc = view_add(r, &from, &ck_view_objects);
	for (size_t i = entries; rc == 0 && i < n; i++)
		rc = view_add(r, &from, views[i]);
	if (rc == 0)
		rc = view_add(r, &from, &ck_view_control);
	for (size_t i = 0; rc == 0 && i < r->n; i++)
		view_log(r, c, i);
	return rc;
}

/* The counters of a checkpoint on several hosts are there before, and a step has those of the
 * run. */
static int stats_make(struct ck_root *r)
{
	struct ck_files *files = r->cp->files;

	if (!files || ck_files_stats(files))
		return 0;
	r->stats = ck_stats_make_here();
	ck_files_set_stats(files, r->stats);
	return r->stats ? 0 : -ENOMEM;
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
	r->replicas = ck_replicas_make(cp);
	r->aside = ck_aside_make(cp);
	rc = r->damage && r->replicas && r->aside ? stats_make(r) : -ENOMEM;
	if (rc == 0 && ck_checkpoint_run(cp)) {
		rc = ck_made_make(r, views, nviews, &r->made);
		nviews = 0;
	}
	if (rc == 0)
		rc = views_make(r, views, nviews);
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
	ck_made_free(r->made);
	for (size_t i = 0; i < r->n; i++)
		if (r->states[i] && r->views[i]->free)
			r->views[i]->free(r->states[i]);
	free(r->states);
	free(r->views);
	ck_aside_free(r->aside);
	ck_damage_free(r->damage);
	ck_replicas_free(r->replicas);
	if (r->stats)
		ck_files_set_stats(r->cp->files, NULL);
	free(r->stats);
	free(r);
}

struct ck_dir ck_root_dir(struct ck_root *r)
{
	if (r->made)
		return ck_made_dir(r);
	return (struct ck_dir){ .view = &view_root, .state = r, .root = r };
}

struct ck_checkpoint *ck_root_checkpoint(const struct ck_root *r)
{
	return r->cp;
}

bool ck_root_is_renewed(struct ck_root *r)
{
	uint64_t now = ck_checkpoint_access(r->cp);

	return __atomic_exchange_n(&r->renewals, now, __ATOMIC_ACQ_REL) != now;
}

bool ck_root_log_once(struct ck_root *r, unsigned bit)
{
	return !(__atomic_fetch_or(&r->logged, bit, __ATOMIC_ACQ_REL) & bit);
}

struct ck_damage *ck_root_damage(const struct ck_root *r)
{
	return r->damage;
}

uint64_t ck_root_count(const struct ck_root *r)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);
	uint64_t n = 1;

	if (r->made)
		return ck_made_count(r);
	for (size_t i = 0; i < r->n; i++) {
		n += ck_root_has(r, c, i);
		if (r->views[i]->count)
			n += r->views[i]->count(c, r->states[i]);
	}
	return n;
}
