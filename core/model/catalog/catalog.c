/* SPDX-License-Identifier: MIT */
/*
 * catalog: the central value, and how the first one is filled. Tensors, objects, items
 * and files are rows that refer to each other by number. Strings, shapes and boxes are
 * in an arena that rows point into, and share bytes where possible. No chunk has an
 * allocation of its own: a 2-D chunk takes 60 bytes if the format announces the number
 * of chunks. Finishing adds names, sizes and faults. One thread fills a catalog; it is
 * constant after ck_catalog_finish().
 */
#include "catalog_internal.h"

#include <errno.h>

/* Limit of different lists of stream transforms. torch has one transform; the limit
 * keeps the search for known lists short. */
enum { TRANSFORMS_MAX = 256 };

struct ck_catalog *ck_catalog_make(const char *kind)
{
	struct ck_catalog *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->caps = calloc(1, sizeof(*c->caps));
	c->sharing = malloc(sizeof(*c->sharing));
	if (c->caps)
		c->listing = c->caps->listing = ck_listing_make();
	if (!c->listing || !c->sharing) {
		ck_listing_put(c->listing);
		free(c->caps);
		free(c->sharing);
		free(c);
		return NULL;
	}
	*c->sharing = 1;
	c->refs = 1;
	ck_catalog_rows_init(c);
	c->kind = kind;
	return c;
}

/* --- growing -------------------------------------------------------------- */

/* Makes room for `more` elements in c->array, of which `used` are taken. Returns 0, or:
 * -ENOMEM. */
#define ROOM(c, array, used, more)                                             \
	({                                                                     \
		void *room_ = ck_grow((c)->array, &(c)->caps->array, used,     \
				      more, sizeof(*(c)->array));              \
		if (room_ && room_ != (c)->array)                              \
			(c)->array = room_;                                    \
		room_ ? 0 : -ENOMEM;                                           \
	})

int ck_catalog_text_add(struct ck_catalog *c, struct ck_str s,
			struct ck_str *out)
{
	*out = CK_STR("");
	if (s.len == 0)
		return 0;
	if (s.len > UINT32_MAX)
		return -EOVERFLOW;
	*out = ck_arena_copy(&c->text, s);
	return out->p ? 0 : -ENOMEM;
}

int ck_catalog_fault_set(struct ck_catalog *c, struct ck_tensor *t,
			 struct ck_str why)
{
	struct ck_str copy;
	int rc = ck_catalog_text_add(c, why, &copy);

	t->fault = copy.p;
	return rc;
}

int ck_catalog_entry_add(struct ck_catalog *c, struct ck_entry_id id,
			 struct ck_str key, struct ck_entry *e)
{
	int rc = ck_catalog_text_add(c, key, &e->key);

	e->number = id.i;
	return rc ? rc : ck_listing_add(c->caps->listing, id, e->key);
}

int ck_catalog_strides_add(struct ck_catalog *c, const uint64_t *strides)
{
	const struct ck_tensor *t = c->caps->last;

	if (ROOM(c, strided, c->nstrided, 1) ||
	    ROOM(c, strides, c->nstrides, t->ndim))
		return -ENOMEM;
	c->strided[c->nstrided++] = (struct ck_strided){
		.chunk = c->chunks.n - 1,
		.strides = c->nstrides,
	};
	if (t->ndim)
		memcpy(c->strides + c->nstrides, strides,
		       t->ndim * sizeof(*strides));
	c->nstrides += t->ndim;
	return 0;
}

int ck_catalog_within_add(struct ck_catalog *c, uint32_t of, uint64_t first)
{
	if (ROOM(c, within, c->nwithin, 1))
		return -ENOMEM;
	c->within[c->nwithin++] = (struct ck_within){ .chunk = c->chunks.n - 1,
						      .of = of,
						      .first = first };
	return 0;
}

int ck_catalog_replica_add(struct ck_catalog *c, const struct ck_item *item)
{
	struct ck_replica r = { .chunk = c->chunks.n - 1, .item = *item };

	return ck_rows_add(&c->replicas, &r);
}

int ck_catalog_object_add(struct ck_catalog *c, struct ck_str key,
			  const struct ck_item *item)
{
	struct ck_object o = { .item = *item };
	int rc = ck_catalog_entry_add(
		c, (struct ck_entry_id){ c->objects.n, true }, key, &o.entry);

	return rc ? rc : ck_rows_add(&c->objects, &o);
}

/* Copies the pickle of an object, unless the entry of which it is a copy has an equal
 * one, as nearly always. */
