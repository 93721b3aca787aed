/* SPDX-License-Identifier: MIT */
/*
 * catalog_tensor: adds a tensor to the first catalog, with its boxes. There may be
 * millions, so facts that many share are stored once, where a short search finds them.
 * Called by the thread that fills the catalog.
 */
#include "catalog_internal.h"

#include <errno.h>

/* Sets *out to the name of a dtype. A name that is not known is copied, and cut after
 * MOST bytes. */
static int dtype_name_add(struct ck_catalog *c, struct ck_str dtype, uint8_t id,
			  struct ck_str *out)
{
	enum { MOST = 255 };

	struct ck_catalog_caps *caps = c->caps;
	int rc;

	if (id != CK_DTYPE_UNKNOWN) {
		*out = ck_str_from(ck_dtype_at(id)->name);
		return 0;
	}
	dtype.len = ck_min(dtype.len, (size_t)MOST);
	for (unsigned i = 0; i < CK_LATEST; i++)
		if (ck_str_eq(caps->dtype_names[i], dtype)) {
			*out = caps->dtype_names[i];
			return 0;
		}
	rc = ck_catalog_text_add(c, dtype, out);
	if (rc == 0)
		caps->dtype_names[caps->ndtype_names++ % CK_LATEST] = *out;
	return rc;
}

/* Returns the box of a whole tensor. NULL if memory is exhausted. */
static const int64_t *whole_of(struct ck_catalog *c, uint32_t ndim,
			       const int64_t *shape)
{
	size_t dims = ndim * sizeof(*shape);
	struct ck_whole *whole = &c->caps->wholes[0];
	int64_t *box;

	if (ndim)
		whole += ck_hash64(
				 (struct ck_str){ (const char *)shape, dims }) %
			 CK_WHOLES;
	if (whole->box && whole->ndim == ndim &&
	    (ndim == 0 || memcmp(whole->box + ndim, shape, dims) == 0))
		return whole->box;
	box = ck_arena_alloc(&c->text, 2 * dims);
	if (!box)
		return NULL;
	if (ndim) {
		memset(box, 0, dims);
		memcpy(box + ndim, shape, dims);
	}
	*whole = (struct ck_whole){ box, ndim };
	return box;
}

/* Returns the box of a whole tensor that is being filled: its zeros precede the
 * shape. */
static const int64_t *whole_box(const struct ck_tensor *t)
{
	return t->shape - t->ndim;
}

/* Initialises a tensor with shape and dtype. */
static int tensor_init(struct ck_catalog *c, struct ck_str dtype, uint32_t ndim,
		       const int64_t *shape, struct ck_tensor *t)
{
	struct ck_tensor_facts facts = { 0 };
	const int64_t *whole = whole_of(c, ndim, shape);
	int rc;

	*t = (struct ck_tensor){
		.chunk = c->chunks.n,
		.ndim = ndim,
	};
	if (!whole)
		return -ENOMEM;
	t->shape = whole + ndim;
	t->boxes = whole; /* not NULL without boxes */
	if (ck_str_starts(dtype, CK_STR("torch.")))
		dtype = (struct ck_str){ dtype.p + 6, dtype.len - 6 };
	t->dtype = ck_dtype_by_name(dtype);
	rc = dtype_name_add(c, dtype, t->dtype, &facts.dtype_name);
	return rc ? rc : ck_tensor_facts_set(t, &facts, &c->caps->met);
}

static int tensor_begin(struct ck_catalog *c, const struct ck_tensor *t)
{
	int rc = ck_rows_add(&c->tensors, t);

	if (rc)
		return rc;
	c->caps->last = ck_catalog_own_tensor(c, c->tensors.n - 1);
	c->caps->room = 0;
	c->caps->expected = 0;
	return 0;
}

