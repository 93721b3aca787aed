/* SPDX-License-Identifier: MIT */
/*
 * catalog: the hub, and how the first one is filled. Tensors, objects, items and files
 * are rows that refer to each other by number; strings, shapes and boxes lie in an
 * arena, where rows point to them, and share bytes where they can. There is no
 * allocation for a single chunk: a million of them cost 60 bytes for each 2-D one
 * where the format says how many follow. Finishing adds names, sizes and faults.
 */
#include "catalog_internal.h"

#include <errno.h>

/* Different lists of stream transforms. torch has one transform; the limit
 * keeps the search for known ones short. */
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

/* Room for `more` elements in c->array of which `used` are taken: 0 or
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

/* The key is copied; *e is what the row has. */
static int entry_add(struct ck_catalog *c, struct ck_entry_id id,
		     struct ck_str key, struct ck_entry *e)
{
	int rc = ck_catalog_text_add(c, key, &e->key);

	e->number = id.i;
	return rc ? rc : ck_listing_add(c->caps->listing, id, e->key);
}

/* Neighbours nearly always have the same dtype: one copy of its name. */
static int dtype_name_add(struct ck_catalog *c, struct ck_str dtype,
			  struct ck_str *out)
{
	if (c->tensors.n) {
		struct ck_str last =
			ck_catalog_tensor(c, c->tensors.n - 1)->dtype_name;

		if (ck_str_eq(last, dtype)) {
			*out = last;
			return 0;
		}
	}
	return ck_catalog_text_add(c, dtype, out);
}

/* Numbers that stay where they are. */
static int64_t *numbers_copy(struct ck_catalog *c, const int64_t *from,
			     size_t n)
{
	int64_t *to = ck_arena_alloc(&c->text, n * sizeof(*to));

	if (to && n)
		memcpy(to, from, n * sizeof(*to));
	return to;
}

int ck_catalog_tensor_add(struct ck_catalog *c, struct ck_str key,
			  struct ck_str dtype, uint32_t ndim,
			  const int64_t *shape)
{
	struct ck_tensor t = {
		.chunk = c->chunks.n,
		.ndim = ndim,
		.alias_of = CK_NO_TENSOR,
	};
	int rc;

	if (ck_str_starts(dtype, CK_STR("torch.")))
		dtype = (struct ck_str){ dtype.p + 6, dtype.len - 6 };
	t.dtype = ck_dtype_by_name(dtype);
	t.shape = numbers_copy(c, shape, ndim);
	if (!t.shape)
		return -ENOMEM;
	rc = dtype_name_add(c, dtype, &t.dtype_name);
	if (rc == 0)
		rc = entry_add(c, (struct ck_entry_id){ c->tensors.n, false },
			       key, &t.entry);
	if (rc == 0)
		rc = ck_rows_add(&c->tensors, &t);
	if (rc)
		return rc;
	c->caps->last = ck_catalog_own_tensor(c, c->tensors.n - 1);
	c->caps->room = 0;
	return ck_catalog_chunks_expect(c, 0);
}

int ck_catalog_tensor_fault(struct ck_catalog *c, int err, const char *why)
{
	struct ck_tensor *t = c->caps->last;

	t->err = (uint16_t)err;
	return ck_catalog_text_add(c, ck_str_from(why), &t->fault);
}

void ck_catalog_tensor_kind(struct ck_catalog *c, uint8_t kind)
{
	c->caps->last->kind = kind;
}

/* Neighbours often have the same: one copy of it. */
int ck_catalog_tensor_sharding(struct ck_catalog *c,
			       const struct ck_sharding *sharding)
{
	const struct ck_sharding *last = c->caps->sharding;

	if (sharding->ndim == 0)
		return -EINVAL;
	if (!last || !ck_sharding_is_same(last, sharding))
		last = ck_sharding_copy(&c->text, sharding);
	if (!last)
		return -ENOMEM;
	c->caps->sharding = c->caps->last->sharding = last;
	return 0;
}

static bool is_same_item(const struct ck_item *a, const struct ck_item *b)
{
	return a->file == b->file && a->fpos == b->fpos &&
	       a->length == b->length && a->form == b->form &&
	       a->transform == b->transform;
}

