/* SPDX-License-Identifier: MIT */
/*
 * edit: changes the next catalog: moves chunks, adds, renames and removes entries. A
 * new row owns the memory that it points to, as one piece, which is freed with the last
 * catalog that has the row. A removed entry leaves a row without a key, since numbers
 * are not reused. If entries changed, a new listing is made from the keys. One thread
 * edits, before others have the catalog.
 */
#include "catalog_internal.h"
#include "fault.h"

#include <errno.h>
#include <inttypes.h>

/* --- locations -------------------------------------------------------------------- */

static int place(struct ck_catalog *c, const struct ck_edit *e)
{
	struct ck_item *item;

	/* Refused: such an item may have strides, which all generations share. */
	if (e->item.form == CK_FORM_ELEMENTS)
		return -EINVAL;
	item = ck_catalog_own_item(c, e->number);
	if (!item)
		return -ENOMEM;
	*item = e->item;
	return ck_catalog_replicas_drop(c, e->number);
}

/* Updates a tensor whose items were edited. */
static int changed(struct ck_catalog *c, uint32_t tensor)
{
	struct ck_tensor *t = ck_catalog_own_tensor(c, tensor);
	struct ck_tensor_facts facts;
	int rc;

	if (!t)
		return -ENOMEM;
	facts = *t->facts;
	facts.version = c->generation;
	rc = ck_tensor_facts_set(t, &facts, NULL);
	if (rc == 0)
		rc = ck_catalog_part_from_aliases(c, tensor);
	return rc ? rc : ck_catalog_tensor_renew(c, tensor, NULL);
}

/* Applies the adjacent edits of locations of one tensor; sets *n to their number. */
static int places(struct ck_catalog *c, const struct ck_edit *edits,
		  uint32_t most, uint32_t *n)
{
	uint32_t tensor, i = 0;
	int rc = 0;

	if (edits->number >= c->chunks.n)
		return -ENOENT;
	tensor = ck_catalog_tensor_of(c, edits->number);
	if (!ck_tensor_is_there(c, tensor))
		return -ENOENT;
	/* Otherwise local/ would show the old data. */
	if (ck_catalog_tensor(c, tensor)->apart ||
	    !ck_tensor_is_whole(c, tensor))
		return -EINVAL;
	for (; rc == 0 && i < most && edits[i].kind == CK_EDIT_PLACE &&
	       edits[i].number < c->chunks.n &&
	       ck_catalog_tensor_of(c, edits[i].number) == tensor;
	     i++)
		rc = place(c, &edits[i]);
	*n = i;
	return rc ? rc : changed(c, tensor);
}

/* --- memory of new rows ----------------------------------------------------------- */

/* Returns the bytes of a piece, rounded up so that the next one is aligned. */
static size_t room(size_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* Copies bytes to *at, and moves *at behind them. The memory must be large enough. */
static void *take(char **at, const void *from, size_t bytes)
{
	char *to = *at;

	if (bytes)
		memcpy(to, from, bytes);
	*at += room(bytes);
	return to;
}

/* Makes the key and path of an entry. */
static int entry_own(struct ck_entry *e, const struct ck_new_entry *new)
{
	size_t bytes = room(new->key.len + 1) +
		       room(new->nparts * sizeof(*new->path));
	struct ck_path_part *path;
	char *at;

	for (uint32_t i = 0; i < new->nparts; i++)
		bytes += room(new->path[i].len);
	e->owner = ck_owned_make(bytes);
	if (!e->owner)
		return -ENOMEM;
	at = e->owner->bytes;
	e->key = (struct ck_str){ take(&at, new->key.p, new->key.len),
				  new->key.len };
	at = e->owner->bytes + room(new->key.len + 1);
	path = take(&at, new->path, new->nparts * sizeof(*path));
	for (uint32_t i = 0; i < new->nparts; i++)
		path[i].p = take(&at, path[i].p, path[i].len);
	e->path = path;
	e->nparts = new->nparts;
	return 0;
}

/* Makes memory for shape, boxes and their order, which the caller fills later. */
static int tensor_own(struct ck_tensor *t, const struct ck_new_entry *new,
		      uint64_t version, uint32_t **order)
{
	struct ck_tensor_facts facts = {
		.version = version,
		.dtype_name = ck_str_from(ck_dtype_at(new->dtype)->name),
	};
	size_t shape = new->ndim * sizeof(*new->shape);
	size_t boxes = (size_t)2 * shape * new->nchunks;
	char *at;
	int rc;

	facts.owner = ck_owned_make(shape + boxes +
				    room(new->nchunks * sizeof(**order)));
	if (!facts.owner)
		return -ENOMEM;
	at = facts.owner->bytes;
	t->shape = take(&at, new->shape, shape);
	t->boxes = take(&at, new->boxes, boxes);
	*order = (uint32_t *)(void *)at;
	facts.order = *order;
	rc = ck_tensor_facts_set(t, &facts, NULL);
	ck_owned_put(facts.owner);
	return rc;
}

/* --- entries ---------------------------------------------------------------------- */

static int items_add(struct ck_catalog *c, const struct ck_new_entry *new)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < new->nchunks; i++)
		rc = ck_rows_add(&c->chunks, &new->items[i]);
	return rc;
}

