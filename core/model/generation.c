/* SPDX-License-Identifier: MIT */
/*
 * generation: catalogs that are made of each other. The next one is a copy of a
 * small struct: it shares the blocks of all rows, and the arrays that no edit
 * changes. An edit copies the blocks of the rows that it changes. Who holds an old
 * generation keeps those blocks that it alone has; the last one of all to go takes
 * the arrays with it.
 */
#include "catalog_internal.h"

#include <errno.h>
#include <stddef.h>

/* --- what rows own ---------------------------------------------------------- */

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
	ck_owned_hold(t->owner);
	return t->owner;
}

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
	ck_owned_hold(t->owner);
}

static void tensor_drop(const void *row)
{
	const struct ck_tensor *t = row;

	ck_owned_put(t->entry.owner);
	ck_owned_put(t->owner);
}

static void object_hold(const void *row)
{
	ck_owned_hold(((const struct ck_object *)row)->entry.owner);
}

static void object_drop(const void *row)
{
	ck_owned_put(((const struct ck_object *)row)->entry.owner);
}

/* Blocks of 1 to 2 KiB: what an edit of one row copies. */
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
	free(c->strides);
	free(c->transforms);
	free(c->globals);
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
	free(c->caps);
	free(c);
}

/* Nobody changes a catalog that others have, but it counts them. */
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
