/* SPDX-License-Identifier: MIT */
/*
 * selection: the patterns of options only= and exclude=, in one block of memory. Constant
 * after it was made, and counted; any thread.
 */
#include "selection.h"

#include <errno.h>
#include <fnmatch.h>

struct ck_selection {
	uint32_t refs; /* atomic */
	size_t n, nonly;
	/* n patterns, those of `only` first */
	struct ck_str *patterns;
	char *text; /* owns them, each with a NUL */
};

/* Number of patterns in a text. Returns false if one of them is empty. */
static bool count(const char *text, size_t *n)
{
	*n = 0;
	for (const char *at = text; at; at = strchr(at, '+')) {
		at += *n > 0;
		if (*at == '\0' || *at == '+')
			return false;
		++*n;
	}
	return true;
}

/* Copies the patterns of a text to *to, and moves *to behind them. */
static void patterns_take(struct ck_selection *s, const char *text, char **to)
{
	while (text) {
		size_t len = strcspn(text, "+");

		memcpy(*to, text, len);
		(*to)[len] = '\0';
		s->patterns[s->n++] = (struct ck_str){ *to, len };
		*to += len + 1;
		text = text[len] ? text + len + 1 : NULL;
	}
}

int ck_selection_make(const char *only, const char *exclude,
		      const struct ck_selection **out, struct ck_diag *d)
{
	size_t nonly, nexclude;
	struct ck_selection *s;
	char *to;

	*out = NULL;
	if (!count(only, &nonly) || !count(exclude, &nexclude))
		return ck_fail(d, EINVAL, "an empty pattern: %s",
			       ck_show(ck_str_from(
				       count(only, &nonly) ? exclude : only)));
	if (nonly + nexclude == 0)
		return 0;
	s = calloc(1, sizeof(*s));
	if (s) {
		s->patterns = calloc(nonly + nexclude, sizeof(*s->patterns));
		s->text = malloc((only ? strlen(only) + 1 : 0) +
				 (exclude ? strlen(exclude) + 1 : 0));
		s->refs = 1;
		s->nonly = nonly;
	}
	if (!s || !s->patterns || !s->text) {
		ck_selection_put(s);
		return ck_fail(d, ENOMEM, "out of memory");
	}
	to = s->text;
	patterns_take(s, only, &to);
	patterns_take(s, exclude, &to);
	*out = s;
	return 0;
}

static uint32_t *refs_of(const struct ck_selection *s)
{
	return (uint32_t *)(uintptr_t)&s->refs;
}

const struct ck_selection *ck_selection_hold(const struct ck_selection *s)
{
	if (s)
		__atomic_fetch_add(refs_of(s), 1, __ATOMIC_RELAXED);
	return s;
}

void ck_selection_put(const struct ck_selection *s)
{
	struct ck_selection *last;

	if (!s || __atomic_sub_fetch(refs_of(s), 1, __ATOMIC_ACQ_REL))
		return;
	last = (struct ck_selection *)(uintptr_t)s;
	free(last->patterns);
	free(last->text);
	free(last);
}

/* --- names ------------------------------------------------------------------------ */

/* A name with a NUL at its end, in `scratch` or allocated. Names with a NUL inside are cut
 * there. */
static const char *terminate(struct ck_str name, char *scratch, size_t room,
			     char **owned)
{
	char *to = scratch;

	*owned = NULL;
	if (name.len >= room)
		to = *owned = malloc(name.len + 1);
	if (to) {
		memcpy(to, name.p, name.len);
		to[name.len] = '\0';
	}
	return to;
}

static bool matches(const struct ck_selection *s, size_t first, size_t end,
		    const char *name, bool *used)
{
	bool any = false;

	for (size_t i = first; i < end && (used || !any); i++)
		if (fnmatch(s->patterns[i].p, name, 0) == 0) {
			any = true;
			if (used)
				used[i] = true;
		}
	return any;
}

bool ck_selection_judge(const struct ck_selection *s, struct ck_str name,
			bool *used)
{
	enum { ROOM = 512 };

	char scratch[ROOM];
	ck_auto_free char *owned = NULL;
	const char *text = terminate(name, scratch, ROOM, &owned);
	bool only, exclude;

	if (!text)
		return true;
	only = matches(s, 0, s->nonly, text, used) || s->nonly == 0;
	exclude = matches(s, s->nonly, s->n, text, used);
	return only && !exclude;
}

bool ck_selection_has(const struct ck_selection *s, struct ck_str name)
{
	return !s || ck_selection_judge(s, name, NULL);
}

size_t ck_selection_count(const struct ck_selection *s)
{
	return s->n;
}

const char *ck_selection_at(const struct ck_selection *s, size_t i, bool *only)
{
	*only = i < s->nonly;
	return s->patterns[i].p;
}
