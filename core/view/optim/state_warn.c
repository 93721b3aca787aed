/* SPDX-License-Identifier: MIT */
/*
 * state_warn: warnings about the state dict as a whole, such as that of a save that came too early.
 * Stateless; any thread.
 */
#include "view/state_warn.h"
#include "optim.h"
#include "view/hf.h"

struct warner {
	const struct ck_catalog *c;
	void (*warn)(void *arg, const struct ck_fault *f);
	void *arg;
};

static void warn_of(const struct warner *w, struct ck_str name,
		    const char *before, const char *behind)
{
	const char *sentence = ck_shown("%s%s%s", before,
					name.len ? ck_show(name) : "", behind);

	w->warn(w->arg, &(struct ck_fault){ .name = name,
					    .what = ck_str_from(sentence) });
}

/* --- the model ---------------------------------------------------------------------- */

static void model_warn(const struct warner *w)
{
	const struct ck_view_options none = { 0 };

	if (w->c->listing->n && !ck_hf_has_some(w->c, &none))
		warn_of(w, CK_STR(""), "no tensor of a model: hf/ is absent",
			"");
}

/* --- optimizers --------------------------------------------------------------------- */

/* Warns if optimizers have groups, and none has state: that of Megatron is in another tree than
 * its groups. */
static int optimizers_warn(const struct warner *w)
{
	struct ck_buf key = { 0 };
	bool has_groups = false;
	int rc;

	for (size_t i = 0; i < w->c->listing->n; i++) {
		const struct ck_entry *e = ck_optim_entry(w->c, i);
		struct ck_optim_at at;

		if (!e || !ck_optim_find(e, &at) || at.is_empty)
			continue;
		if (at.what == CK_OPTIM_STATE) {
			ck_buf_fini(&key);
			return 0;
		}
		if (!has_groups)
			ck_optim_tree_key(e, &at, &key);
		has_groups = true;
	}
	if (has_groups && !key.err)
		warn_of(w, (struct ck_str){ key.data ? key.data : "", key.len },
			"optimizer ",
			" has param_groups, but no state: it was saved before "
			"its first step, or keeps none");
	rc = key.err;
	ck_buf_fini(&key);
	return rc;
}

int ck_state_warn(const struct ck_catalog *c,
		  void (*warn)(void *arg, const struct ck_fault *f), void *arg)
{
	const struct warner w = { c, warn, arg };

	model_warn(&w);
	return optimizers_warn(&w);
}