static int pickle_add(struct ck_catalog *c, struct ck_object *o,
		      struct ck_str pickle)
{
	if (o->entry.role == CK_ROLE_COPY && o->entry.of_object) {
		o->pickle = ck_catalog_object(c, o->entry.of)->pickle;
		if (ck_str_eq(o->pickle, pickle))
			return 0;
	}
	return ck_catalog_text_add(c, pickle, &o->pickle);
}

int ck_catalog_object_value(struct ck_catalog *c, struct ck_str pickle,
			    const struct ck_item *storages, uint32_t n)
{
	struct ck_object *o = ck_catalog_own_object(c, c->objects.n - 1);
	uint64_t bytes = pickle.len;
	struct ck_item *items;
	int rc;

	for (uint32_t i = 0; i < n; i++)
		if (!ck_add(&bytes, bytes, storages[i].length) ||
		    bytes > INT64_MAX)
			return -EINVAL;
	if (o->item.form != CK_FORM_VALUE || n == UINT32_MAX)
		return -EINVAL;
	items = ck_arena_alloc(&c->text, (n + 1UL) * sizeof(*items));
	if (!items)
		return -ENOMEM;
	rc = pickle_add(c, o, pickle);
	if (rc)
		return rc;
	items[0] = o->item;
	if (n)
		memcpy(items + 1, storages, n * sizeof(*items));
	o->items = items;
	o->nitems = n + 1;
	return 0;
}

/* Returns the entry that was added last. */
static struct ck_entry *last_entry(struct ck_catalog *c)
{
	const struct ck_listing *l = c->listing;
	struct ck_entry_id id = l->entries[l->n - 1];

	return id.is_object ? &ck_catalog_own_object(c, id.i)->entry
			    : &ck_catalog_own_tensor(c, id.i)->entry;
}

void ck_catalog_rename(struct ck_catalog *c, const struct ck_renames *m)
{
	ck_renames_put(c->caps->listing->renames);
	c->caps->listing->renames = ck_renames_hold(m);
}

void ck_catalog_select(struct ck_catalog *c, const struct ck_selection *s)
{
	ck_selection_put(c->caps->listing->selection);
	c->caps->listing->selection = ck_selection_hold(s);
}

void ck_catalog_path_is_key(struct ck_catalog *c)
{
	struct ck_entry *e = last_entry(c);

	e->path = NULL;
	e->nparts = 1;
}

struct ck_path_part *ck_catalog_path_add(struct ck_catalog *c, uint32_t n)
{
	struct ck_entry *e = last_entry(c);
	struct ck_path_part *path = ck_arena_alloc(&c->text, n * sizeof(*path));

	if (!path)
		return NULL;
	memset(path, 0, n * sizeof(*path));
	e->path = path;
	e->nparts = n;
	return path;
}

struct ck_str ck_catalog_last_key(const struct ck_catalog *c)
{
	return c->listing->names[c->listing->n - 1].key;
}

int ck_catalog_global_add(struct ck_catalog *c, struct ck_str name)
{
	struct ck_str text;
	int rc;

	if (ROOM(c, globals, c->nglobals, 1))
		return -ENOMEM;
	rc = ck_catalog_text_add(c, name, &text);
	if (rc == 0)
		c->globals[c->nglobals++] = text;
	return rc;
}

int ck_catalog_loss_add(struct ck_catalog *c, const struct ck_loss *loss)
{
	struct ck_loss copy = *loss;

	if (ROOM(c, losses, c->nlosses, 1) ||
	    ck_catalog_text_add(c, loss->name, &copy.name) ||
	    ck_catalog_text_add(c, loss->what, &copy.what))
		return -ENOMEM;
	c->losses[c->nlosses++] = copy;
	return 0;
}

static int note_add(struct ck_catalog *c, const char *line, bool doubt)
{
	struct ck_str text;

	if (ROOM(c, notes, c->nnotes, 1) ||
	    ck_catalog_text_add(c, ck_str_from(line), &text))
		return -ENOMEM;
	c->notes[c->nnotes++] = (struct ck_catalog_note){ text, doubt };
	return 0;
}

int ck_catalog_note_add(struct ck_catalog *c, const char *line)
{
	return note_add(c, line, false);
}

int ck_catalog_doubt_add(struct ck_catalog *c, const char *line)
{
	return note_add(c, line, true);
}

/* Returns the number of known descriptors; 0 if they are new. */
static uint8_t transform_find(const struct ck_catalog *c, struct ck_str s)
{
	for (size_t i = c->ntransforms; i > 1 && i--;)
		if (ck_str_eq(c->transforms[i], s))
			return (uint8_t)i;
	return 0;
}

