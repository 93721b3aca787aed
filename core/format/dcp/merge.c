/* SPDX-License-Identifier: MIT */
/*
 * merge: one catalog from the `__<rank>.metadata` of all ranks. A save without
 * collectives writes one for each rank, with the entries and boxes of that rank only. A
 * key that several ranks have becomes one entry with the boxes of all of them.
 *
 * The state lives for one call of ck_dcp_merge(), in one thread.
 */
#include "dcp_internal.h"

#include <errno.h>

#define NONE UINT32_MAX

/* An entry of one part. */
struct mention {
	const struct ck_dcp_part *part;
	struct ck_entry_id id;
	uint32_t next; /* next one of the same key; NONE at the last */
};

/* A box of one part. */
struct box {
	const int64_t *at; /* offsets, sizes */
	const struct ck_dcp_part *part;
	const struct ck_item *item;
	uint32_t same; /* next equal box; NONE at the last */
	bool first;    /* the first of its equal boxes */
};

struct merge {
	struct ck_catalog *c;
	struct mention *mentions;
	size_t n;
	uint32_t *first, *last; /* mentions of each key, in order */
	size_t nkeys;
	uint32_t *slots; /* number of a key + 1; 0 if empty */
	size_t nslots;
	uint64_t seed;
	/* Boxes of the tensor that is being added: */
	struct box *boxes;
	uint32_t *order; /* their numbers, sorted by box, then by part */
	size_t nboxes, boxes_cap, order_cap;
};

static const struct ck_entry *entry_of(const struct mention *m)
{
	return ck_catalog_entry(m->part->c, m->id);
}

/* --- keys ------------------------------------------------------------------------ */

static uint32_t *slot_of(const struct merge *m, struct ck_str key)
{
	size_t mask = m->nslots - 1;
	size_t i = ck_hash64_seeded(key, m->seed) & mask;

	while (m->slots[i] &&
	       !ck_str_eq(
		       entry_of(&m->mentions[m->first[m->slots[i] - 1]])->key,
		       key))
		i = (i + 1) & mask;
	return &m->slots[i];
}

static void mention_add(struct merge *m, const struct ck_dcp_part *part,
			struct ck_entry_id id)
{
	struct mention *mention = &m->mentions[m->n];
	uint32_t *slot;

	*mention = (struct mention){ .part = part, .id = id, .next = NONE };
	slot = slot_of(m, entry_of(mention)->key);
	if (*slot) {
		m->mentions[m->last[*slot - 1]].next = (uint32_t)m->n;
	} else {
		m->first[m->nkeys] = (uint32_t)m->n;
		*slot = (uint32_t)++m->nkeys;
	}
	m->last[*slot - 1] = (uint32_t)m->n++;
}

static int mentions_make(struct merge *m, const struct ck_dcp_part *parts,
			 size_t n)
{
	size_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += parts[i].c->listing->n;
	if (all >= NONE)
		return -EOVERFLOW;
	for (m->nslots = 16; m->nslots < 2 * all;)
		m->nslots *= 2;
	m->seed = ck_hash_seed();
	m->slots = calloc(m->nslots, sizeof(*m->slots));
	m->mentions = calloc(all + 1, sizeof(*m->mentions));
	m->first = calloc(all + 1, sizeof(*m->first));
	m->last = calloc(all + 1, sizeof(*m->last));
	if (!m->slots || !m->mentions || !m->first || !m->last)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < parts[i].c->listing->n; k++)
			mention_add(m, &parts[i],
				    parts[i].c->listing->entries[k]);
	return 0;
}

/* --- items and paths -------------------------------------------------------------- */

static int item_take(struct merge *m, const struct ck_dcp_part *part,
		     const struct ck_item *item, struct ck_item *out)
{
	*out = *item;
	if (item->file != CK_NO_FILE)
		out->file = part->files[item->file];
	if (!item->transform)
		return 0;
	return ck_catalog_transform_add(
		m->c, part->c->transforms[item->transform], &out->transform);
}

/* Copies the path of an entry to the last entry of the catalog. Texts that are pieces
 * of the key in the source become pieces of the key in the copy. */
