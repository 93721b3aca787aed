/* SPDX-License-Identifier: MIT */
/*
 * hf_choose: chooses the tensors of hf/. A training checkpoint has a model and the
 * state of its training. The keys show which part is the model, unless the user selects
 * one with root=. Stateless; any thread.
 */
#include "hf.h"

#include <errno.h>

/* Paths of the model in checkpoints, as parts. The first one that has tensors is
 * used. */
static const char *const roots[][2] = {
	{ "app", "model" },  { "model" },
	{ "pytorch_model" }, { "pytorch_model_fsdp" },
	{ "state_dict" },    { "model_state_dict" },
	{ "module" },
};

/* First parts of names that are of neither a model nor an optimizer. */
static const char *const trainers[] = {
	"lr_scheduler", "lr_schedulers", "scheduler",	"rng",
	"rng_state",	"extra",	 "train_state", "dataloader",
	"loops",	"callbacks",	 "common",
};

#define MODULE "module."

/* The rule that selects tensors. */
enum by { BY_ALL, BY_NAME, BY_PATH, BY_TRAINERS };

struct rule {
	enum by by;
	bool beside;		  /* also tensors of files beside the model */
	const char *name;	  /* BY_NAME: the prefix before the dot */
	const char *const *parts; /* BY_PATH */
};

/* --- the rule ------------------------------------------------------------------------ */

static uint32_t nparts(const char *const parts[2])
{
	return parts[1] ? 2 : 1;
}

/* True if the entry is below that path. */
static bool is_below(const struct ck_entry *e, const char *const parts[2])
{
	uint32_t n = nparts(parts);

	if (e->nparts <= n)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct ck_path_part part = ck_entry_part(e, i);

		if (part.type != CK_PATH_STR ||
		    !ck_str_is(ck_part_text(&part), parts[i]))
			return false;
	}
	return true;
}

/* Sets *out to the next tensor of the listing that can be in hf/, from *at on. False at
 * the end. */
static bool next_tensor(const struct ck_catalog *c, size_t *at, uint32_t *out)
{
	for (; *at < c->listing->n; ++*at) {
		struct ck_entry_id e = c->listing->entries[*at];

		if (e.is_object || !ck_tensor_is_whole(c, e.i) ||
		    ck_view_is_flat(c, e.i))
			continue;
		*out = e.i;
		++*at;
		return true;
	}
	return false;
}

static bool is_trainers(struct ck_str name)
{
	name = ck_view_word(name);
	for (size_t i = 0; i < CK_ARRAY_SIZE(trainers); i++)
		if (ck_str_is(name, trainers[i]))
			return true;
	return ck_view_is_optimizer(name);
}

/* True for a tensor of a file beside the model, such as an optimizer's. */
static bool is_beside(const struct ck_catalog *c, uint32_t tensor)
{
	return tensor >= c->beside && tensor - c->beside < c->nbeside;
}

static struct rule rule_of_paths(const struct ck_catalog *c)
{
	unsigned found = 0;
	uint32_t tensor;

	for (size_t at = 0; !(found & 1) && next_tensor(c, &at, &tensor);)
		for (size_t i = 0;
		     i < CK_ARRAY_SIZE(roots) && !is_beside(c, tensor); i++)
			found |= (unsigned)is_below(
					 &ck_catalog_tensor(c, tensor)->entry,
					 roots[i])
				 << i;
	for (size_t i = 0; i < CK_ARRAY_SIZE(roots); i++)
		if (found >> i & 1)
			return (struct rule){ .by = BY_PATH,
					      .parts = roots[i] };
	return (struct rule){ .by = BY_TRAINERS };
}

static struct rule rule_of(const struct ck_catalog *c,
			   const struct ck_view_options *o)
{
	if (o->root && o->root[0])
		return (struct rule){ .by = BY_NAME,
				      .name = o->root,
				      .beside = true };
	return o->root || c->is_model
		       ? (struct rule){ .by = BY_ALL, .beside = o->root }
		       : rule_of_paths(c);
}

static bool is_meant(const struct ck_catalog *c, const struct rule *rule,
		     uint32_t tensor)
{
	if (!rule->beside && is_beside(c, tensor))
		return false;
	switch (rule->by) {
	case BY_NAME:
		return ck_view_is_below(ck_tensor_names(c, tensor).name,
					rule->name);
	case BY_PATH:
		return is_below(&ck_catalog_tensor(c, tensor)->entry,
				rule->parts);
	case BY_TRAINERS: return !is_trainers(ck_tensor_names(c, tensor).name);
	case BY_ALL:
	default: return true;
	}
}

/* --- left out tensors ------------------------------------------------------------- */

/* Returns why a tensor cannot be in a safetensors file, or NULL. */
static const char *why_not(const struct ck_catalog *c,
			   const struct ck_hf_chosen *chosen, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	struct ck_str name = ck_hf_name(chosen, c, tensor);
	const char *hub = ck_dtype_at(t->dtype)->hub;

	if (!hub)
		return "safetensors has no name for its dtype";
	if (t->err)
		return "it cannot be opened";
	if (strcmp(hub, "F4") == 0 && t->ndim == 0)
		return "safetensors has no half of a byte";
	if (!ck_utf8_valid(name))
		return "its name is no Unicode";
	if (ck_str_is(name, "__metadata__"))
		return "safetensors has another use for its name";
	return NULL;
}

