/* SPDX-License-Identifier: MIT */
/*
 * optim_trees: all optimizers of a catalog, and the parameters that their groups list:
 * `params` has ids, or names in the order of ids; `param_names` has the names of ids.
 * A list that cannot be read, or that contradicts another one, gives no parameters. The
 * result is constant; any thread.
 */
#include "optim.h"
#include "syntax/json_reader.h"

#include <errno.h>

/* True if an entry makes optim/ exist. The state of an optimizer that has no name needs
 * groups beside it. */
static bool is_some(const struct ck_optim_at *at)
{
	return !at->is_empty && (!at->is_top || at->what == CK_OPTIM_GROUP);
}

bool ck_optim_has_some(const struct ck_catalog *c)
{
	struct ck_optim_at at;

	for (size_t i = 0; i < c->listing->n; i++) {
		const struct ck_entry *e = ck_optim_entry(c, i);

		if (e && ck_optim_find(e, &at) && is_some(&at))
			return true;
	}
	return false;
}

/* --- trees -------------------------------------------------------------------------- */

static struct ck_str key_of(const void *arg, uint32_t number)
{
	const struct ck_optim_found *f = arg;

	return f->trees[number].key;
}

/* Finds or adds the tree of an entry. Uses `key` for its key. */
static int tree_of(struct ck_optim_found *f, const struct ck_entry *e,
		   const struct ck_optim_at *at, struct ck_buf *key,
		   uint32_t *out)
{
	struct ck_optim_tree *trees;
	struct ck_str text;
	int64_t found;

	key->len = 0;
	ck_optim_tree_key(e, at, key);
	text = (struct ck_str){ key->data ? key->data : "", key->len };
	found = key->err ? -1 : ck_table_find(&f->table, text);
	*out = (uint32_t)found;
	if (found >= 0)
		return 0;
	trees = ck_grow(f->trees, &f->trees_cap, f->ntrees, 1, sizeof(*trees));
	if (key->err || !trees)
		return -ENOMEM;
	f->trees = trees;
	trees[f->ntrees] = (struct ck_optim_tree){
		.key = ck_arena_copy(&f->text, text), .is_top = at->is_top
	};
	if (!trees[f->ntrees].key.p ||
	    ck_table_add(&f->table, trees[f->ntrees].key, f->ntrees, out))
		return -ENOMEM;
	f->ntrees++;
	return 0;
}

static int row_add(struct ck_optim_row **rows, uint32_t *n, size_t *cap,
		   struct ck_optim_row row)
{
	struct ck_optim_row *all = ck_grow(*rows, cap, *n, 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	*rows = all;
	all[(*n)++] = row;
	return 0;
}

/* Entries of groups, also of an empty list of groups; and state with a name. */
static int entry_add(struct ck_optim_found *f, uint32_t i, struct ck_buf *key)
{
	const struct ck_entry *e = ck_optim_entry(f->c, i);
	struct ck_optim_row row = { .entry = i };
	struct ck_optim_at at;
	int rc;

	if (!e || !ck_optim_find(e, &at) || at.is_empty)
		return 0;
	rc = tree_of(f, e, &at, key, &row.tree);
	if (rc)
		return rc;
	if (at.what == CK_OPTIM_STATE)
		return row_add(&f->states, &f->nstates, &f->states_cap, row);
	f->trees[row.tree].ngroups++;
	return row_add(&f->groups, &f->ngroups, &f->groups_cap, row);
}

/* Sorts the rows of groups by tree, without changing the order of those of one. */
static int groups_sort(struct ck_optim_found *f)
{
	struct ck_optim_row *sorted =
		malloc((f->ngroups + 1UL) * sizeof(*sorted));
	uint32_t at = 0;

	if (!sorted)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->ntrees; i++) {
		f->trees[i].group = at;
		at += f->trees[i].ngroups;
		f->trees[i].ngroups = 0;
	}
	for (uint32_t i = 0; i < f->ngroups; i++) {
		struct ck_optim_tree *t = &f->trees[f->groups[i].tree];

		sorted[t->group + t->ngroups++] = f->groups[i];
	}
	free(f->groups);
	f->groups = sorted;
	return 0;
}

