/* SPDX-License-Identifier: MIT */
/*
 * view: the table of views, the check of their options, and the items of a file.
 * No state; any thread.
 */
#include "view_internal.h"

#include <errno.h>

const struct ck_view *const ck_views[] = {
	&ck_view_full.view, &ck_view_raw.view, &ck_view_local,
	&ck_view_hf,	    &ck_view_torch,    &ck_view_sharded,
	&ck_view_dcp,	    &ck_view_optim,    &ck_view_f32.view,
};
const size_t ck_nviews = CK_ARRAY_SIZE(ck_views);

const struct ck_tensor_view *const ck_tensor_views[] = { &ck_view_full,
							 &ck_view_raw };

/* --- options -------------------------------------------------------------------- */

/* Takes the next of the names that `+` separates, and moves *text behind it. Returns
 * false at the end. */
static bool word_next(const char **text, struct ck_str *out)
{
	size_t len = strcspn(*text, "+");

	*out = (struct ck_str){ *text, len };
	*text += len;
	if (**text == '+')
		++*text;
	return len > 0;
}

static bool is_view(struct ck_str name)
{
	for (size_t i = 0; i < ck_nviews; i++)
		if (ck_str_is(name, ck_views[i]->top))
			return true;
	return ck_str_is(name, "objects") || ck_str_is(name, "files");
}

int ck_view_options_check(const struct ck_view_options *o, struct ck_diag *d)
{
	const char *at = o->views;
	struct ck_str word;

	if (at && (at[0] == '+' || at[strlen(at) - 1] == '+'))
		return ck_fail(d, EINVAL,
			       "option views: expected NAME[+NAME...]");
	while (at && word_next(&at, &word))
		if (!is_view(word))
			return ck_fail(d, EINVAL,
				       "option views: %s: no directory of a "
				       "mount is called so",
				       ck_show(word));
	return at && *at ? ck_fail(d, EINVAL,
				   "option views: expected NAME[+NAME...]")
			 : 0;
}

void ck_view_options_fini(struct ck_view_options *o)
{
	free(o->views);
	free(o->root);
	free(o->hf_template);
	free(o->placements);
	free(o->ranks);
	free(o->manifest);
	*o = (struct ck_view_options){ 0 };
}

/* --- items ---------------------------------------------------------------------- */

struct ck_items ck_about_items(const struct ck_catalog *c,
			       const struct ck_file_content *about)
{
	switch (about->topic) {
	case CK_FILE_KIND_BOX:
		return (struct ck_items){ .of = c,
					  .chunk = about->chunk,
					  .n = 1 };
	case CK_FILE_KIND_OBJECT:
		return ck_items_of_object(c,
					  ck_catalog_object(c, about->number));
	case CK_FILE_KIND_TENSOR:
	case CK_FILE_KIND_PART:
		return ck_items_of_tensor(c,
					  ck_catalog_tensor(c, about->number));
	case CK_FILE_KIND_MANY: return ck_items_of_files(c);
	default: return (struct ck_items){ .n = 0 };
	}
}