/* Adds the row to the catalog, or drops its facts after an error. */
static int tensor_end(struct ck_catalog *c, const struct ck_tensor *t, int rc)
{
	if (rc == 0)
		rc = tensor_begin(c, t);
	if (rc)
		ck_tensor_facts_put(t->facts);
	return rc;
}

int ck_catalog_tensor_add(struct ck_catalog *c, struct ck_str key,
			  struct ck_str dtype, uint32_t ndim,
			  const int64_t *shape)
{
	struct ck_tensor t;
	int rc = tensor_init(c, dtype, ndim, shape, &t);

	if (rc == 0)
		rc = ck_catalog_entry_add(
			c, (struct ck_entry_id){ c->tensors.n, false }, key,
			&t.entry);
	return tensor_end(c, &t, rc);
}

int ck_catalog_own_add(struct ck_catalog *c, struct ck_entry_id of,
		       uint8_t role, struct ck_str dtype, uint32_t ndim,
		       const int64_t *shape)
{
	struct ck_tensor t;
	int rc = tensor_init(c, dtype, ndim, shape, &t);

	if (rc == 0)
		rc = ck_catalog_entry_own(
			c, (struct ck_entry_id){ c->tensors.n, false }, of,
			role, &t.entry);
	if (rc == 0)
		c->own_tensors++;
	return tensor_end(c, &t, rc);
}

int ck_catalog_tensor_fault(struct ck_catalog *c, int err, const char *why)
{
	struct ck_tensor *t = c->caps->last;

	t->err = (uint16_t)err;
	return ck_catalog_fault_set(c, t, ck_str_from(why));
}

void ck_catalog_tensor_guessed(struct ck_catalog *c)
{
	c->caps->last->guessed = 1;
}

void ck_catalog_tensor_kind(struct ck_catalog *c, uint8_t kind)
{
	c->caps->last->kind = kind;
}

/* Returns a copy of a sharding, or an equal one that was added recently. NULL if memory
 * is exhausted. */
static const struct ck_sharding *sharding_keep(
	struct ck_catalog *c, const struct ck_sharding *sharding)
{
	struct ck_catalog_caps *caps = c->caps;
	const struct ck_sharding *copy;

	for (unsigned i = 0; i < CK_LATEST; i++)
		if (caps->shardings[i] &&
		    ck_sharding_is_same(caps->shardings[i], sharding))
			return caps->shardings[i];
	copy = ck_sharding_copy(&c->text, sharding);
	if (copy)
		caps->shardings[caps->nshardings++ % CK_LATEST] = copy;
	return copy;
}

int ck_catalog_tensor_sharding(struct ck_catalog *c,
			       const struct ck_sharding *sharding)
{
	struct ck_tensor_facts facts = *c->caps->last->facts;

	if (sharding->ndim == 0)
		return -EINVAL;
	facts.sharding = sharding_keep(c, sharding);
	return facts.sharding ? ck_tensor_facts_set(c->caps->last, &facts,
						    &c->caps->met)
			      : -ENOMEM;
}

static bool is_same_item(const struct ck_item *a, const struct ck_item *b)
{
	return a->file == b->file && a->fpos == b->fpos &&
	       a->length == b->length && a->form == b->form &&
	       a->transform == b->transform && a->change == b->change;
}

static bool has_same_strides(const struct ck_catalog *c, uint32_t ndim,
			     uint32_t a, uint32_t b)
{
	const uint64_t *x = ck_catalog_strides(c, a);
	const uint64_t *y = ck_catalog_strides(c, b);

	return x && y ? memcmp(x, y, ndim * sizeof(*x)) == 0 : x == y;
}

static bool is_same_within(const struct ck_catalog *c, uint32_t a, uint32_t b)
{
	const struct ck_within *x = ck_catalog_within(c, a);
	const struct ck_within *y = ck_catalog_within(c, b);

	return x && y ? x->of == y->of && x->first == y->first : x == y;
}