static int tensor_add(struct ck_catalog *c, const struct ck_new_entry *new,
		      struct ck_diag *d)
{
	struct ck_tensor t = {
		.entry.number = c->tensors.n,
		.dtype = new->dtype,
		.ndim = new->ndim,
		.chunk = c->chunks.n,
		.nchunks = new->nchunks,
	};
	uint32_t number = c->tensors.n, *order;
	int rc;

	if (new->nchunks > UINT32_MAX - c->chunks.n)
		return -EOVERFLOW;
	rc = tensor_own(&t, new, c->generation, &order);
	if (rc == 0)
		rc = entry_own(&t.entry, new);
	if (rc == 0)
		rc = ck_rows_add(&c->tensors, &t);
	if (rc) {
		ck_owned_put(t.entry.owner);
		ck_tensor_facts_put(t.facts);
		return rc;
	}
	rc = items_add(c, new);
	if (rc == 0)
		rc = ck_catalog_check_added(c, number, order, d);
	if (rc)
		return rc;
	ck_catalog_bytes_add(c, ck_catalog_tensor(c, number)->nbytes);
	return ck_catalog_tensor_renew(c, number, NULL);
}

static int object_add(struct ck_catalog *c, const struct ck_edit *e)
{
	struct ck_object o = { .entry.number = c->objects.n, .item = e->item };
	int rc = entry_own(&o.entry, e->new);

	if (rc)
		return rc;
	o.item.err = ck_catalog_item_err(c, &o.item);
	rc = ck_rows_add(&c->objects, &o);
	if (rc) {
		ck_owned_put(o.entry.owner);
		return rc;
	}
	return ck_catalog_object_renew(c, o.entry.number);
}

/* True if the entry of an edit exists. */
static bool is_there(const struct ck_catalog *c, const struct ck_edit *e)
{
	struct ck_entry_id id = { e->number, e->is_object };

	return e->number < (e->is_object ? c->objects.n : c->tensors.n) &&
	       ck_catalog_entry(c, id)->key.p;
}

/* Returns an entry to be changed. NULL if memory is exhausted. */
static struct ck_entry *own_entry(struct ck_catalog *c, const struct ck_edit *e)
{
	struct ck_object *o;
	struct ck_tensor *t;

	if (e->is_object) {
		o = ck_catalog_own_object(c, e->number);
		return o ? &o->entry : NULL;
	}
	t = ck_catalog_own_tensor(c, e->number);
	return t ? &t->entry : NULL;
}

static int rename_entry(struct ck_catalog *c, const struct ck_edit *e)
{
	struct ck_entry renamed = { .number = e->number };
	struct ck_entry *entry;
	int rc = entry_own(&renamed, e->new);

	if (rc)
		return rc;
	entry = own_entry(c, e);
	if (!entry) {
		ck_owned_put(renamed.owner);
		return -ENOMEM;
	}
	ck_owned_put(entry->owner);
	*entry = renamed;
	return 0;
}

/* Marks the items of a removed tensor as lost. */
static int items_drop(struct ck_catalog *c, const struct ck_tensor *t)
{
	int rc = 0;

	for (uint32_t i = 0; i < t->nchunks && rc == 0; i++) {
		const struct ck_edit none = {
			.number = t->chunk + i,
			.item = { .file = CK_NO_FILE, .err = ENODATA },
		};

		rc = place(c, &none);
	}
	return rc;
}

static int remove_tensor(struct ck_catalog *c, uint32_t number)
{
	struct ck_tensor *t = ck_catalog_own_tensor(c, number);
	const struct ck_tensor_facts facts = { .version = c->generation };
	int rc = t ? items_drop(c, t) : -ENOMEM;
	uint64_t nbytes;

	if (t && (t->apart || t->entry.role != CK_ROLE_WHOLE))
		return -EINVAL; /* local/ would still show parts of it */
	if (rc == 0)
		rc = ck_catalog_part_from_aliases(c, number);
	if (rc)
		return rc;
	nbytes = t->nbytes;
	rc = ck_tensor_facts_set(t, &facts, NULL);
	if (rc)
		return rc;
	if (c->nbytes < UINT64_MAX) /* a saturated sum stays */
		c->nbytes -= nbytes;
	ck_owned_put(t->entry.owner);
	*t = (struct ck_tensor){ .entry.number = number,
				 .chunk = t->chunk,
				 .facts = t->facts };
	return 0;
}

