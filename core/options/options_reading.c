/* SPDX-License-Identifier: MIT */
/*
 * options_reading: sets the options of reading and of views, by a table of their names. No
 * state, no locks.
 */
#include "options_reading.h"
#include "model/rank_list.h"
#include <errno.h>

/* An option: name with its `=`, and the structs that it changes. */
struct setting {
	struct ck_format_options *format;
	struct ck_view_options *view;
	const char *name, *value;
	struct ck_diag *d;
};

int ck_option_text(char **out, const char *name, const char *value,
		   struct ck_diag *d)
{
	if (!*value)
		return ck_fail(d, EINVAL, "option %s=: expected a value", name);
	free(*out);
	*out = strdup(value);
	return *out ? 0 : ck_fail(d, ENOMEM, "out of memory");
}

/* The text of an option that is only kept, or NULL. */
static char **text_of(const struct setting *s)
{
	const struct {
		const char *name;
		char **text;
	} texts[] = { { "linkroot=", &s->format->linkroot },
		      { "sidecar=", &s->format->sidecar },
		      { "rename=", &s->format->rename },
		      { "only=", &s->format->only },
		      { "exclude=", &s->format->exclude },
		      { "views=", &s->view->views },
		      { "ranks=", &s->view->ranks },
		      { "hf_template=", &s->view->hf_template },
		      { "placements=", &s->view->placements },
		      { "manifest=", &s->view->manifest } };

	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++)
		if (strcmp(s->name, texts[i].name) == 0)
			return texts[i].text;
	return NULL;
}

/* Checks a text that was set. */
static int text_check(const struct setting *s)
{
	const struct ck_selection *selection;
	int rc;

	if (strcmp(s->name, "views=") == 0)
		return ck_view_options_check(s->view, s->d);
	if (strcmp(s->name, "ranks=") == 0 && !ck_rank_list_is_valid(s->value))
		return ck_fail(s->d, EINVAL,
			       "option ranks=%s: expected ranks and ranges, "
			       "as 0+3-5",
			       ck_show(ck_str_from(s->value)));
	if (strcmp(s->name, "only=") != 0 && strcmp(s->name, "exclude=") != 0)
		return 0;
	rc = ck_selection_make(s->value, NULL, &selection, s->d);
	ck_selection_put(selection);
	if (rc)
		ck_diag_prefix(s->d, "option %.*s", (int)strlen(s->name) - 1,
			       s->name);
	return rc;
}

static int set_text(const struct setting *s, char **text)
{
	char *name = strndup(s->name, strlen(s->name) - 1);
	int rc = name ? ck_option_text(text, name, s->value, s->d)
		      : ck_fail(s->d, ENOMEM, "out of memory");

	free(name);
	return rc ? rc : text_check(s);
}

static int set_shardlinks(const struct setting *s)
{
	if (strcmp(s->value, "beneath") != 0)
		return ck_fail(s->d, EINVAL,
			       "option shardlinks=%s: expected beneath",
			       ck_show(ck_str_from(s->value)));
	s->format->shardlinks = CK_BENEATH_SYMLINKS;
	return 0;
}

static int set_hf_shard_size(const struct setting *s)
{
	if (ck_size_parse(s->value, &s->view->hf_shard_size) &&
	    s->view->hf_shard_size)
		return 0;
	return ck_fail(s->d, EINVAL,
		       "option hf_shard_size=%s: expected a size, as 5G",
		       ck_show(ck_str_from(s->value)));
}

/* An empty name is valid: the root of all names. */
static int set_root(const struct setting *s)
{
	free(s->view->root);
	s->view->root = strdup(s->value);
	return s->view->root ? 0 : ck_fail(s->d, ENOMEM, "out of memory");
}

int ck_option_set_reading(struct ck_format_options *format,
			  struct ck_view_options *view, const char *name,
			  const char *value, struct ck_diag *d)
{
	const struct setting s = { format, view, name, value, d };
	char **text = text_of(&s);

	if (text)
		return set_text(&s, text);
	if (strcmp(name, "shardlinks=") == 0)
		return set_shardlinks(&s);
	if (strcmp(name, "kind=") == 0)
		return ck_kind_named(value, &format->kind, d);
	if (strcmp(name, "hf_shard_size=") == 0)
		return set_hf_shard_size(&s);
	return set_root(&s);
}