static int path_take(struct merge *m, const struct ck_entry *from)
{
	struct ck_str key = ck_catalog_last_key(m->c);
	struct ck_path_part *path = ck_catalog_path_add(m->c, from->nparts);
	int rc = path ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < from->nparts && rc == 0; i++) {
		struct ck_path_part part = ck_entry_part(from, i);
		struct ck_str text = ck_part_text(&part);
		uintptr_t begin = (uintptr_t)from->key.p;
		uintptr_t at = (uintptr_t)text.p;

		if (at >= begin && at - begin <= key.len &&
		    text.len <= key.len - (at - begin))
			text.p = key.p + (at - begin);
		else
			rc = ck_catalog_text_add(m->c, text, &text);
		path[i] = (struct ck_path_part){ .p = text.p,
						 .len = (uint32_t)text.len,
						 .type = part.type };
	}
	return rc;
}

/* Adds the path of the first mention that has one. */
static int path_add(struct merge *m, uint32_t first)
{
	for (uint32_t i = first; i != NONE; i = m->mentions[i].next) {
		const struct ck_entry *e = entry_of(&m->mentions[i]);

		if (e->nparts)
			return path_take(m, e);
	}
	return 0;
}

/* --- tensors ------------------------------------------------------------------------- */

static const struct ck_tensor *tensor_of(const struct mention *m)
{
	return ck_catalog_tensor(m->part->c, m->id.i);
}

/* Returns why `second` is not the same tensor; NULL if it is. */
static const char *difference(const struct ck_tensor *a,
			      const struct mention *second)
{
	const struct ck_tensor *b;

	if (second->id.is_object)
		return "it is no tensor";
	b = tensor_of(second);
	if (!ck_str_eq(a->facts->dtype_name, b->facts->dtype_name))
		return "it has another dtype";
	if (a->ndim != b->ndim ||
	    (a->ndim &&
	     memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) != 0))
		return "it has another size";
	return NULL;
}

/* Adds a fault to the tensor if a part disagrees with the first one, or has a fault
 * itself. */
static int tensor_judge(struct merge *m, uint32_t first)
{
	const struct mention *one = &m->mentions[first];
	const struct ck_tensor *t = tensor_of(one);

	for (uint32_t i = first; i != NONE; i = m->mentions[i].next) {
		const struct mention *other = &m->mentions[i];
		const char *why = difference(t, other);
		uint64_t rank = other->part->rank;

		if (why)
			return ck_catalog_tensor_fault(
				m->c, EIO,
				ck_shown("%s in the metadata of rank %ju than "
					 "in that of rank %ju",
					 why, (uintmax_t)rank,
					 (uintmax_t)one->part->rank));
		if (tensor_of(other)->err)
			return ck_catalog_tensor_fault(
				m->c, tensor_of(other)->err,
				ck_shown("rank %ju: %s", (uintmax_t)rank,
					 ck_show(ck_tensor_fault(
						 tensor_of(other)))));
	}
	return 0;
}

static int boxes_take(struct merge *m, const struct mention *from)
{
	const struct ck_tensor *t = tensor_of(from);
	size_t more = ck_max(t->nchunks, 1U);
	struct box *boxes = ck_grow(m->boxes, &m->boxes_cap, m->nboxes, more,
				    sizeof(*boxes));
	uint32_t *order;

	if (boxes)
		m->boxes = boxes;
	order = ck_grow(m->order, &m->order_cap, m->nboxes, more,
			sizeof(*order));
	if (order)
		m->order = order;
	if (!boxes || !order || m->nboxes + t->nchunks >= NONE)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->nchunks; i++) {
		order[m->nboxes] = (uint32_t)m->nboxes;
		boxes[m->nboxes++] = (struct box){
			.at = ck_tensor_box(t, i),
			.part = from->part,
			.item = ck_catalog_item(from->part->c, t->chunk + i),
			.same = NONE,
		};
	}
	return 0;
}

struct sorting {
	const struct box *boxes;
	uint32_t ndim;
};