static bool is_same_tensor(const struct ck_catalog *c,
			   const struct ck_tensor *a, const struct ck_tensor *b)
{
	size_t dims = a->ndim * sizeof(*a->shape);
	bool same = ck_tensor_is_alike(a, b) && a->nchunks == b->nchunks &&
		    memcmp(a->boxes, b->boxes, 2 * dims * a->nchunks) == 0;

	for (uint32_t i = 0; same && i < a->nchunks; i++)
		same = is_same_item(ck_catalog_item(c, a->chunk + i),
				    ck_catalog_item(c, b->chunk + i)) &&
		       has_same_strides(c, a->ndim, a->chunk + i,
					b->chunk + i) &&
		       is_same_within(c, a->chunk + i, b->chunk + i);
	return same;
}

int ck_catalog_tensor_alias(struct ck_catalog *c, uint32_t of)
{
	struct ck_tensor *t = c->caps->last;
	const struct ck_tensor *other;

	if (of >= t->entry.number || t->is_alias)
		return -EINVAL;
	other = ck_catalog_tensor(c, of);
	if (!is_same_tensor(c, t, other))
		return -EINVAL;
	if (other->is_alias)
		of = other->alias;
	t->is_alias = 1;
	t->alias = of;
	ck_catalog_own_tensor(c, of)->alias++;
	return 0;
}

/* Moves the boxes of the last tensor to memory for n boxes. */
static int boxes_move(struct ck_catalog *c, uint64_t n)
{
	struct ck_tensor *t = c->caps->last;
	size_t box = (size_t)2 * t->ndim * sizeof(int64_t), bytes;
	int64_t *boxes = ck_mul(&bytes, n, box)
				 ? ck_arena_alloc(&c->text, bytes)
				 : NULL;

	if (!boxes)
		return -ENOMEM;
	if (t->nchunks && box)
		memcpy(boxes, t->boxes, t->nchunks * box);
	t->boxes = boxes;
	c->caps->boxes = boxes;
	c->caps->room = n;
	return 0;
}

int ck_catalog_chunks_expect(struct ck_catalog *c, uint32_t n)
{
	c->caps->expected = n;
	/* A single box may be the whole tensor and need no memory. */
	return n <= ck_max(1, c->caps->room) ? 0 : boxes_move(c, n);
}

static bool is_whole(const struct ck_tensor *t, const int64_t *off,
		     const int64_t *len)
{
	for (uint32_t d = 0; d < t->ndim; d++)
		if (off[d] != 0 || len[d] != t->shape[d])
			return false;
	return true;
}

/* Returns the number of boxes to allocate next. */
static uint64_t room_next(const struct ck_catalog *c)
{
	uint64_t room = c->caps->room;

	return c->caps->expected == 1 && c->caps->last->nchunks == 0
		       ? 1
		       : ck_max(4, 2 * room);
}

int ck_catalog_chunk_add(struct ck_catalog *c, const int64_t *off,
			 const int64_t *len, const struct ck_item *chunk)
{
	struct ck_tensor *t = c->caps->last;
	uint64_t room = c->caps->room;
	bool whole = t->nchunks == 0 && room == 0 && is_whole(t, off, len);
	int64_t *box;
	int rc = 0;

	if (t->nchunks >= room && !whole)
		rc = boxes_move(c, room_next(c));
	if (rc == 0)
		rc = ck_rows_add(&c->chunks, chunk);
	if (rc)
		return rc;
	c->own_chunks += t->entry.role != CK_ROLE_WHOLE;
	if (whole) {
		t->boxes = whole_box(t);
		t->nchunks++;
		return 0;
	}
	box = c->caps->boxes + (size_t)t->nchunks * 2 * t->ndim;
	if (t->ndim) {
		memcpy(box, off, t->ndim * sizeof(*off));
		memcpy(box + t->ndim, len, t->ndim * sizeof(*len));
	}
	t->nchunks++;
	return 0;
}