/* Keeps the tree of the whole checkpoint only if it is the only one, and has groups. */
static void top_drop(struct ck_optim_found *f)
{
	uint32_t top = 0, n = 0;

	while (top < f->ntrees && !f->trees[top].is_top)
		top++;
	if (top == f->ntrees || (f->ntrees == 1 && f->ngroups > 0))
		return;
	for (uint32_t i = 0; i < f->nstates; i++)
		if (f->states[i].tree != top)
			f->states[n++] = f->states[i];
	f->nstates = n;
	f->trees[top].ngroups = 0;
	for (uint32_t i = 0; i < f->nstates; i++)
		f->states[i].tree -= f->states[i].tree > top;
	f->ntrees--;
	memmove(&f->trees[top], &f->trees[top + 1],
		(f->ntrees - top) * sizeof(*f->trees));
	ck_table_fini(&f->table);
}

/* --- lists of parameters ------------------------------------------------------------ */

/* An object that is a list `params` or `param_names` of a group, or that is all groups,
 * as DCP before 2.4 has it. */
struct list {
	uint32_t object;
	uint64_t group;
	bool names; /* param_names */
	bool whole; /* all groups */
};

/* The elements of a list: either numbers or texts. */
struct elements {
	struct ck_optim_param *all;
	uint32_t n;
	size_t cap;
	bool good, ids, texts;
};

/* Reads the lists of a tree. */
struct reading {
	struct ck_optim_found *f;
	const struct ck_object_access *objects;
	struct ck_optim_tree *t;
	struct elements params, names; /* of the present group */
	bool good; /* all parameters so far have an id and a name */
};

static bool option_is_list(struct ck_str option, struct list *out)
{
	out->names = ck_str_is(option, "param_names");
	return out->names || ck_str_is(option, "params");
}

/* True if an entry is a list: of a nested tree, or "param_groups.<n>.params". */
static bool is_list(const struct ck_entry *e, const struct ck_optim_at *at,
		    struct list *out)
{
	struct ck_path_part group, option;
	const char *dot;

	if (at->is_flat) {
		dot = at->rest.len ? memchr(at->rest.p, '.', at->rest.len)
				   : NULL;
		return dot && e->nparts <= at->part + 1 &&
		       ck_view_number(
			       (struct ck_str){ at->rest.p,
						(size_t)(dot - at->rest.p) },
			       &out->group) &&
		       option_is_list(
			       (struct ck_str){ dot + 1, (size_t)(at->rest.p +
								  at->rest.len -
								  dot - 1) },
			       out);
	}
	out->whole = e->nparts <= at->part;
	if (e->nparts != at->part + 2)
		return out->whole;
	group = ck_entry_part(e, at->part);
	option = ck_entry_part(e, at->part + 1);
	return ck_view_number(ck_part_text(&group), &out->group) &&
	       option_is_list(ck_part_text(&option), out);
}

static int list_cmp(const void *a, const void *b)
{
	const struct list *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->names > y->names) - (x->names < y->names);
}

/* Lists of a tree by group: params, then param_names. Sets facts of the tree. */
static int lists_find(const struct ck_optim_found *f, struct ck_optim_tree *t,
		      struct list **out, uint32_t *n)
{
	bool is_nested = false;

	*n = 0;
	*out = calloc(t->ngroups + 1UL, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->ngroups; i++) {
		uint32_t entry = f->groups[t->group + i].entry;
		struct ck_entry_id id = f->c->listing->entries[entry];
		const struct ck_entry *e = ck_optim_entry(f->c, entry);
		struct list list = { .object = id.i };
		struct ck_optim_at at;

		(void)ck_optim_find(e, &at);
		is_nested |= !at.is_flat;
		if (!id.is_object || !is_list(e, &at, &list))
			continue;
		/* A flattened tree has param_names for each parameter too. */
		t->is_numbered |= at.is_flat && !list.names;
		(*out)[(*n)++] = list;
	}
	t->is_flat = t->ngroups && !is_nested;
	t->is_numbered &= t->is_flat;
	qsort(*out, *n, sizeof(**out), list_cmp);
	return 0;
}

