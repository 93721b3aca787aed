/* SPDX-License-Identifier: MIT */
/*
 * pt_paths: the entries that torch/checkpoint.pt can have, and their paths in it: those of
 * the checkpoint, from root= on. Stateless; any thread.
 */
#include "pt.h"

/* --- paths -------------------------------------------------------------------------- */

static const struct ck_entry *entry_of(const struct ck_pt_tree *t,
				       const struct ck_pt_entry *e)
{
	return ck_catalog_entry(t->c, e->id);
}

/* How the root shortens the path of an entry. */
struct cut {
	uint32_t parts; /* that are removed */
	uint32_t bytes; /* removed from the next one */
	bool whole;	/* the path is the text `rest` instead */
	struct ck_str rest;
};

/* The root is a number of whole parts, or ends inside a part whose text has dots. A name
 * that differs from its key, because of a wrapper or rename=, has no path to shorten. */
static struct cut cut_of(const struct ck_pt_tree *t,
			 const struct ck_pt_entry *e)
{
	size_t len = strlen(t->root), pos = 0;
	const struct ck_entry *entry = entry_of(t, e);
	bool has_key = ck_view_is_below(entry->key, t->root);
	struct cut cut = {
		.rest = has_key ? entry->key
				: ck_catalog_names(t->c, e->id).name
	};

	len += len > 0;
	cut.rest.p += len;
	cut.rest.len -= len;
	cut.whole = t->flat || entry->nparts == 0 || !has_key;
	while (len && !cut.whole && cut.parts < entry->nparts) {
		size_t next = pos + ck_entry_part(entry, cut.parts).len + 1;

		if (next > len)
			break;
		pos = next;
		cut.parts++;
	}
	cut.bytes = len > pos ? (uint32_t)(len - pos) : 0;
	cut.whole |= cut.parts == entry->nparts;
	return cut;
}

uint32_t ck_pt_levels(const struct ck_pt_tree *t, const struct ck_pt_entry *e)
{
	struct cut cut;

	if (e->empty)
		return e->empty;
	cut = cut_of(t, e);
	return cut.whole ? 1 : entry_of(t, e)->nparts - cut.parts;
}

struct ck_path_part ck_pt_part(const struct ck_pt_tree *t,
			       const struct ck_pt_entry *e, uint32_t level)
{
	struct cut cut = cut_of(t, e);
	struct ck_path_part part;

	if (e->empty == level + 1 && !e->is_null)
		return (struct ck_path_part){ .p = "state", .len = 5 };
	if (cut.whole)
		return (struct ck_path_part){ .p = cut.rest.p,
					      .len = (uint32_t)cut.rest.len };
	part = ck_entry_part(entry_of(t, e), cut.parts + level);
	if (level == 0 && cut.bytes) {
		part.p += cut.bytes;
		part.len -= cut.bytes;
		part.type = CK_PATH_STR;
	}
	if (e->as_int == level + 1)
		part.type = CK_PATH_INT;
	return part;
}

uint32_t ck_pt_common(const struct ck_pt_tree *t, const struct ck_pt_entry *a,
		      const struct ck_pt_entry *b)
{
	uint32_t x_levels = ck_pt_levels(t, a), y_levels = ck_pt_levels(t, b);
	uint32_t n = x_levels < y_levels ? x_levels : y_levels, i = 0;

	for (; i < n; i++) {
		struct ck_path_part x = ck_pt_part(t, a, i);
		struct ck_path_part y = ck_pt_part(t, b, i);

		if (!ck_pt_is_same(&x, &y))
			break;
	}
	return i;
}

bool ck_pt_index(const struct ck_path_part *part, uint32_t *out)
{
	int64_t n = 0;

	*out = 0;
	if (!ck_pt_int(part, &n) || n < 0 || n >= INT32_MAX)
		return false;
	*out = (uint32_t)n;
	return true;
}

bool ck_pt_int(const struct ck_path_part *part, int64_t *out)
{
	bool minus = part->len && part->p[0] == '-';
	int64_t n = 0;

	for (uint32_t i = minus; i < part->len; i++) {
		int64_t digit = part->p[i] - '0';

		if (digit < 0 || digit > 9 ||
		    __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_sub_overflow(n, digit, &n))
			return false;
	}
	*out = n; /* the negative of the digits, since INT64_MIN has no other */
	return part->len > minus &&
	       (minus || !__builtin_sub_overflow(0, n, out));
}

/* --- which entries ------------------------------------------------------------------ */

static bool is_digits(struct ck_str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.len > 0;
}

/* Returns why a part is no key that can be written, or NULL. */
static const char *key_refused(const struct ck_path_part *part)
{
	struct ck_str s = ck_part_text(part);
	bool is_good;
	int64_t number;

	switch (part->type) {
	case CK_PATH_OTHER: is_good = false; break;
	case CK_PATH_INT:
		return ck_pt_int(part, &number)
			       ? NULL
			       : "an int in its path has more than 64 bits";
	case CK_PATH_INDEX: is_good = is_digits(s); break;
	default: is_good = ck_view_is_text(s);
	}
	return is_good ? NULL : "a key in its path is no text or number";
}

static const char *path_refused(const struct ck_entry *e)
{
	for (uint32_t i = 0; i < e->nparts; i++) {
		struct ck_path_part part = ck_entry_part(e, i);
		const char *why = key_refused(&part);

		if (why)
			return why;
	}
	return ck_view_is_text(e->key) ? NULL : "its name is no Unicode";
}

const char *ck_pt_refused(const struct ck_catalog *c, struct ck_entry_id id)
{
	const char *why = NULL;

	if (!id.is_object)
		why = ck_view_left_out(c, id.i);
	else if (ck_catalog_object(c, id.i)->entry.role != CK_ROLE_WHOLE)
		why = "its ranks differ";
	return why ? why : path_refused(ck_catalog_entry(c, id));
}

bool ck_pt_is_meant(const struct ck_catalog *c, const char *root,
		    struct ck_entry_id id)
{
	return ck_view_is_below(ck_catalog_names(c, id).name, root);
}

bool ck_pt_has_some(const struct ck_catalog *c, const struct ck_view_options *o)
{
	const char *root = o->root ? o->root : "";

	for (size_t i = 0; i < c->listing->n; i++)
		if (ck_pt_is_meant(c, root, c->listing->entries[i]) &&
		    !ck_pt_refused(c, c->listing->entries[i]))
			return true;
	return false;
}
