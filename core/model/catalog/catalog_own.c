/* SPDX-License-Identifier: MIT */
/*
 * catalog_own: rows for data of single ranks. They are tensors and objects like others,
 * but have the name of another entry, and only local/ shows them. There are copies, for
 * boxes of a tensor that several ranks have, and parts of something that has no whole
 * entry.
 */
#include "catalog_internal.h"

#include <errno.h>

int ck_catalog_entry_own(struct ck_catalog *c, struct ck_entry_id id,
			 struct ck_entry_id of, uint8_t role,
			 struct ck_entry *e)
{
	*e = (struct ck_entry){ .key = ck_catalog_entry(c, of)->key,
				.number = id.i,
				.of = of.i,
				.of_object = of.is_object,
				.role = role };
	return ck_listing_same(c->caps->listing, id, of);
}

int ck_catalog_tensor_unwhole(struct ck_catalog *c, const char *why)
{
	struct ck_tensor *t = c->caps->last;

	t->entry.of = t->entry.number;
	t->entry.role = CK_ROLE_OWN;
	c->own_tensors++;
	return why ? ck_catalog_fault_set(c, t, ck_str_from(why)) : 0;
}

void ck_catalog_tensor_apart(struct ck_catalog *c)
{
	c->caps->last->apart = 1;
}

/* --- copies ------------------------------------------------------------------------ */

/* The copies of the tensor that was added last. */
struct copies {
	struct ck_catalog *c;
	const struct ck_tensor *t;
	uint32_t first, n; /* its replicas */
	uint32_t most;	   /* most items of one chunk */
	uint32_t *have;	   /* for each chunk, its number of replicas */
};

static int count(struct copies *k)
{
	k->have = calloc(k->t->nchunks + 1UL, sizeof(*k->have));
	if (!k->have)
		return -ENOMEM;
	for (uint32_t i = 0; i < k->n; i++) {
		uint32_t chunk = ck_catalog_replica(k->c, k->first + i)->chunk;
		uint32_t have = ++k->have[chunk - k->t->chunk];

		k->most = (uint32_t)ck_max(k->most, have + UINT64_C(1));
	}
	return 0;
}

/* Returns the item of a chunk (level 0) or one of its replicas, which are adjacent.
 * before: number of replicas of earlier chunks. */
static struct ck_item item_of(const struct copies *k, uint32_t i,
			      uint32_t before, uint32_t level)
{
	if (level == 0)
		return *ck_catalog_item(k->c, k->t->chunk + i);
	return ck_catalog_replica(k->c, k->first + before + level - 1)->item;
}

static int strides_copy(struct ck_catalog *c, uint32_t chunk)
{
	const uint64_t *strides = ck_catalog_strides(c, chunk);
	uint64_t copy[CK_MAX_DIMS];
	uint32_t ndim = c->caps->last->ndim;

	if (!strides || ndim == 0 || ndim > CK_MAX_DIMS)
		return 0;
	/* The array may move when strides are added. */
	memcpy(copy, strides, ndim * sizeof(*copy));
	return ck_catalog_strides_add(c, copy);
}

/* Adds an item whose box is shared with the tensor. */
static int shared_add(const struct copies *k, const struct ck_item *item)
{
	k->c->own_chunks++;
	k->c->caps->last->nchunks++;
	return ck_rows_add(&k->c->chunks, item);
}

static int boxes_copy(const struct copies *k, uint32_t level, bool shared)
{
	uint32_t before = 0;
	int rc = 0;

	for (uint32_t i = 0; i < k->t->nchunks && rc == 0; i++) {
		const int64_t *box = ck_tensor_box(k->t, i);
		struct ck_item item;

		if (level <= k->have[i]) {
			item = item_of(k, i, before, level);
			rc = shared ? shared_add(k, &item)
				    : ck_catalog_chunk_add(k->c, box,
							   box + k->t->ndim,
							   &item);
			if (rc == 0)
				rc = strides_copy(k->c, k->t->chunk + i);
		}
		before += k->have[i];
	}
	return rc;
}

/* True if all chunks have an item of this level, as nearly always. */
static bool is_full(const struct copies *k, uint32_t level)
{
	for (uint32_t i = 0; i < k->t->nchunks; i++)
		if (level > k->have[i])
			return false;
	return true;
}

static int copy_add(const struct copies *k, uint32_t level)
{
	struct ck_entry_id of = { k->t->entry.number, false };
	int rc = ck_catalog_own_add(k->c, of, CK_ROLE_COPY,
				    k->t->facts->dtype_name, 0, NULL);
	struct ck_tensor *copy = k->c->caps->last;
	bool shared = is_full(k, level);
	struct ck_tensor_facts facts;

	if (rc)
		return rc;
	copy->ndim = k->t->ndim;
	copy->shape = k->t->shape;
	copy->kind = k->t->kind;
	facts = *copy->facts;
	facts.sharding = k->t->facts->sharding;
	if (ck_tensor_facts_set(copy, &facts, &k->c->caps->met))
		return -ENOMEM;
	if (shared)
		copy->boxes = k->t->boxes;
	return boxes_copy(k, level, shared);
}

int ck_catalog_copies_add(struct ck_catalog *c, bool more)
{
	struct ck_tensor *t = c->caps->last;
	struct copies k = { .c = c, .t = t, .most = 1 };
	int rc;

	k.first = ck_catalog_replicas(c, t->chunk, t->nchunks, &k.n);
	if ((k.n == 0 && !more) || t->err)
		return 0;
	t->apart = 1;
	rc = count(&k);
	for (uint32_t level = 0; level < k.most && rc == 0; level++)
		rc = copy_add(&k, level);
	free(k.have);
	return rc;
}

/* --- other entries ------------------------------------------------------------------ */

int ck_catalog_object_own(struct ck_catalog *c, struct ck_entry_id of,
			  uint8_t role, const struct ck_item *item)
{
	struct ck_object o = { .item = *item, .local = true };
	int rc = ck_catalog_entry_own(
		c, (struct ck_entry_id){ c->objects.n, true }, of, role,
		&o.entry);

	c->own_objects++;
	return rc ? rc : ck_rows_add(&c->objects, &o);
}

void ck_catalog_object_local(struct ck_catalog *c, bool local)
{
	ck_catalog_own_object(c, c->objects.n - 1)->local = local;
}

void ck_catalog_object_unwhole(struct ck_catalog *c)
{
	struct ck_object *o = ck_catalog_own_object(c, c->objects.n - 1);

	o->entry.of = o->entry.number;
	o->entry.of_object = true;
	o->entry.role = CK_ROLE_OWN;
	o->local = true;
	c->own_objects++;
}
