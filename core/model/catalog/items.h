/* SPDX-License-Identifier: MIT */
/*
 * items: some items of a catalog, those of one file of the tree; and a walk over
 * many. A part of model.
 */
#ifndef CKPTFS_ITEMS_H
#define CKPTFS_ITEMS_H

#include "ckptfs/catalog.h"

/* Some items of a catalog: those of the chunks [chunk, chunk + n), or the n of one
 * other entry; or the n data files, whatever is in them. */
struct ck_items {
	const struct ck_catalog *of; /* whose they are; NULL: there are none */
	const struct ck_item *own;   /* NULL: of chunks */
	uint32_t chunk, n;
	bool are_files; /* they are no items, but have ck_items_file() */
};

static inline const struct ck_item *ck_items_at(struct ck_items items,
						uint32_t i)
{
	return items.own ? &items.own[i]
			 : ck_catalog_item(items.of, items.chunk + i);
}

/* The file of item i. */
static inline uint32_t ck_items_file(struct ck_items items, uint32_t i)
{
	return items.are_files ? i : ck_items_at(items, i)->file;
}

static inline struct ck_items ck_items_of_files(const struct ck_catalog *c)
{
	return (struct ck_items){ .of = c, .n = c->files.n, .are_files = true };
}

static inline struct ck_items ck_items_of_tensor(const struct ck_catalog *c,
						 const struct ck_tensor *t)
{
	return (struct ck_items){ .of = c, .chunk = t->chunk, .n = t->nchunks };
}

static inline struct ck_items ck_items_of_object(const struct ck_catalog *c,
						 const struct ck_object *o)
{
	if (o->items)
		return (struct ck_items){ .of = c,
					  .own = o->items,
					  .n = o->nitems };
	return (struct ck_items){ .of = c, .own = &o->item, .n = 1 };
}

static inline bool ck_time_is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec
				    : a.tv_nsec > b.tv_nsec;
}

/* Owner, mode (r bits that .metadata, directory and files share) and newest
 * time of what consists of these items, of this catalog or of another generation,
 * as this one knows files. */
struct ck_attr ck_catalog_attr(const struct ck_catalog *c,
			       struct ck_items items);

/* Items that are looked at one after the other: who asks for one in the same block
 * of rows as before does not go through the tree again. Begins as { 0 }; for one
 * catalog. */
struct ck_item_walk {
	const struct ck_item *block;
	uint32_t first; /* chunk in it */
};

static inline const struct ck_item *ck_item_walk_to(struct ck_item_walk *w,
						    const struct ck_catalog *c,
						    uint32_t chunk)
{
	uint32_t in_block = chunk & ((1U << CK_ITEM_BITS) - 1);

	if (!w->block || chunk - in_block != w->first) {
		w->first = chunk - in_block;
		w->block = ck_catalog_item(c, w->first);
	}
	return w->block + in_block;
}

/* The same among the entries that are not selected. Slow. */
int64_t ck_catalog_find_hidden(const struct ck_catalog *c, struct ck_str stem);

/* Counts the ranks that saved data files; files of which the rank is unknown do not count.
 * Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_catalog_count_ranks(const struct ck_catalog *c, size_t *out);

/* Numbers of rows that are shown as a whole. */
static inline uint32_t ck_shown_tensors(const struct ck_catalog *c)
{
	return c->tensors.n - c->own_tensors - c->hidden_tensors;
}

static inline uint32_t ck_shown_chunks(const struct ck_catalog *c)
{
	return c->chunks.n - c->own_chunks - c->hidden_chunks;
}

static inline uint32_t ck_shown_objects(const struct ck_catalog *c)
{
	return c->objects.n - c->own_objects - c->hidden_objects;
}

#endif
