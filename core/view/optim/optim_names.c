/* SPDX-License-Identifier: MIT */
/*
 * optim_names: the names of parameters that are known: those of the tensors of the
 * model, as hf/ shows them, and those in groups. They separate a flattened key, in
 * which both the parameter and the name behind it may have dots. Constant once made;
 * any thread.
 */
#include "optim.h"
#include "view/hf.h"

#include <errno.h>

/* A name behind a parameter has few dots: only so many are tried. */
enum { DOTS_MAX = 64 };

static int name_add(struct ck_optim_names *names, struct ck_str name)
{
	uint32_t number;

	return ck_texts_add(&names->known, name, false, &number);
}

/* Adds the names of the model; with "module." before them, too, if the model has them
 * so. */
static int model_add(const struct ck_catalog *c, struct ck_optim_names *names)
{
	const struct ck_hf_chosen *model = names->model;
	size_t module = model->module ? strlen("module.") : 0;
	int rc = 0;

	for (uint32_t i = 0; i < model->n && rc == 0; i++) {
		struct ck_str name = ck_hf_name(model, c, model->tensors[i]);

		rc = name_add(names, name);
		if (rc == 0 && module)
			rc = name_add(names,
				      (struct ck_str){ name.p - module,
						       name.len + module });
	}
	return rc;
}

/* Adds the parameters of flattened groups, whose options have no dots. */
static int groups_add(const struct ck_optim_found *f,
		      const struct ck_optim_tree *t,
		      struct ck_optim_names *names)
{
	struct ck_str fqn, option;
	int rc = 0;

	for (uint32_t i = 0; i < t->ngroups && rc == 0; i++) {
		const struct ck_entry *e =
			ck_optim_entry(f->c, f->groups[t->group + i].entry);
		struct ck_optim_at at;

		(void)ck_optim_find(e, &at);
		ck_optim_split(NULL, at.rest, &fqn, &option);
		if (at.is_flat && fqn.len)
			rc = name_add(names, fqn);
	}
	return rc;
}

int ck_optim_names_make(const struct ck_optim_found *f,
			const struct ck_view_options *o,
			struct ck_optim_names *out)
{
	int rc;

	*out = (struct ck_optim_names){ .model = calloc(1,
							sizeof(*out->model)) };
	rc = out->model ? ck_hf_choose_model(f->c, o, out->model) : -ENOMEM;
	if (rc == 0)
		rc = model_add(f->c, out);
	for (uint32_t i = 0; i < f->nparams && rc == 0; i++)
		rc = name_add(out, f->params[i].name);
	for (uint32_t i = 0; i < f->ntrees && rc == 0; i++)
		if (f->trees[i].is_flat && !f->trees[i].is_numbered)
			rc = groups_add(f, &f->trees[i], out);
	return rc;
}

void ck_optim_names_fini(struct ck_optim_names *names)
{
	ck_texts_fini(&names->known);
	if (names->model)
		ck_hf_chosen_fini(names->model);
	free(names->model);
}

/* --- splitting ---------------------------------------------------------------------- */

static bool is_known(const struct ck_optim_names *names, struct ck_str name)
{
	return names && name.len &&
	       ck_table_find(&names->known.table, name) >= 0;
}

static const char *dot_before(struct ck_str text, size_t end)
{
	return end ? memrchr(text.p, '.', end) : NULL;
}

static void cut(struct ck_str text, const char *dot, struct ck_str *before,
		struct ck_str *behind)
{
	size_t at = dot ? (size_t)(dot - text.p) : text.len;

	*before = (struct ck_str){ text.p, at };
	*behind = dot ? (struct ck_str){ dot + 1, text.len - at - 1 }
		      : CK_STR("");
}

/* The dot behind the longest known name; NULL if there is none. */
static const char *dot_known(const struct ck_optim_names *names,
			     struct ck_str text)
{
	const char *dot = dot_before(text, text.len);

	for (int i = 0; dot && i < DOTS_MAX; i++) {
		struct ck_str name = { text.p, (size_t)(dot - text.p) };

		if (is_known(names, name))
			return dot;
		dot = dot_before(text, name.len);
	}
	return NULL;
}

void ck_optim_split(const struct ck_optim_names *names, struct ck_str text,
		    struct ck_str *fqn, struct ck_str *rest)
{
	const char *dot = NULL;

	if (names && !is_known(names, text))
		dot = dot_known(names, text);
	if (!dot && !is_known(names, text))
		dot = dot_before(text, text.len);
	cut(text, dot, fqn, rest);
}

/* Names of state that Megatron writes before parameters. */
static bool is_megatron(struct ck_str name)
{
	static const char *const all[] = {
		"exp_avg",	  "exp_avg_sq",
		"max_exp_avg_sq", "momentum_buffer",
		"fp32_param",	  "master_param",
		"step",		  "fp32_from_fp16",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++)
		if (ck_str_is(name, all[i]))
			return true;
	return false;
}

void ck_optim_split_state(const struct ck_optim_names *names,
			  struct ck_str text, struct ck_str *fqn,
			  struct ck_str *rest)
{
	const char *dot = text.len ? memchr(text.p, '.', text.len) : NULL;
	struct ck_str first, behind, before, last;

	cut(text, dot, &first, &behind);
	cut(text, dot_before(text, text.len), &before, &last);
	if (dot && !is_known(names, text) && !dot_known(names, text) &&
	    (is_known(names, behind) ||
	     (is_megatron(first) && !is_megatron(last)))) {
		*fqn = behind;
		*rest = first;
		return;
	}
	ck_optim_split(names, text, fqn, rest);
}