/* Keeps the tensors that can be in a file. Called after `root` and `module` are set,
 * which names depend on. */
static int good_keep(const struct ck_catalog *c, struct ck_hf_chosen *chosen)
{
	uint32_t n = 0;
	int rc = 0;

	for (uint32_t i = 0; i < chosen->n && rc == 0; i++) {
		uint32_t tensor = chosen->tensors[i];
		const char *why = why_not(c, chosen, tensor);

		if (why)
			rc = ck_left_outs_add(&chosen->left_out,
					      ck_tensor_names(c, tensor).name,
					      why);
		else
			chosen->tensors[n++] = tensor;
	}
	chosen->n = n;
	return rc;
}

/* --- names ----------------------------------------------------------------------------- */

static char *root_name(const struct rule *rule)
{
	struct ck_buf name = { 0 };

	if (rule->by == BY_NAME)
		return strdup(rule->name);
	if (rule->by != BY_PATH)
		return strdup("");
	ck_buf_text(&name, rule->parts[0]);
	if (rule->parts[1])
		ck_buf_printf(&name, ".%s", rule->parts[1]);
	if (name.err)
		ck_buf_fini(&name);
	return name.data;
}

/* Nothing is cut off if all keys begin with "module." and are shown without it, or if
 * the user gives names, which are complete. */
struct ck_str ck_hf_name(const struct ck_hf_chosen *chosen,
			 const struct ck_catalog *c, uint32_t tensor)
{
	struct ck_str name = ck_tensor_names(c, tensor).name;
	size_t cut = 0;

	if (chosen->root[0] && ck_view_is_below(name, chosen->root) &&
	    !(chosen->by_path && (c->listing->dropped || c->listing->renames)))
		cut = strlen(chosen->root) + 1;
	if (chosen->module)
		cut += strlen(MODULE);
	return (struct ck_str){ name.p + cut, name.len - cut };
}

static bool all_are_modules(const struct ck_catalog *c,
			    const struct ck_hf_chosen *chosen)
{
	for (uint32_t i = 0; i < chosen->n; i++)
		if (!ck_str_starts(ck_hf_name(chosen, c, chosen->tensors[i]),
				   CK_STR(MODULE)))
			return false;
	return chosen->n > 0;
}

bool ck_hf_has_some(const struct ck_catalog *c, const struct ck_view_options *o)
{
	const struct ck_hf_chosen whole = { .root = (char[]){ "" } };
	const struct rule rule = rule_of(c, o);
	uint32_t tensor;

	for (size_t at = 0; next_tensor(c, &at, &tensor);)
		if (is_meant(c, &rule, tensor) && !why_not(c, &whole, tensor))
			return true;
	return false;
}

void ck_hf_print_tops(const struct ck_catalog *c, struct ck_buf *out)
{
	struct ck_str tops[8];
	size_t n = 0;
	uint32_t tensor;

	for (size_t at = 0; next_tensor(c, &at, &tensor);) {
		struct ck_str top =
			ck_view_word(ck_tensor_names(c, tensor).name);
		size_t i = 0;

		while (i < n && !ck_str_eq(tops[i], top))
			i++;
		if (i < n)
			continue;
		ck_buf_text(out, n ? ", " : "");
		if (n == CK_ARRAY_SIZE(tops)) {
			ck_buf_text(out, "...");
			return;
		}
		ck_buf_escaped(out, top);
		tops[n++] = top;
	}
}

int ck_hf_choose_model(const struct ck_catalog *c,
		       const struct ck_view_options *o,
		       struct ck_hf_chosen *out)
{
	const struct rule rule = rule_of(c, o);
	uint32_t tensor;

	*out = (struct ck_hf_chosen){ .root = root_name(&rule),
				      .by_path = rule.by == BY_PATH };
	out->tensors = malloc((c->tensors.n + 1UL) * sizeof(*out->tensors));
	if (!out->root || !out->tensors)
		return -ENOMEM;
	for (size_t at = 0; next_tensor(c, &at, &tensor);)
		if (is_meant(c, &rule, tensor))
			out->tensors[out->n++] = tensor;
	out->module = !c->listing->renames && all_are_modules(c, out);
	return 0;
}

int ck_hf_choose(const struct ck_catalog *c, const struct ck_view_options *o,
		 struct ck_hf_chosen *out)
{
	int rc = ck_hf_choose_model(c, o, out);

	return rc ? rc : good_keep(c, out);
}

void ck_hf_chosen_fini(struct ck_hf_chosen *chosen)
{
	free(chosen->root);
	free(chosen->tensors);
	free(chosen->left_out.all);
	*chosen = (struct ck_hf_chosen){ 0 };
}