/* Begins a list, or a tuple of one. False if v is another value. */
static bool list_begin(struct ck_json_reader *r, struct ck_json_value *v,
		       bool *is_tuple, int *rc)
{
	*is_tuple = v->type == CK_JSON_OBJECT;
	if (*is_tuple) {
		*rc = ck_json_next(r, v);
		if (*rc || !v->key.p || !ck_str_is(v->key, "$tuple"))
			return false;
	}
	return v->type == CK_JSON_ARRAY;
}

static int element_add(struct ck_optim_found *f, struct elements *to,
		       const struct ck_json_value *v)
{
	struct ck_optim_param *all = ck_grow(to->all, &to->cap, to->n, 1,
					     sizeof(*all));
	struct ck_optim_param *p;

	if (!all)
		return -ENOMEM;
	to->all = all;
	p = &all[to->n++];
	*p = (struct ck_optim_param){ 0 };
	if (v->type == CK_JSON_STRING) {
		p->name = ck_arena_copy(&f->text, v->text);
		to->texts = true;
		return p->name.p ? 0 : -ENOMEM;
	}
	to->ids = true;
	to->good &= v->type == CK_JSON_NUMBER && ck_json_u63(v, &p->id);
	return 0;
}

/* Parses the list that v begins. A list of other values is not good, and read in part. */
static int elements_parse(struct ck_optim_found *f, struct ck_json_reader *r,
			  struct ck_json_value v, struct elements *to)
{
	bool is_tuple;
	int rc = 0;

	to->n = 0;
	to->ids = to->texts = false;
	to->good = list_begin(r, &v, &is_tuple, &rc);
	while (to->good && rc == 0) {
		rc = ck_json_next(r, &v);
		if (rc || v.type == CK_JSON_END)
			break;
		rc = element_add(f, to, &v);
	}
	if (rc == 0 && to->good && is_tuple)
		rc = ck_json_next(r, &v);
	to->good &= rc == 0 && !(to->ids && to->texts);
	return rc;
}

/* --- parameters of a tree ----------------------------------------------------------- */