static bool has_same_strides(const struct ck_catalog *c, uint32_t ndim,
			     uint32_t a, uint32_t b)
{
	const uint64_t *x = ck_catalog_strides(c, a);
	const uint64_t *y = ck_catalog_strides(c, b);

	return x && y ? memcmp(x, y, ndim * sizeof(*x)) == 0 : x == y;
}

static bool is_same_tensor(const struct ck_catalog *c,
			   const struct ck_tensor *a, const struct ck_tensor *b)
{
	size_t dims = a->ndim * sizeof(*a->shape);
	bool same = ck_str_eq(a->dtype_name, b->dtype_name) &&
		    a->ndim == b->ndim && a->nchunks == b->nchunks &&
		    memcmp(a->shape, b->shape, dims) == 0 &&
		    memcmp(a->boxes, b->boxes, 2 * dims * a->nchunks) == 0;

	for (uint32_t i = 0; same && i < a->nchunks; i++)
		same = is_same_item(ck_catalog_item(c, a->chunk + i),
				    ck_catalog_item(c, b->chunk + i)) &&
		       has_same_strides(c, a->ndim, a->chunk + i, b->chunk + i);
	return same;
}

int ck_catalog_tensor_alias(struct ck_catalog *c, uint32_t of)
{
	struct ck_tensor *t = c->caps->last;
	const struct ck_tensor *other;

	if (of >= t->entry.number || t->alias_of != CK_NO_TENSOR)
		return -EINVAL;
	other = ck_catalog_tensor(c, of);
	if (!is_same_tensor(c, t, other))
		return -EINVAL;
	if (other->alias_of != CK_NO_TENSOR)
		of = other->alias_of;
	t->alias_of = of;
	ck_catalog_own_tensor(c, of)->naliases++;
	return 0;
}

/* Boxes move where there is room for n of them. */
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
	/* There is something to point at without any. */
	return n <= c->caps->room && c->caps->last->boxes ? 0
							  : boxes_move(c, n);
}

int ck_catalog_chunk_add(struct ck_catalog *c, const int64_t *off,
			 const int64_t *len, const struct ck_item *chunk)
{
	struct ck_tensor *t = c->caps->last;
	uint64_t room = c->caps->room;
	int64_t *box;
	int rc = 0;

	if (t->nchunks == room)
		rc = boxes_move(c, ck_max(4, 2 * room));
	if (rc == 0)
		rc = ck_rows_add(&c->chunks, chunk);
	if (rc)
		return rc;
	box = c->caps->boxes + (size_t)t->nchunks * 2 * t->ndim;
	if (t->ndim) {
		memcpy(box, off, t->ndim * sizeof(*off));
		memcpy(box + t->ndim, len, t->ndim * sizeof(*len));
	}
	t->nchunks++;
	return 0;
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

int ck_catalog_replica_add(struct ck_catalog *c, const struct ck_item *item)
{
	struct ck_replica r = { .chunk = c->chunks.n - 1, .item = *item };

	return ck_rows_add(&c->replicas, &r);
}

int ck_catalog_object_add(struct ck_catalog *c, struct ck_str key,
			  const struct ck_item *item)
{
	struct ck_object o = { .item = *item };
	int rc = entry_add(c, (struct ck_entry_id){ c->objects.n, true }, key,
			   &o.entry);

	return rc ? rc : ck_rows_add(&c->objects, &o);
}

struct ck_path_part *ck_catalog_path_add(struct ck_catalog *c, uint32_t n)
{
	const struct ck_listing *l = c->listing;
	struct ck_entry_id id = l->entries[l->n - 1];
	struct ck_entry *e = id.is_object
				     ? &ck_catalog_own_object(c, id.i)->entry
				     : &ck_catalog_own_tensor(c, id.i)->entry;
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

/* The number of descriptors already known, 0 if there is none. */
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

/* Sorted by bytes, each once. */
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

static void trim(struct ck_catalog *c)
{
	TRIM(c, strided, c->nstrided);
	TRIM(c, strides, c->nstrides);
	TRIM(c, transforms, c->ntransforms);
	TRIM(c, globals, c->nglobals);
	free(c->caps);
	c->caps = NULL;
}

int ck_catalog_finish(struct ck_catalog *c, struct ck_diag *d)
{
	int rc = ck_listing_finish(c->caps->listing, d);

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