int ck_catalog_transform_add(struct ck_catalog *c, struct ck_str descriptors,
			     uint8_t *number)
{
	struct ck_str text;
	int rc;

	*number = descriptors.len ? transform_find(c, descriptors) : 0;
	if (descriptors.len == 0 || *number)
		return 0;
	if (c->ntransforms >= TRANSFORMS_MAX)
		return -EOVERFLOW;
	if (ROOM(c, transforms, c->ntransforms, 2))
		return -ENOMEM;
	rc = ck_catalog_text_add(c, descriptors, &text);
	if (rc)
		return rc;
	if (c->ntransforms == 0)
		c->transforms[c->ntransforms++] = CK_STR("");
	*number = (uint8_t)c->ntransforms;
	c->transforms[c->ntransforms++] = text;
	return 0;
}

/* --- finishing ------------------------------------------------------------ */

static int text_cmp(const void *a, const void *b)
{
	struct ck_str x = *(const struct ck_str *)a;
	struct ck_str y = *(const struct ck_str *)b;
	int order = memcmp(x.p, y.p, x.len < y.len ? x.len : y.len);

	return order ? order : (x.len > y.len) - (x.len < y.len);
}

/* Sorts the globals by bytes and removes duplicates. */
static void globals_finish(struct ck_catalog *c)
{
	size_t kept = 0;

	if (c->nglobals == 0)
		return;
	qsort(c->globals, c->nglobals, sizeof(*c->globals), text_cmp);
	for (size_t i = 0; i < c->nglobals; i++)
		if (kept == 0 ||
		    text_cmp(&c->globals[kept - 1], &c->globals[i]))
			c->globals[kept++] = c->globals[i];
	c->nglobals = kept;
}

#define TRIM(c, array, count)                                                  \
	((c)->array = ck_trim((c)->array, count, sizeof(*(c)->array)))

void ck_catalog_caps_free(struct ck_catalog *c)
{
	if (c->caps)
		ck_facts_met_fini(&c->caps->met);
	free(c->caps);
	c->caps = NULL;
}

static void trim(struct ck_catalog *c)
{
	TRIM(c, strided, c->nstrided);
	TRIM(c, within, c->nwithin);
	TRIM(c, strides, c->nstrides);
	TRIM(c, transforms, c->ntransforms);
	TRIM(c, globals, c->nglobals);
	TRIM(c, losses, c->nlosses);
	TRIM(c, notes, c->nnotes);
	ck_catalog_caps_free(c);
}

/* Adds a doubt about the selection of names, if there is any. */
static int selection_note(struct ck_catalog *c)
{
	const struct ck_listing *l = c->listing;
	const char *first;
	bool only;

	if (l->nhidden && l->n == 0)
		return ck_catalog_doubt_add(
			c, ck_shown("only=, exclude=: no name is selected; "
				    "the checkpoint has %zu",
				    l->nhidden));
	if (l->n == 0 || l->nunmatched == 0)
		return 0;
	first = ck_selection_at(l->selection, l->unmatched_first, &only);
	return ck_catalog_doubt_add(
		c,
		ck_shown("%s=: %zu of %zu patterns match no name; the first is "
			 "%s",
			 only ? "only" : "exclude", l->nunmatched,
			 ck_selection_count(l->selection),
			 ck_show(ck_str_from(first))));
}

int ck_catalog_finish(struct ck_catalog *c, struct ck_diag *d)
{
	int rc = ck_listing_finish(c->caps->listing, d);

	if (rc == 0)
		rc = ck_listing_note_unused(c->listing, c);
	if (rc == 0)
		rc = selection_note(c);
	if (rc == 0)
		rc = ck_catalog_hide(c);
	if (rc == 0)
		rc = ck_catalog_check(c);
	if (rc == -ENOMEM)
		return ck_fail(d, ENOMEM, "out of memory for the catalog");
	if (rc == -EOVERFLOW)
		return ck_fail(d, EOVERFLOW, "more names than can be numbered");
	if (rc)
		return rc;
	globals_finish(c);
	trim(c);
	return 0;
}

/* --- reading -------------------------------------------------------------- */

const struct ck_entry *ck_catalog_entry(const struct ck_catalog *c,
					struct ck_entry_id e)
{
	return e.is_object ? &ck_catalog_object(c, e.i)->entry
			   : &ck_catalog_tensor(c, e.i)->entry;
}

uint32_t ck_catalog_tensor_of(const struct ck_catalog *c, uint32_t chunk)
{
	uint32_t lo = 0, hi = c->tensors.n;

	/* the last tensor whose first chunk is not behind it */
	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (ck_catalog_tensor(c, mid)->chunk <= chunk)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}
