/* SPDX-License-Identifier: MIT */
/*
 * optim_shared: names of the model that are names of one tensor. Only one of them has
 * state in an optimizer. Constant once made, but for the marks of the groups that were
 * found; one thread.
 */
#include "optim.h"
#include "view/hf.h"

#include <errno.h>

static struct ck_str name_of(const void *arg, uint32_t number)
{
	const struct ck_optim_shared *s = arg;

	return s->all[number].name;
}

static int shared_cmp(const void *a, const void *b)
{
	const struct ck_optim_same *x = a, *y = b;

	if (x->of != y->of)
		return x->of < y->of ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static bool is_shared(const struct ck_tensor *t)
{
	return t->is_alias || ck_tensor_naliases(t);
}

bool ck_optim_some_are_shared(const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (ck_tensor_is_there(c, i) &&
		    is_shared(ck_catalog_tensor(c, i)))
			return true;
	return false;
}

/* Adds the tensors of the model that are shared, sorted by the first of each. */
static int same_add(const struct ck_catalog *c,
		    const struct ck_hf_chosen *model,
		    struct ck_optim_shared *out)
{
	out->all = malloc((model->n + 1UL) * sizeof(*out->all));
	if (!out->all)
		return -ENOMEM;
	for (uint32_t i = 0; i < model->n; i++) {
		uint32_t tensor = model->tensors[i];
		const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

		if (is_shared(t))
			out->all[out->n++] = (struct ck_optim_same){
				.name = ck_hf_name(model, c, tensor),
				.of = t->is_alias ? t->alias : tensor,
				.at = i,
			};
	}
	qsort(out->all, out->n, sizeof(*out->all), shared_cmp);
	return 0;
}

int ck_optim_shared_make(const struct ck_catalog *c,
			 const struct ck_hf_chosen *model,
			 struct ck_optim_shared *out)
{
	uint32_t begin = 0, number;
	int rc;

	*out = (struct ck_optim_shared){
		.table = { .key = name_of, .arg = out },
		.left = c->tensors.n,
	};
	rc = model ? same_add(c, model, out) : 0;
	for (uint32_t i = 0; i < out->n && rc == 0; i++) {
		if (out->all[i].of != out->all[begin].of)
			begin = i;
		out->all[i].begin = begin;
		rc = ck_table_add(&out->table, out->all[i].name, i, &number);
	}
	return rc;
}

void ck_optim_shared_fini(struct ck_optim_shared *s)
{
	ck_table_fini(&s->table);
	ck_texts_fini(&s->listed);
	free(s->all);
}

/* --- names in groups ---------------------------------------------------------------- */

int ck_optim_shared_list(struct ck_optim_shared *s,
			 const struct ck_optim_found *f, uint32_t tree,
			 const struct ck_optim_names *names)
{
	const struct ck_optim_tree *t = &f->trees[tree];
	bool is_flat = t->is_flat && !t->is_numbered;
	uint32_t number;
	int rc = 0;

	ck_texts_fini(&s->listed);
	s->listed = (struct ck_texts){ 0 };
	for (uint32_t i = 0; i < t->nparams && rc == 0; i++)
		rc = ck_texts_add(&s->listed, f->params[t->param + i].name,
				  false, &number);
	for (uint32_t i = 0; i < t->ngroups && is_flat && rc == 0; i++) {
		const struct ck_entry *e =
			ck_optim_entry(f->c, f->groups[t->group + i].entry);
		struct ck_str fqn, rest;
		struct ck_optim_at at;

		if (!ck_optim_find(e, &at) || !at.is_flat)
			continue;
		ck_optim_split(names, at.rest, &fqn, &rest);
		rc = ck_texts_add(&s->listed, fqn, false, &number);
	}
	return rc;
}

/* --- names of a tensor -------------------------------------------------------------- */

const struct ck_optim_same *ck_optim_shared_find(struct ck_optim_shared *s,
						 struct ck_str name,
						 uint32_t tree, uint32_t *n)
{
	int64_t found = s->n ? ck_table_find(&s->table, name) : -1;
	struct ck_optim_same *all;

	*n = 0;
	if (found < 0)
		return NULL;
	all = &s->all[s->all[found].begin];
	if (all->mark == tree + 1)
		return NULL;
	all->mark = tree + 1;
	while (all + *n < s->all + s->n && all[*n].begin == all->begin)
		++*n;
	*n = *n < s->left ? *n : s->left;
	s->left -= *n;
	return all;
}
