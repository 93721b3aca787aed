/* SPDX-License-Identifier: MIT */
/*
 * inspect_pick: a glob picks by shown name or by file name, with or without
 * suffix; a name picks itself, whatever is in it.
 */
#include "inspect_pick.h"
#include "ckptfs/report.h"
#include "cli.h"
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>

static bool text_matches(const char *glob, struct ck_str s)
{
	ck_auto_free char *text = NULL;

	if (ck_str_is(s, glob))
		return true;
	text = strndup(s.p, s.len);
	return text && fnmatch(glob, text, 0) == 0;
}

/* Most globs do not end like one, and need no file name to be spelled. */
static bool file_matches(const char *glob, struct ck_str stem,
			 const char *suffix)
{
	size_t len = strlen(glob), end = strlen(suffix);
	ck_auto_free char *name = NULL;

	if (len < end || strcmp(glob + len - end, suffix) != 0)
		return false;
	if (asprintf(&name, "%.*s%s", (int)stem.len, stem.p, suffix) < 0)
		return false;
	return text_matches(glob, ck_str_from(name));
}

static bool glob_matches(const struct ck_catalog *c, const char *glob,
			 struct ck_entry_id e)
{
	struct ck_names names = ck_catalog_names(c, e);
	struct ck_str stem = names.stem;

	if (text_matches(glob, names.name) || text_matches(glob, stem))
		return true;
	if (e.is_object)
		return file_matches(glob, stem, ".json") ||
		       file_matches(glob, stem, ".pt");
	return file_matches(glob, stem, ".npy");
}

static bool is_picked(const struct ck_catalog *c, char *const *globs, size_t n,
		      struct ck_entry_id e, bool *is_used)
{
	bool found = n == 0;

	for (size_t i = 0; i < n; i++)
		if (glob_matches(c, globs[i], e))
			found = is_used[i] = true;
	return found;
}

int ck_pick(const struct ck_catalog *c, char *const *globs, size_t n,
	    struct ck_picked *out)
{
	uint32_t *order = ck_report_order(c);

	*out = (struct ck_picked){ .tensors = order };
	out->objects = calloc(c->objects.n + 1UL, sizeof(*out->objects));
	out->is_used = calloc(n + 1, sizeof(*out->is_used));
	if (!order || !out->objects || !out->is_used) {
		ck_picked_fini(out);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->listing->n; i++) {
		struct ck_entry_id e = c->listing->entries[order[i]];

		if (!is_picked(c, globs, n, e, out->is_used))
			continue;
		if (e.is_object)
			out->objects[out->nobjects++] = e.i;
		else if (ck_tensor_is_whole(c, e.i))
			out->tensors[out->ntensors++] = e.i;
	}
	return 0;
}

void ck_picked_fini(struct ck_picked *p)
{
	free(p->tensors);
	free(p->objects);
	free(p->is_used);
	*p = (struct ck_picked){ 0 };
}

/* --- no match ---------------------------------------------------------------- */

static size_t count_dots(struct ck_str s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.len; i++)
		n += s.p[i] == '.';
	return n;
}

/* The last parts of a name, one more than dots. */
static struct ck_str tail(struct ck_str name, size_t dots)
{
	size_t from = name.len;

	for (; from > 0; from--)
		if (name.p[from - 1] == '.' && dots-- == 0)
			break;
	return (struct ck_str){ name.p + from, name.len - from };
}

static bool ends_in_part(struct ck_str name, struct ck_str word)
{
	return name.len > word.len && name.p[name.len - word.len - 1] == '.' &&
	       memcmp(name.p + name.len - word.len, word.p, word.len) == 0;
}

/* Tries a word as the last parts of a name, then as any bytes of one, then as
 * one that is misspelled. */
static struct ck_str nearest(const struct ck_catalog *c, const char *glob)
{
	struct ck_str word = ck_str_from(glob), best = { 0 }, around = { 0 };
	size_t least = ck_max(1, word.len / 3) + 1, dots = count_dots(word);

	for (size_t i = 0; word.len && i < c->listing->n; i++) {
		struct ck_str name = ck_entry_names(c, i).name;
		size_t n;

		if (ends_in_part(name, word))
			return name;
		if (!around.len && memmem(name.p, name.len, word.p, word.len))
			around = name;
		n = ck_min(ck_str_distance(word, name, least - 1),
			   ck_str_distance(word, tail(name, dots), least - 1));
		if (n < least) {
			least = n;
			best = name;
		}
	}
	return around.len ? around : best;
}

void ck_pick_warn(const struct ck_catalog *c, const char *glob)
{
	struct ck_str near = nearest(c, glob);

	ck_trouble("%s: no name matches%s%s", ck_show(ck_str_from(glob)),
		   near.len ? "; the nearest is " : "",
		   near.len ? ck_show(near) : "");
}