static int param_add(struct ck_optim_found *f, struct ck_optim_param p)
{
	struct ck_optim_param *all = ck_grow(f->params, &f->params_cap,
					     f->nparams, 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	f->params = all;
	all[f->nparams++] = p;
	return 0;
}

/* Adds the parameters of the present group. */
static int group_add(struct reading *g)
{
	const struct elements *params = &g->params, *names = &g->names;
	struct ck_optim_tree *t = g->t;
	int rc = 0;

	g->good &= params->good;
	if (!params->good)
		return 0;
	t->has_ids |= params->ids;
	t->has_names |= params->texts;
	if (params->ids &&
	    !(names->good && names->n == params->n && names->texts))
		g->good = false;
	for (uint32_t i = 0; i < params->n && g->good && rc == 0; i++) {
		struct ck_optim_param p = params->all[i];

		if (params->ids)
			p.name = names->all[i].name;
		else
			p.id = g->f->nparams - t->param;
		rc = param_add(g->f, p);
	}
	return rc;
}

/* Parses the options of one group of all. */
static int group_parse(struct reading *g, struct ck_json_reader *r)
{
	struct ck_json_value v;
	int rc = 0;

	g->params.good = g->names.good = false;
	while (rc == 0) {
		rc = ck_json_next(r, &v);
		if (rc || v.type == CK_JSON_END)
			break;
		if (v.key.p && ck_str_is(v.key, "params"))
			rc = elements_parse(g->f, r, v, &g->params);
		else if (v.key.p && ck_str_is(v.key, "param_names"))
			rc = elements_parse(g->f, r, v, &g->names);
		else
			rc = ck_json_skip(r, &v);
	}
	return rc ? rc : group_add(g);
}

/* Parses all groups, which v begins. */
static int groups_parse(struct reading *g, struct ck_json_reader *r,
			struct ck_json_value v)
{
	int rc = 0;

	g->good &= v.type == CK_JSON_ARRAY;
	while (rc == 0 && g->good) {
		rc = ck_json_next(r, &v);
		if (rc || v.type == CK_JSON_END)
			break;
		g->good = v.type == CK_JSON_OBJECT;
		if (g->good)
			rc = group_parse(g, r);
	}
	return rc;
}

/* Reads an object. Returns 0, also if it is damaged, or: -ENOMEM; a transient error. */
static int list_read(struct reading *g, const struct list *list)
{
	struct elements *to = list->names ? &g->names : &g->params;
	struct ck_json_reader r;
	struct ck_json_value v;
	struct ck_buf text = { 0 };
	bool transient = false;
	int rc = g->objects->json(g->objects->cp, list->object, &text,
				  &transient);

	if (rc == 0) {
		ck_json_reader_init(&r, (struct ck_str){ text.data, text.len },
				    NULL);
		rc = ck_json_next(&r, &v);
		if (rc == 0)
			rc = list->whole ? groups_parse(g, &r, v)
					 : elements_parse(g->f, &r, v, to);
		ck_json_reader_fini(&r);
	}
	ck_buf_fini(&text);
	if (rc && list->whole)
		g->good = false;
	return transient || rc == -ENOMEM ? rc : 0;
}

/* Reads the lists of a tree, one group after the other. */
static int lists_read(struct reading *g, const struct list *lists, uint32_t n)
{
	struct ck_optim_found *f = g->f;
	int rc = 0;

	g->good = true;
	g->t->param = f->nparams;
	for (uint32_t i = 0; i < n && rc == 0;) {
		const struct list *first = &lists[i];

		g->params.good = g->names.good = false;
		for (; i < n && lists[i].group == first->group && rc == 0; i++)
			rc = list_read(g, &lists[i]);
		if (rc == 0 && !first->whole)
			rc = group_add(g);
	}
	if (!g->good || (g->t->has_ids && g->t->has_names))
		f->nparams = g->t->param;
	g->t->nparams = f->nparams - g->t->param;
	return rc;
}

static int trees_read(struct ck_optim_found *f,
		      const struct ck_object_access *objects)
{
	struct reading g = { .f = f, .objects = objects };
	int rc = 0;

	for (uint32_t i = 0; i < f->ntrees && rc == 0; i++) {
		struct list *lists;
		uint32_t n;

		g.t = &f->trees[i];
		rc = lists_find(f, g.t, &lists, &n);
		if (rc == 0)
			rc = lists_read(&g, lists, n);
		free(lists);
	}
	free(g.params.all);
	free(g.names.all);
	return rc;
}

int ck_optim_found_make(const struct ck_catalog *c,
			const struct ck_object_access *objects,
			struct ck_optim_found **out)
{
	struct ck_optim_found *f = calloc(1, sizeof(*f));
	struct ck_buf key = { 0 };
	int rc = 0;

	if (!f)
		return -ENOMEM;
	f->c = ck_catalog_hold(c);
	f->table = (struct ck_table){ .key = key_of, .arg = f };
	for (size_t i = 0; i < c->listing->n && rc == 0; i++)
		rc = entry_add(f, (uint32_t)i, &key);
	ck_buf_fini(&key);
	if (rc == 0)
		rc = groups_sort(f);
	if (rc == 0) {
		top_drop(f);
		rc = trees_read(f, objects);
	}
	if (rc)
		ck_optim_found_free(f);
	else
		*out = f;
	return rc;
}

void ck_optim_found_free(struct ck_optim_found *f)
{
	if (!f)
		return;
	ck_table_fini(&f->table);
	ck_arena_fini(&f->text);
	free(f->trees);
	free(f->groups);
	free(f->states);
	free(f->params);
	ck_catalog_put(f->c);
	free(f);
}
