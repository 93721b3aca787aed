/* SPDX-License-Identifier: MIT */
/*
 * optim_find: finds an entry in the state dict of an optimizer by its path, or, without
 * a path, by its key:
 *
 *   <tree>, "state", <parameter>, <name>...      <tree>, "param_groups", <n>, <option>...
 *   <tree>, "state.<fqn>.<name>"...              <tree>, "param_groups.<fqn>.<option>"...
 *   "<tree>.state.<fqn>.<name>"                  "<tree>.param_groups.<fqn>.<option>"
 *
 * The last part of a tree, or the last one before an index, is one of a few names.
 * Stateless; any thread.
 */
#include "optim.h"

static const struct {
	struct ck_str word;
	enum ck_optim_what what;
} below[] = {
	{ { "state", 5 }, CK_OPTIM_STATE },
	{ { "param_groups", 12 }, CK_OPTIM_GROUP },
};

static struct ck_str from(struct ck_str text, size_t at)
{
	return (struct ck_str){ text.p + at, text.len - at };
}

/* True if the text begins with one of the words and a dot: the rest is in *out. */
static bool rest_take(struct ck_str text, struct ck_optim_at *out)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(below); i++) {
		size_t len = below[i].word.len;

		if (!ck_str_starts(text, below[i].word) || text.len <= len ||
		    text.p[len] != '.')
			continue;
		out->what = (uint8_t)below[i].what;
		out->is_flat = true;
		out->rest = from(text, len + 1);
		return true;
	}
	return false;
}

/* --- paths -------------------------------------------------------------------------- */

static bool word_take(struct ck_str text, struct ck_optim_at *out)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(below); i++)
		if (ck_str_eq(text, below[i].word)) {
			out->what = (uint8_t)below[i].what;
			return true;
		}
	return false;
}

/* True if part i is "state" or "param_groups", or begins so. */
static bool part_take(const struct ck_entry *e, uint32_t i,
		      struct ck_optim_at *out)
{
	struct ck_path_part part;

	if (i >= e->nparts)
		return false;
	part = ck_entry_part(e, i);
	out->tree = i;
	out->part = i;
	if (part.type != CK_PATH_STR)
		return false;
	if (rest_take(ck_part_text(&part), out))
		return true;
	out->part = i + 1;
	return word_take(ck_part_text(&part), out);
}

static bool path_find(const struct ck_entry *e, struct ck_optim_at *out)
{
	for (uint32_t i = 0; i + 1 < e->nparts; i++) {
		struct ck_path_part part = ck_entry_part(e, i);

		if (part.type != CK_PATH_STR ||
		    !ck_view_is_optimizer(ck_part_text(&part)))
			continue;
		if (part_take(e, i + 1, out) ||
		    (ck_entry_part(e, i + 1).type == CK_PATH_INDEX &&
		     part_take(e, i + 2, out)))
			return true;
	}
	out->is_top = true;
	return part_take(e, 0, out);
}

/* --- keys --------------------------------------------------------------------------- */

/* True if the text behind the word at `at` goes on as an optimizer does. */
static bool tree_take(struct ck_str key, size_t at, struct ck_optim_at *out)
{
	struct ck_str word;
	uint64_t number;

	if (at >= key.len)
		return false;
	out->key = (struct ck_str){ key.p, at };
	if (rest_take(from(key, at + 1), out))
		return true;
	out->part = 1;
	if (word_take(from(key, at + 1), out))
		return true;
	out->part = 0;
	word = ck_view_word(from(key, at + 1));
	at += 1 + word.len;
	out->key.len = at;
	return ck_view_number(word, &number) && at < key.len &&
	       rest_take(from(key, at + 1), out);
}

static bool key_find(struct ck_str key, struct ck_optim_at *out)
{
	size_t at = 0;

	while (at < key.len) {
		struct ck_str word = ck_view_word(from(key, at));

		at += word.len;
		if (ck_view_is_optimizer(word) && tree_take(key, at, out))
			return true;
		at++;
	}
	out->key = (struct ck_str){ key.p, 0 };
	out->is_top = true;
	return rest_take(key, out);
}

/* --- both --------------------------------------------------------------------------- */

/* True if state has no parameter, or no name behind it. */
static bool is_empty(const struct ck_entry *e, const struct ck_optim_at *at)
{
	if (at->what == CK_OPTIM_GROUP)
		return false;
	if (!at->is_flat)
		return e->nparts < at->part + 2;
	return e->nparts <= at->part + 1 &&
	       (at->rest.len == 0 || !memchr(at->rest.p, '.', at->rest.len));
}

bool ck_optim_find(const struct ck_entry *e, struct ck_optim_at *out)
{
	struct ck_path_part part = { 0 };
	bool found;

	*out = (struct ck_optim_at){ 0 };
	if (e->nparts)
		part = ck_entry_part(e, 0);
	if (e->nparts > 1)
		found = path_find(e, out);
	else if (e->nparts == 0)
		found = key_find(e->key, out);
	else
		found = part.type == CK_PATH_STR &&
			(key_find(ck_part_text(&part), out) ||
			 part_take(e, 0, out));
	out->is_empty = found && is_empty(e, out);
	return found;
}

void ck_optim_tree_key(const struct ck_entry *e, const struct ck_optim_at *at,
		       struct ck_buf *out)
{
	if (e->nparts <= 1)
		ck_buf_str(out, at->key);
	for (uint32_t i = 0; e->nparts > 1 && i < at->tree; i++) {
		struct ck_path_part part = ck_entry_part(e, i);

		ck_buf_text(out, i ? "." : "");
		ck_buf_str(out, ck_part_text(&part));
	}
}

const struct ck_entry *ck_optim_entry(const struct ck_catalog *c, size_t i)
{
	const struct ck_entry *e = ck_catalog_entry(c, c->listing->entries[i]);

	return e->key.p && e->role == CK_ROLE_WHOLE ? e : NULL;
}
