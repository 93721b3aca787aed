/* SPDX-License-Identifier: MIT */
/*
 * hide: applies a selection to the names of a listing and to the rows of a catalog, and ends
 * the sharing of rows with their aliases. One thread, before others have the catalog.
 *
 * Entries that are not selected stay in the listing, behind the others: prefixes of names
 * and equal names depend on all keys, and must be the same after a commit. Their rows stay
 * too, with CK_ROLE_HIDDEN, since their files are in use.
 */
#include "catalog_internal.h"

#include <errno.h>

void ck_catalog_bytes_add(struct ck_catalog *c, uint64_t nbytes)
{
	if (!ck_add(&c->nbytes, c->nbytes, nbytes))
		c->nbytes = UINT64_MAX;
}

/* --- aliases ------------------------------------------------------------------ */

/* Makes an alias a tensor with bytes of its own. */
static int alias_end(struct ck_catalog *c, uint32_t alias)
{
	struct ck_tensor *t = ck_catalog_own_tensor(c, alias);
	struct ck_tensor *of = t ? ck_catalog_own_tensor(c, t->alias) : NULL;

	if (!of)
		return -ENOMEM;
	of->alias--;
	t->is_alias = 0;
	t->alias = 0;
	ck_catalog_bytes_add(c, t->nbytes);
	return 0;
}

/* Makes the aliases of a tensor aliases of the first of them, which then has the
 * bytes. */
static int aliases_pass(struct ck_catalog *c, uint32_t tensor)
{
	struct ck_tensor *t = ck_catalog_own_tensor(c, tensor), *first = NULL;

	if (!t)
		return -ENOMEM;
	/* Aliases have larger numbers. */
	for (uint32_t i = tensor + 1; t->alias; i++) {
		struct ck_tensor *alias;

		if (ck_tensor_alias_of(ck_catalog_tensor(c, i)) != tensor)
			continue;
		alias = ck_catalog_own_tensor(c, i);
		if (!alias)
			return -ENOMEM;
		t->alias--;
		if (first) {
			alias->alias = first->entry.number;
			continue;
		}
		first = alias;
		first->is_alias = 0;
		first->alias = t->alias;
		ck_catalog_bytes_add(c, first->nbytes);
	}
	return 0;
}

int ck_catalog_part_from_aliases(struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	if (t->is_alias)
		return alias_end(c, tensor);
	return t->alias ? aliases_pass(c, tensor) : 0;
}

/* --- a listing -------------------------------------------------------------------- */

/* Counts the patterns that match no name. `used`: of each pattern. */
static void unmatched_count(struct ck_listing *l, const bool *used)
{
	l->nunmatched = 0;
	for (size_t i = ck_selection_count(l->selection); i > 0 && i--;)
		if (!used[i]) {
			l->unmatched_first = i;
			l->nunmatched++;
		}
}

/* Sets the new index of each entry: those that are shown come first. */
static int places_find(struct ck_listing *l, uint32_t *place)
{
	ck_auto_free bool *used = calloc(ck_selection_count(l->selection),
					 sizeof(*used));
	uint32_t shown = 0, hidden = 0;

	if (!used)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		place[i] = ck_selection_judge(l->selection, l->names[i].name,
					      used)
				   ? shown++
				   : UINT32_MAX;
	for (size_t i = 0; i < l->n; i++)
		if (place[i] == UINT32_MAX)
			place[i] = shown + hidden++;
	l->n = shown;
	l->nhidden = hidden;
	unmatched_count(l, used);
	return 0;
}

static void prefixed_move(struct ck_listing *l, const uint32_t *place)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->nprefixed; i++)
		if (place[l->prefixed[i]] < l->n)
			l->prefixed[kept++] = place[l->prefixed[i]];
	l->nprefixed = kept;
}

int ck_listing_select(struct ck_listing *l)
{
	size_t n = l->n;
	ck_auto_free uint32_t *place = calloc(n + 1, sizeof(*place));
	struct ck_entry_id *entries;
	struct ck_names *names;
	int rc;

	if (!l->selection)
		return 0;
	rc = place ? places_find(l, place) : -ENOMEM;
	if (rc)
		return rc;
	entries = calloc(n + 1, sizeof(*entries));
	names = calloc(n + 1, sizeof(*names));
	for (size_t i = 0; entries && names && i < n; i++) {
		entries[place[i]] = l->entries[i];
		names[place[i]] = l->names[i];
	}
	if (!entries || !names) {
		free(entries);
		free(names);
		return -ENOMEM;
	}
	prefixed_move(l, place);
	free(l->entries);
	free(l->names);
	l->entries = entries;
	l->names = names;
	return 0;
}

/* --- a catalog -------------------------------------------------------------------- */

static int tensor_hide(struct ck_catalog *c, uint32_t tensor)
{
	struct ck_tensor *t;
	int rc = ck_catalog_part_from_aliases(c, tensor);

	t = rc ? NULL : ck_catalog_own_tensor(c, tensor);
	if (!t)
		return -ENOMEM;
	if (t->entry.role != CK_ROLE_WHOLE) {
		c->own_tensors--;
		c->own_chunks -= t->nchunks;
	} else if (c->nbytes < UINT64_MAX) { /* a saturated sum stays */
		c->nbytes -= t->nbytes;
	}
	t->entry.role = CK_ROLE_HIDDEN;
	c->hidden_tensors++;
	c->hidden_chunks += t->nchunks;
	return 0;
}

static int object_hide(struct ck_catalog *c, uint32_t object)
{
	struct ck_object *o = ck_catalog_own_object(c, object);

	if (!o)
		return -ENOMEM;
	if (o->entry.role != CK_ROLE_WHOLE)
		c->own_objects--;
	o->entry.role = CK_ROLE_HIDDEN;
	c->hidden_objects++;
	return 0;
}

/* Rows with the name of another entry are hidden with it. */
static int rows_hide(struct ck_catalog *c)
{
	const struct ck_listing *l = c->listing;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < c->tensors.n; i++)
		if (ck_tensor_is_there(c, i) && l->of_tensor[i] >= l->n)
			rc = tensor_hide(c, i);
	for (uint32_t i = 0; rc == 0 && i < c->objects.n; i++)
		if (ck_object_is_there(c, i) && l->of_object[i] >= l->n)
			rc = object_hide(c, i);
	return rc;
}

static void losses_drop(struct ck_catalog *c)
{
	uint32_t beside = c->beside_loss, end = beside + c->nbeside_losses;
	size_t kept = 0;

	for (size_t i = 0; i < c->nlosses; i++)
		if (c->losses[i].name.len == 0 ||
		    ck_selection_has(c->listing->selection,
				     c->losses[i].name)) {
			c->losses[kept++] = c->losses[i];
		} else {
			c->beside_loss -= i < beside;
			c->nbeside_losses -= i >= beside && i < end;
		}
	c->nlosses = kept;
}

int ck_catalog_hide(struct ck_catalog *c)
{
	int rc = c->listing->selection ? rows_hide(c) : 0;

	if (rc == 0 && c->caps) /* the first catalog */
		losses_drop(c);
	return rc;
}