static int remove_object(struct ck_catalog *c, uint32_t number)
{
	struct ck_object *o = ck_catalog_own_object(c, number);

	if (!o)
		return -ENOMEM;
	ck_owned_put(o->entry.owner);
	*o = (struct ck_object){
		.entry.number = number,
		.item = { .file = CK_NO_FILE, .err = ENODATA },
	};
	return 0;
}

/* --- the listing ---------------------------------------------------------------------- */

static int list_again(const struct ck_catalog *c, struct ck_listing *l,
		      struct ck_entry_id id)
{
	struct ck_str key = ck_catalog_entry(c, id)->key;

	return key.p ? ck_listing_add(l, id, key) : 0;
}

/* Lists the rows with the names of other entries again. */
static int same_again(const struct ck_catalog *c, struct ck_listing *l)
{
	const struct ck_listing *old = c->listing;
	int rc = 0;

	for (size_t i = 0; i < old->nsame && rc == 0; i++)
		if (ck_catalog_entry(c, old->same[i].id)->key.p &&
		    ck_catalog_entry(c, old->same[i].of)->key.p)
			rc = ck_listing_same(l, old->same[i].id,
					     old->same[i].of);
	return rc;
}

/* Lists old entries in their order, then added ones in theirs. */
static int list_all(const struct ck_catalog *c, struct ck_listing *l,
		    const struct ck_edit *edits, uint32_t n)
{
	const struct ck_listing *old = c->listing;
	uint32_t tensors = c->tensors.n, objects = c->objects.n;
	int rc = 0;

	for (size_t i = 0; i < old->n + old->nhidden && rc == 0; i++)
		rc = list_again(c, l, old->entries[i]);
	for (uint32_t i = 0; i < n; i++) {
		bool added = edits[i].kind == CK_EDIT_ADD;

		objects -= added && edits[i].is_object;
		tensors -= added && !edits[i].is_object;
	}
	for (uint32_t i = 0; i < n && rc == 0; i++)
		if (edits[i].kind == CK_EDIT_ADD)
			rc = list_again(c, l,
					(struct ck_entry_id){
						edits[i].is_object ? objects++
								   : tensors++,
						edits[i].is_object });
	return rc;
}

static int relist(struct ck_catalog *c, const struct ck_edit *edits, uint32_t n,
		  struct ck_diag *d)
{
	struct ck_listing *l = ck_listing_make();
	int rc = l ? list_all(c, l, edits, n) : -ENOMEM;

	if (l) {
		l->renames = ck_renames_hold(c->listing->renames);
		l->selection = ck_selection_hold(c->listing->selection);
	}
	if (rc == 0)
		rc = same_again(c, l);
	if (rc == 0)
		rc = ck_listing_finish(l, d);
	if (rc) {
		ck_listing_put(l);
		return rc == -EBADMSG ? -EEXIST : rc;
	}
	ck_listing_put(c->listing);
	c->listing = l;
	return ck_catalog_hide(c);
}

/* --- edits ------------------------------------------------------------------------ */

static int edit_entry(struct ck_catalog *c, const struct ck_edit *e,
		      struct ck_diag *d)
{
	if (e->kind == CK_EDIT_ADD)
		return e->is_object ? object_add(c, e)
				    : tensor_add(c, e->new, d);
	if (!is_there(c, e))
		return ck_fail(d, ENOENT, "there is no %s %" PRIu32,
			       e->is_object ? "object" : "tensor", e->number);
	if (e->kind == CK_EDIT_RENAME)
		return rename_entry(c, e);
	return e->is_object ? remove_object(c, e->number)
			    : remove_tensor(c, e->number);
}

int ck_catalog_edit(struct ck_catalog *next, const struct ck_edit *edits,
		    uint32_t n, struct ck_diag *d)
{
	bool others = false;
	int rc = 0;

	next->generation++;
	for (uint32_t i = 0, done; i < n && rc == 0; i += done) {
		done = 1;
		if (edits[i].kind == CK_EDIT_PLACE) {
			rc = places(next, &edits[i], n - i, &done);
		} else {
			rc = edit_entry(next, &edits[i], d);
			others = true;
		}
	}
	return rc || !others ? rc : relist(next, edits, n, d);
}
