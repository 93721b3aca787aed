/* SPDX-License-Identifier: MIT */
/*
 * generation: makes the next catalog from the current one. It is a copy of a small
 * struct that shares the blocks of all rows, and the arrays that no edit changes. An
 * edit copies the blocks of the rows that it changes. Blocks and arrays are counted and
 * freed with the last catalog that has them. Any thread may hold and put catalogs.
 */
#include "catalog_internal.h"

#include <errno.h>
#include <stddef.h>

/* --- memory of rows --------------------------------------------------------------- */

struct ck_owned *ck_owned_make(size_t bytes)
{
	struct ck_owned *o = calloc(1, sizeof(*o) + bytes);

	if (o)
		o->refs = 1;
	return o;
}

static struct ck_owned *owned_copy(struct ck_str s)
{
	struct ck_owned *o = ck_owned_make(s.len + 1);

	if (o && s.len)
		memcpy(o->bytes, s.p, s.len);
	return o;
}

void ck_owned_hold(struct ck_owned *o)
{
	if (o)
		__atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
}

void ck_owned_put(struct ck_owned *o)
{
	if (o && __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(o);
}

struct ck_owned *ck_tensor_hold(const struct ck_tensor *t)
{
	ck_owned_hold(t->facts->owner);
	return t->facts->owner;
}

/* --- facts ------------------------------------------------------------------ */

/* Facts that rows share. The count is outside of the facts, which are copied while
 * other threads change the count. */
struct shared_facts {
	struct ck_tensor_facts facts; /* first member; constant */
	uint32_t refs; /* atomic: rows and tables that point to it */
};

static struct shared_facts *shared_of(const struct ck_tensor_facts *f)
{
	return (struct shared_facts *)(uintptr_t)f;
}

static void facts_hold(const struct ck_tensor_facts *f)
{
	if (f)
		__atomic_fetch_add(&shared_of(f)->refs, 1, __ATOMIC_RELAXED);
}

void ck_tensor_facts_put(const struct ck_tensor_facts *f)
{
	if (!f ||
	    __atomic_sub_fetch(&shared_of(f)->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	ck_owned_put(f->owner);
	free(shared_of(f));
}

static bool is_same(const struct ck_tensor_facts *a,
		    const struct ck_tensor_facts *b)
{
	return a->mode == b->mode && a->version == b->version &&
	       a->mtime.tv_sec == b->mtime.tv_sec &&
	       a->mtime.tv_nsec == b->mtime.tv_nsec &&
	       a->sharding == b->sharding && a->owner == b->owner &&
	       a->order == b->order && ck_str_eq(a->dtype_name, b->dtype_name);
}

static const struct ck_tensor_facts *facts_make(
	const struct ck_tensor_facts *like)
{
	struct shared_facts *f = malloc(sizeof(*f));

	if (!f)
		return NULL;
	*f = (struct shared_facts){ *like, 1 };
	ck_owned_hold(f->facts.owner);
	return &f->facts;
}

/* Returns the CK_FACTS_WAYS slots of the cache for these facts. */
static const struct ck_tensor_facts **places_of(struct ck_facts_met *met,
						const struct ck_tensor_facts *f)
{
	const uint64_t what[] = { (uint64_t)f->mtime.tv_sec,
				  (uint64_t)f->mtime.tv_nsec,
				  (uintptr_t)f->sharding, (uintptr_t)f->order,
				  (uintptr_t)f->dtype_name.p };
	const struct ck_str text = { (const char *)what, sizeof(what) };
	size_t set = ck_hash64(text) % (CK_FACTS_MET / CK_FACTS_WAYS);

	return &met->facts[set * CK_FACTS_WAYS];
}

/* Returns equal facts in the slots, or NULL. */
static const struct ck_tensor_facts *met_find(
	const struct ck_tensor_facts **places,
	const struct ck_tensor_facts *want)
{
	for (unsigned i = 0; i < CK_FACTS_WAYS; i++)
		if (places[i] && is_same(places[i], want))
			return places[i];
	return NULL;
}

/* Enters facts in place of the oldest ones in the slots. */
static void met_enter(const struct ck_tensor_facts **places,
		      const struct ck_tensor_facts *f)
{
	ck_tensor_facts_put(places[CK_FACTS_WAYS - 1]);
	memmove(places + 1, places,
		(CK_FACTS_WAYS - 1) * sizeof(const struct ck_tensor_facts *));
	facts_hold(f);
	places[0] = f;
}

int ck_tensor_facts_set(struct ck_tensor *t, const struct ck_tensor_facts *want,
			struct ck_facts_met *met)
{
	const struct ck_tensor_facts **places = NULL, *f = NULL;

	if (t->facts && is_same(t->facts, want))
		return 0;
	if (met) {
		places = places_of(met, want);
		f = met_find(places, want);
		facts_hold(f);
	}
	if (!f) {
		f = facts_make(want);
		if (!f)
			return -ENOMEM;
		if (places)
			met_enter(places, f);
	}
	ck_tensor_facts_put(t->facts);
	t->facts = f;
	return 0;
}

void ck_facts_met_fini(struct ck_facts_met *met)
{
	for (size_t i = 0; i < CK_FACTS_MET; i++)
		ck_tensor_facts_put(met->facts[i]);
}

/* --- rows ------------------------------------------------------------------- */

static void file_hold(const void *row)
{
	ck_owned_hold(((const struct ck_data_file *)row)->owner);
}

static void file_drop(const void *row)
{
	ck_owned_put(((const struct ck_data_file *)row)->owner);
}

static void tensor_hold(const void *row)
{
	const struct ck_tensor *t = row;

	ck_owned_hold(t->entry.owner);
	facts_hold(t->facts);
}

static void tensor_drop(const void *row)
{
	const struct ck_tensor *t = row;

	ck_owned_put(t->entry.owner);
	ck_tensor_facts_put(t->facts);
}

static void object_hold(const void *row)
{
	ck_owned_hold(((const struct ck_object *)row)->entry.owner);
}

static void object_drop(const void *row)
{
	ck_owned_put(((const struct ck_object *)row)->entry.owner);
}

/* Blocks of 1 to 2 KiB, which an edit of one row copies. */
static const struct ck_rows_type file_type = { sizeof(struct ck_data_file), 4,
					       file_hold, file_drop };
static const struct ck_rows_type tensor_type = { sizeof(struct ck_tensor), 3,
						 tensor_hold, tensor_drop };
static const struct ck_rows_type object_type = { sizeof(struct ck_object), 4,
						 object_hold, object_drop };
static const struct ck_rows_type item_type = { sizeof(struct ck_item),
					       CK_ITEM_BITS, NULL, NULL };
static const struct ck_rows_type replica_type = { sizeof(struct ck_replica), 6,
						  NULL, NULL };

void ck_catalog_rows_init(struct ck_catalog *c)
{
	c->files.type = &file_type;
	c->tensors.type = &tensor_type;
	c->objects.type = &object_type;
	c->chunks.type = &item_type;
	c->replicas.type = &replica_type;
}

/* --- sharing ------------------------------------------------------------------ */

struct ck_catalog *ck_catalog_next(const struct ck_catalog *of)
{
	struct ck_catalog *c = malloc(sizeof(*c));

	if (!c)
		return NULL;
	memcpy(c, of, offsetof(struct ck_catalog, refs));
	c->refs = 1;
	__atomic_fetch_add(c->sharing, 1, __ATOMIC_RELAXED);
	c->files = ck_rows_share(&of->files);
	c->tensors = ck_rows_share(&of->tensors);
	c->objects = ck_rows_share(&of->objects);
	c->chunks = ck_rows_share(&of->chunks);
	c->replicas = ck_rows_share(&of->replicas);
	ck_listing_hold(c->listing);
	return c;
}

static void arrays_free(struct ck_catalog *c)
{
	ck_arena_fini(&c->text);
	free(c->strided);
	free(c->within);
	free(c->strides);
	free(c->transforms);
	free(c->globals);
	free(c->losses);
	free(c->notes);
	free(c->sharing);
}

static void catalog_free(struct ck_catalog *c)
{
	ck_rows_fini(&c->files);
	ck_rows_fini(&c->tensors);
	ck_rows_fini(&c->objects);
	ck_rows_fini(&c->chunks);
	ck_rows_fini(&c->replicas);
	ck_listing_put(c->listing);
	if (__atomic_sub_fetch(c->sharing, 1, __ATOMIC_ACQ_REL) == 0)
		arrays_free(c);
	ck_catalog_caps_free(c);
	free(c);
}

/* Returns the reference count, the only field of a shared catalog that changes. */
static uint32_t *refs_of(const struct ck_catalog *c)
{
	return (uint32_t *)(uintptr_t)&c->refs;
}

const struct ck_catalog *ck_catalog_hold(const struct ck_catalog *c)
{
	if (c)
		__atomic_fetch_add(refs_of(c), 1, __ATOMIC_RELAXED);
	return c;
}

void ck_catalog_put(const struct ck_catalog *c)
{
	if (c && __atomic_sub_fetch(refs_of(c), 1, __ATOMIC_ACQ_REL) == 0)
		catalog_free((struct ck_catalog *)(uintptr_t)c);
}

/* --- files -------------------------------------------------------------------- */

int ck_catalog_file_add(struct ck_catalog *c, const struct ck_data_file *file)
{
	struct ck_data_file row = *file;
	int rc;

	row.owner = owned_copy(file->path);
	if (!row.owner)
		return -ENOMEM;
	row.path.p = row.owner->bytes;
	rc = c->files.n < CK_NO_FILE ? ck_rows_add(&c->files, &row)
				     : -EOVERFLOW;
	if (rc)
		ck_owned_put(row.owner);
	else
		c->unseen += row.unseen;
	return rc;
}

int ck_catalog_file_set(struct ck_catalog *next, uint32_t file,
			const struct ck_data_file *known)
{
	struct ck_data_file *row = ck_catalog_own_file(next, file);
	struct ck_data_file was;

	if (!row)
		return -ENOMEM;
	was = *row;
	*row = *known;
	row->path = was.path;
	row->owner = was.owner;
	next->unseen += row->unseen;
	next->unseen -= was.unseen;
	return 0;
}