static int place_cmp(const struct sorting *s, uint32_t a, uint32_t b)
{
	const int64_t *x = s->boxes[a].at, *y = s->boxes[b].at;

	for (uint32_t i = 0; i < 2 * s->ndim; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

static int box_cmp(const void *a, const void *b, void *arg)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = place_cmp(arg, x, y);

	return order ? order : (x > y) - (x < y);
}

/* Links equal boxes, in the order of parts. Returns the number of different boxes. */
static uint32_t boxes_link(struct merge *m, uint32_t ndim)
{
	struct sorting s = { m->boxes, ndim };
	uint32_t n = 0;

	if (m->nboxes)
		qsort_r(m->order, m->nboxes, sizeof(*m->order), box_cmp, &s);
	for (size_t i = 0; i < m->nboxes; i++) {
		bool same = i &&
			    place_cmp(&s, m->order[i - 1], m->order[i]) == 0;

		if (same)
			m->boxes[m->order[i - 1]].same = m->order[i];
		m->boxes[m->order[i]].first = !same;
		n += !same;
	}
	return n;
}

static int box_add(struct merge *m, const struct box *box, uint32_t ndim)
{
	struct ck_item item;
	int rc = item_take(m, box->part, box->item, &item);

	if (rc == 0)
		rc = ck_catalog_chunk_add(
			m->c, box->at, box->at ? box->at + ndim : NULL, &item);
	for (uint32_t i = box->same; i != NONE && rc == 0;
	     i = m->boxes[i].same) {
		rc = item_take(m, m->boxes[i].part, m->boxes[i].item, &item);
		if (rc == 0)
			rc = ck_catalog_replica_add(m->c, &item);
	}
	return rc;
}

static int tensor_add(struct merge *m, uint32_t first)
{
	const struct ck_tensor *t = tensor_of(&m->mentions[first]);
	int rc = ck_catalog_tensor_add(m->c, t->entry.key, t->facts->dtype_name,
				       t->ndim, t->shape);

	m->nboxes = 0;
	if (rc == 0)
		ck_catalog_tensor_kind(m->c, t->kind);
	if (rc == 0)
		rc = tensor_judge(m, first);
	for (uint32_t i = first; i != NONE && rc == 0; i = m->mentions[i].next)
		if (!difference(t, &m->mentions[i]))
			rc = boxes_take(m, &m->mentions[i]);
	if (rc == 0)
		rc = ck_catalog_chunks_expect(m->c, boxes_link(m, t->ndim));
	for (size_t i = 0; i < m->nboxes && rc == 0; i++)
		if (m->boxes[i].first)
			rc = box_add(m, &m->boxes[i], t->ndim);
	return rc;
}

/* Adds a tensor, its path, and the copies that each rank has. */
static int tensor_show(struct merge *m, uint32_t first)
{
	int rc = tensor_add(m, first);

	if (rc == 0)
		rc = path_add(m, first);
	return rc ? rc : ck_catalog_copies_add(m->c, false);
}

/* --- objects, and the merge ------------------------------------------------------- */

/* Adds an entry other than a tensor, with the item of the first part. It gets EIO if
 * another part has a tensor of this key. */
static int object_add(struct merge *m, uint32_t first)
{
	const struct mention *one = &m->mentions[first];
	struct ck_item item;
	int rc = item_take(m, one->part,
			   &ck_catalog_object(one->part->c, one->id.i)->item,
			   &item);

	for (uint32_t i = first; i != NONE; i = m->mentions[i].next)
		if (!m->mentions[i].id.is_object && !item.err)
			item.err = EIO;
	if (rc == 0)
		rc = ck_catalog_object_add(m->c, entry_of(one)->key, &item);
	return rc ? rc : path_add(m, first);
}

static int globals_add(struct merge *m, const struct ck_dcp_part *part)
{
	int rc = 0;

	for (size_t i = 0; i < part->c->nglobals && rc == 0; i++)
		rc = ck_catalog_global_add(m->c, part->c->globals[i]);
	return rc;
}

int ck_dcp_merge(struct ck_catalog *c, const struct ck_dcp_part *parts,
		 size_t n)
{
	struct merge m = { .c = c };
	int rc = mentions_make(&m, parts, n);

	for (size_t i = 0; i < m.nkeys && rc == 0; i++) {
		rc = m.mentions[m.first[i]].id.is_object
			     ? object_add(&m, m.first[i])
			     : tensor_show(&m, m.first[i]);
	}
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = globals_add(&m, &parts[i]);
	free(m.mentions);
	free(m.first);
	free(m.last);
	free(m.slots);
	free(m.boxes);
	free(m.order);
	return rc;
}
