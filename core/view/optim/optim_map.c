/* SPDX-License-Identifier: MIT */
/*
 * optim_map: which parameters have an id, which have a name, and the directories:
 *
 *   optim/                     of the only optimizer, or with one directory for each
 *   <tree>/by-name/<fqn>/      files of a parameter
 *   <tree>/by-id/<id>/         the same files
 *
 * Ids and names are those of the source. Groups that list both complete them, if they
 * list every parameter that has state; order and shapes of a model never do. Constant
 * once made; any thread.
 */
#include "ckptfs/model.h"
#include "optim.h"
#include "view/hf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct making {
	struct ck_optim_map *m;
	struct ck_texts *paths;
	struct ck_optim_names names;
	uint32_t *order; /* of keys, by tree */
	uint32_t *first; /* of each tree in `order`, and the end */
	struct ck_optim_shared shared;
	bool has_flat;	       /* the checkpoint has flat parameters */
	struct ck_table named; /* keys of the present tree that have a name */
	struct ck_buf path, stem; /* scratch */
};

/* --- ids and names ------------------------------------------------------------------ */

static int param_id_cmp(const void *a, const void *b)
{
	const struct ck_optim_param *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int param_name_cmp(const void *a, const void *b)
{
	const struct ck_optim_param *x = a, *y = b;
	int cmp = memcmp(x->name.p, y->name.p,
			 ck_min(x->name.len, y->name.len));

	return cmp ? cmp
		   : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static struct ck_optim_key *key_at(const struct making *b, uint32_t i)
{
	return &b->m->keys.all[b->order[i]];
}

/* Keys that are numbers are ids, unless the groups list names. Without lists, texts
 * are ids only if all keys are numbers: DCP makes texts of ids. */
static void ids_of_source(const struct making *b, const struct ck_optim_tree *t,
			  uint32_t begin, uint32_t end)
{
	bool named = t->has_names || (t->is_flat && !t->is_numbered);
	bool all = !named;

	for (uint32_t i = begin; i < end; i++)
		all &= key_at(b, i)->is_number;
	for (uint32_t i = begin; i < end; i++) {
		struct ck_optim_key *key = key_at(b, i);

		key->has_id = key->is_number &&
			      (key->is_int || (!named && t->has_ids) || all);
		key->has_name = !key->has_id && !key->is_int;
		if (key->has_name)
			key->name = key->text;
	}
}

/* The parameter in the groups of a key, or NULL. Groups are sorted by the same. */
static const struct ck_optim_param *param_of(const struct ck_optim_param *all,
					     uint32_t n,
					     const struct ck_optim_key *key,
					     bool by_id)
{
	struct ck_optim_param p = { key->number, key->text };

	return n ? bsearch(&p, all, n, sizeof(p),
			   by_id ? param_id_cmp : param_name_cmp)
		 : NULL;
}

/* True if two parameters have the same id, or name. */
static bool params_repeat(struct ck_optim_param *all, uint32_t n,
			  int (*cmp)(const void *a, const void *b))
{
	if (n)
		qsort(all, n, sizeof(*all), cmp);
	for (uint32_t i = 1; i < n; i++)
		if (cmp(&all[i - 1], &all[i]) == 0)
			return true;
	return false;
}

/* Gives keys that have an id a name by the groups, or the other way round, if the
 * groups have all of these keys. */
static void keys_complete(const struct making *b, const struct ck_optim_tree *t,
			  uint32_t begin, uint32_t end, bool by_id)
{
	struct ck_optim_param *all = b->m->found->params + t->param;
	bool complete = true;

	if (params_repeat(all, t->nparams, param_id_cmp) ||
	    params_repeat(all, t->nparams, param_name_cmp))
		return;
	if (by_id && t->nparams)
		qsort(all, t->nparams, sizeof(*all), param_id_cmp);
	for (uint32_t i = begin; i < end; i++)
		if ((by_id ? key_at(b, i)->has_id : key_at(b, i)->has_name) &&
		    !param_of(all, t->nparams, key_at(b, i), by_id))
			complete = false;
	for (uint32_t i = begin; i < end && complete; i++) {
		struct ck_optim_key *key = key_at(b, i);
		const struct ck_optim_param *p;

		if (by_id ? key->has_name : key->has_id)
			continue;
		p = param_of(all, t->nparams, key, by_id);
		key->name = p->name;
		key->number = p->id;
		key->has_id = key->has_name = true;
	}
}

static bool some_are_flat(const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (ck_tensor_is_whole(c, i) && ck_view_is_flat(c, i))
			return true;
	return false;
}

/* Takes the ids away if one of them is a flat parameter of FSDP1. Ids without names are, if
 * the checkpoint has flat parameters. */
static void flat_hide(const struct making *b, const struct ck_optim_tree *t,
		      uint32_t begin, uint32_t end)
{
	bool flat = b->has_flat && t->nparams == 0;

	for (uint32_t i = 0; i < t->nparams; i++)
		flat |= ck_name_is_flat(b->m->found->params[t->param + i].name);
	for (uint32_t i = begin; i < end; i++)
		flat |= key_at(b, i)->has_name &&
			ck_name_is_flat(key_at(b, i)->name);
	for (uint32_t i = begin; i < end && flat; i++)
		key_at(b, i)->has_id = false;
}

/* --- directories -------------------------------------------------------------------- */

/* The number of a path, for which of_number has room. */
static int path_number(struct making *b, struct ck_str path, uint32_t *out)
{
	struct ck_optim_map *m = b->m;
	uint32_t *numbers;
	int rc = ck_texts_add(b->paths, path, true, out);

	if (rc || *out < m->nnumbers)
		return rc;
	numbers = ck_grow(m->of_number, &m->numbers_cap, m->nnumbers,
			  *out + 1 - m->nnumbers, sizeof(*numbers));
	if (!numbers)
		return -ENOMEM;
	m->of_number = numbers;
	while (m->nnumbers <= *out)
		numbers[m->nnumbers++] = CK_OPTIM_NONE;
	return 0;
}

static int number_of(struct making *b, uint32_t parent, struct ck_str name,
		     uint32_t *out)
{
	const struct ck_optim_dir *in = &b->m->dirs[parent];

	b->path.len = 0;
	ck_buf_str(&b->path, b->paths->all[in->number]);
	ck_buf_text(&b->path, b->path.len ? "/" : "");
	ck_buf_str(&b->path, name);
	return b->path.err ? -ENOMEM
			   : path_number(b,
					 (struct ck_str){ b->path.data,
							  b->path.len },
					 out);
}

/* Adds a directory with a file name; behind it is ~2 and so on if another one has it. */
static int dir_add(struct making *b, uint32_t parent, struct ck_str name,
		   struct ck_optim_dir dir)
{
	struct ck_optim_map *m = b->m;
	struct ck_optim_dir *dirs;
	size_t len = name.len;
	int rc = 0;

	b->stem.len = 0;
	ck_buf_str(&b->stem, name);
	for (unsigned nth = 2; rc == 0; nth++) {
		rc = b->stem.err ? -ENOMEM
				 : number_of(b, parent,
					     (struct ck_str){ b->stem.data,
							      b->stem.len },
					     &dir.number);
		if (rc || m->of_number[dir.number] == CK_OPTIM_NONE)
			break;
		b->stem.len = len;
		ck_buf_printf(&b->stem, "~%u", nth);
	}
	if (rc)
		return rc;
	m->of_number[dir.number] = m->ndirs;
	dir.parent = parent;
	dirs = ck_grow(m->dirs, &m->dirs_cap, m->ndirs, 1, sizeof(*dirs));
	if (!dirs)
		return -ENOMEM;
	m->dirs = dirs;
	dirs[m->ndirs++] = dir;
	return 0;
}

/* The directory of a parameter by its name. */
static int named_add(struct making *b, uint32_t parent, struct ck_str fqn,
		     const struct ck_optim_key *key)
{
	struct ck_buf name = { 0 }, stem = { 0 };
	int rc;

	ck_name_unwrap(fqn, &name);
	ck_name_stem((struct ck_str){ name.data ? name.data : "", name.len }, 1,
		     &stem);
	rc = name.err || stem.err
		     ? -ENOMEM
		     : dir_add(b, parent,
			       (struct ck_str){ stem.data, stem.len },
			       (struct ck_optim_dir){ .first = key->file,
						      .n = key->nfiles,
						      .tree = CK_OPTIM_NONE,
						      .has_files = true });
	ck_buf_fini(&name);
	ck_buf_fini(&stem);
	return rc;
}

static struct ck_str named_text(const void *arg, uint32_t number)
{
	const struct ck_optim_keys *k = arg;

	return k->all[number].name;
}

/* Adds directories for the other names of a shared parameter that have no state. A name that the
 * groups list is a parameter of its own. */
static int aliases_add(struct making *b, uint32_t parent, uint32_t tree,
		       const struct ck_optim_key *key)
{
	uint32_t n;
	const struct ck_optim_same *all =
		ck_optim_shared_find(&b->shared, key->name, tree, &n);
	int rc = 0;

	for (uint32_t i = 0; i < n && rc == 0; i++)
		if (ck_table_find(&b->named, all[i].name) < 0 &&
		    ck_table_find(&b->shared.listed.table, all[i].name) < 0)
			rc = named_add(b, parent, all[i].name, key);
	return rc;
}

static int by_name_fill(struct making *b, uint32_t dir, uint32_t begin,
			uint32_t end)
{
	uint32_t number, tree = b->m->dirs[b->m->dirs[dir].parent].tree;
	int rc = 0;

	b->m->dirs[dir].first = b->m->ndirs;
	b->named = (struct ck_table){ .key = named_text, .arg = &b->m->keys };
	for (uint32_t i = begin; i < end && rc == 0; i++) {
		if (!key_at(b, i)->has_name)
			continue;
		rc = named_add(b, dir, key_at(b, i)->name, key_at(b, i));
		if (rc == 0 && b->shared.n)
			rc = ck_table_add(&b->named, key_at(b, i)->name,
					  b->order[i], &number);
	}
	if (b->shared.n && rc == 0)
		rc = ck_optim_shared_list(&b->shared, b->m->found, tree,
					  &b->names);
	for (uint32_t i = begin; b->shared.n && i < end && rc == 0; i++)
		if (key_at(b, i)->has_name)
			rc = aliases_add(b, dir, tree, key_at(b, i));
	ck_table_fini(&b->named);
	b->m->dirs[dir].n = b->m->ndirs - b->m->dirs[dir].first;
	return rc;
}

static int key_id_cmp(const void *a, const void *b, void *arg)
{
	const struct ck_optim_key *all = arg;
	const struct ck_optim_key *x = &all[*(const uint32_t *)a];
	const struct ck_optim_key *y = &all[*(const uint32_t *)b];

	return (x->number > y->number) - (x->number < y->number);
}

/* Sorts the keys of the tree by their ids: the last use of their order. */
static int by_id_fill(struct making *b, uint32_t dir, uint32_t begin,
		      uint32_t end)
{
	char id[24];
	int rc = 0;

	qsort_r(b->order + begin, end - begin, sizeof(*b->order), key_id_cmp,
		b->m->keys.all);
	b->m->dirs[dir].first = b->m->ndirs;
	for (uint32_t i = begin; i < end && rc == 0; i++) {
		const struct ck_optim_key *key = key_at(b, i);

		if (!key->has_id)
			continue;
		snprintf(id, sizeof(id), "%" PRIu64, key->number);
		rc = dir_add(b, dir, ck_str_from(id),
			     (struct ck_optim_dir){ .first = key->file,
						    .n = key->nfiles,
						    .tree = CK_OPTIM_NONE,
						    .has_files = true });
	}
	b->m->dirs[dir].n = b->m->ndirs - b->m->dirs[dir].first;
	return rc;
}

/* Fills the directory of a tree: by-name/ and by-id/ first, so that they are beside
 * each other. */
static int tree_fill(struct making *b, uint32_t dir, uint32_t tree)
{
	static const struct ck_optim_dir none = { .tree = CK_OPTIM_NONE };
	struct ck_optim_map *m = b->m;
	struct ck_optim_tree *t = &m->found->trees[tree];
	uint32_t begin = b->first[tree], end = b->first[tree + 1];
	uint32_t at = m->ndirs;
	bool names = false, ids = false;
	int rc = 0;

	ids_of_source(b, t, begin, end);
	keys_complete(b, t, begin, end, false);
	keys_complete(b, t, begin, end, true);
	flat_hide(b, t, begin, end);
	for (uint32_t i = begin; i < end; i++) {
		names |= key_at(b, i)->has_name;
		ids |= key_at(b, i)->has_id;
	}
	t->lacks_names = begin < end && !names;
	t->lacks_ids = begin < end && !ids;
	m->dirs[dir].first = at;
	m->dirs[dir].n = (uint32_t)names + (uint32_t)ids;
	m->dirs[dir].tree = tree;
	if (names)
		rc = dir_add(b, dir, CK_STR("by-name"), none);
	if (rc == 0 && ids)
		rc = dir_add(b, dir, CK_STR("by-id"), none);
	if (rc == 0 && names)
		rc = by_name_fill(b, at, begin, end);
	if (rc == 0 && ids)
		rc = by_id_fill(b, at + names, begin, end);
	return rc;
}

static int trees_fill(struct making *b)
{
	struct ck_optim_map *m = b->m;
	uint32_t n = m->found->ntrees;
	struct ck_buf stem = { 0 };
	int rc = 0;

	if (n == 1)
		return tree_fill(b, 0, 0);
	m->dirs[0].first = 1;
	m->dirs[0].n = n;
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		stem.len = 0;
		ck_name_stem(m->found->trees[i].key, 1, &stem);
		rc = stem.err ? -ENOMEM
			      : dir_add(b, 0,
					(struct ck_str){ stem.data, stem.len },
					m->dirs[0]);
	}
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = tree_fill(b, 1 + i, i);
	ck_buf_fini(&stem);
	return rc;
}

/* --- the map ------------------------------------------------------------------------ */

/* Sorts the keys by tree, without changing the order of those of one. */
static int keys_order(struct making *b)
{
	const struct ck_optim_keys *k = &b->m->keys;
	uint32_t n = b->m->found->ntrees, sum = 0;

	b->order = malloc((k->n + 1UL) * sizeof(*b->order));
	b->first = calloc(n + 2UL, sizeof(*b->first));
	if (!b->order || !b->first)
		return -ENOMEM;
	for (uint32_t i = 0; i < k->n; i++)
		b->first[k->all[i].tree + 1]++;
	for (uint32_t i = 0; i <= n; i++) {
		b->first[i] += sum;
		sum = b->first[i];
	}
	for (uint32_t i = 0; i < k->n; i++)
		b->order[b->first[k->all[i].tree]++] = i;
	for (uint32_t i = n; i > 0; i--)
		b->first[i] = b->first[i - 1];
	b->first[0] = 0;
	return 0;
}

/* Adds optim/ itself. */
static int top_add(struct making *b)
{
	struct ck_optim_map *m = b->m;
	uint32_t number;
	int rc;

	rc = path_number(b, CK_STR(""), &number);
	m->dirs = ck_grow(NULL, &m->dirs_cap, 0, 1, sizeof(*m->dirs));
	if (rc || !m->dirs)
		return -ENOMEM;
	m->dirs[0] = (struct ck_optim_dir){ .tree = CK_OPTIM_NONE };
	m->of_number[0] = 0;
	m->ndirs = 1;
	return 0;
}

static bool any_is_flat(const struct ck_optim_found *f)
{
	struct ck_optim_at at;

	for (uint32_t i = 0; i < f->nstates; i++)
		if (ck_optim_find(ck_optim_entry(f->c, f->states[i].entry),
				  &at) &&
		    at.is_flat)
			return true;
	return false;
}

static int map_fill(struct making *b, const struct ck_view_options *o)
{
	struct ck_optim_map *m = b->m;
	bool known = any_is_flat(m->found) ||
		     ck_optim_some_are_shared(m->found->c);
	int rc = known ? ck_optim_names_make(m->found, o, &b->names) : 0;

	if (rc == 0)
		rc = ck_optim_keys_make(m->found, known ? &b->names : NULL,
					&m->keys);
	b->has_flat = some_are_flat(m->found->c);
	if (rc == 0)
		rc = keys_order(b);
	if (rc == 0)
		rc = ck_optim_shared_make(m->found->c, b->names.model,
					  &b->shared);
	if (rc == 0)
		rc = top_add(b);
	return rc ? rc : trees_fill(b);
}

int ck_optim_map_make(struct ck_optim_found *found,
		      const struct ck_view_options *o, struct ck_texts *paths,
		      struct ck_optim_map **out)
{
	struct making b = { .paths = paths,
			    .m = calloc(1, sizeof(struct ck_optim_map)) };
	int rc;

	if (!b.m) {
		ck_optim_found_free(found);
		return -ENOMEM;
	}
	b.m->found = found;
	rc = map_fill(&b, o);
	ck_optim_names_fini(&b.names);
	free(b.order);
	free(b.first);
	ck_optim_shared_fini(&b.shared);
	ck_buf_fini(&b.path);
	ck_buf_fini(&b.stem);
	free(found->states);
	found->states = NULL;
	found->nstates = 0;
	if (rc)
		ck_optim_map_free(b.m);
	else
		*out = b.m;
	return rc;
}

void ck_optim_map_free(struct ck_optim_map *m)
{
	if (!m)
		return;
	ck_optim_keys_fini(&m->keys);
	ck_optim_found_free(m->found);
	free(m->dirs);
	free(m->of_number);
	free(m);
}

static void print_lack(const struct ck_optim_tree *t, const char *what,
		       const char *why, struct ck_buf *out)
{
	ck_buf_printf(out, "optim: no %s", what);
	ck_buf_text(out, t->key.len ? " of " : "");
	ck_buf_escaped(out, t->key);
	ck_buf_printf(out, ": %s\n", why);
}

void ck_optim_map_status(const struct ck_optim_map *m, struct ck_buf *out)
{
	for (uint32_t i = 0; i < m->found->ntrees; i++) {
		const struct ck_optim_tree *t = &m->found->trees[i];

		if (t->lacks_names)
			print_lack(t, "by-name/",
				   "its groups do not list param_names, and no "
				   "sidecar has its parameters",
				   out);
		if (t->lacks_ids)
			print_lack(t, "by-id/",
				   "it has flat parameters, or its groups do "
				   "not list the names of all parameters",
				   out);
	}
}
