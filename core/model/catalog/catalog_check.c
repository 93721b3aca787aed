/* SPDX-License-Identifier: MIT */
/*
 * catalog_check: finishes the rows of a catalog: order of boxes, sizes, modes, times,
 * and every fault that can be found without reading an item.
 *
 * shape or boxes impossible       the tensor, EIO dtype without whole bytes       the
 * tensor, EBADMSG elements in no box          the tensor has holes: ENODATA there file
 * missing, item beyond it        the box, ENODATA; or the file's error items sharing
 * bytes               both boxes, EIO
 *
 * Boxes of volume 0 contain nothing: nothing about them is a fault, except for a
 * negative size. The state lives for one call, in the thread that fills or edits the
 * catalog.
 */
#include "base/system/rights.h"
#include "catalog_internal.h"
#include "fault.h"
#include "items.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

/* Steps of the search for overlaps. Each value of a box allows STEPS_FOR_EACH, which
 * suffices for any grid. STEPS_SHARED more are shared by all tensors of a checkpoint,
 * or are allowed for one that is added. */
enum { STEPS_FOR_EACH = 64 };

#define STEPS_SHARED (UINT64_C(1) << 27)

/* Limit that leaves room for a header before the bytes in one file. */
#define BYTES_MAX (INT64_MAX - 65536)

/* Dimensions of a list shown in a fault. */
enum { DIMS_SHOWN = 8 };

static const uint32_t few_sorted[] = { 0, 1, 2,	 3,  4,	 5,  6,	 7,
				       8, 9, 10, 11, 12, 13, 14, 15 };

struct check {
	struct ck_catalog *c;
	struct ck_tiling tiling;
	uint64_t shared;
	struct ck_tensor_facts facts; /* new facts of the tensor */
};

/* --- faults of a tensor ------------------------------------------------------------ */

struct fault {
	int err; /* positive errno, or 0 */
	struct ck_buf text;
};

static CK_PRINTF(3, 4) void fault_set(struct fault *f, int err, const char *fmt,
				      ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	f->err = err;
	ck_buf_text(&f->text, text);
}

static void dims_show(struct ck_buf *out, const int64_t *dims, uint32_t ndim)
{
	ck_dims_print(out, dims, ndim < DIMS_SHOWN ? ndim : DIMS_SHOWN);
	if (ndim > DIMS_SHOWN)
		ck_buf_text(out, "...");
}

static void box_show(struct ck_buf *out, const struct ck_tensor *t, uint32_t i)
{
	const int64_t *box = ck_tensor_box(t, i);

	ck_buf_printf(out, ", box %" PRIu32 " offset ", i);
	dims_show(out, box, t->ndim);
	ck_buf_text(out, " size ");
	dims_show(out, box + t->ndim, t->ndim);
}

static bool has_negative(const int64_t *dims, uint32_t ndim)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (dims[d] < 0)
			return true;
	return false;
}

bool ck_dims_have_zero(const int64_t *dims, uint32_t ndim)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (dims[d] == 0)
			return true;
	return false;
}

/* Sets *out to the product of dimensions that are not negative. False if it
 * overflows. */
static bool volume(const int64_t *dims, uint32_t ndim, uint64_t *out)
{
	uint64_t v = 1;

	*out = 0;
	if (ck_dims_have_zero(dims, ndim))
		return true;
	for (uint32_t d = 0; d < ndim; d++)
		if (!ck_mul(&v, v, (uint64_t)dims[d]))
			return false;
	*out = v;
	return true;
}

/* Finds faults of shape and dtype. Without a fault, sets t->nbytes and *numel. */
static void shape_check(struct ck_tensor *t, uint64_t *numel, struct fault *f)
{
	const int64_t *shape = t->shape;
	const struct ck_dtype *dtype = ck_dtype_at(t->dtype);
	const char *name = ck_show(t->facts->dtype_name);
	uint64_t nbytes;

	if (t->ndim > CK_MAX_DIMS)
		fault_set(f, EBADMSG,
			  "%" PRIu32 " dimensions, expected at most %d",
			  t->ndim, CK_MAX_DIMS);
	else if (has_negative(shape, t->ndim))
		fault_set(f, EIO, "a dimension is negative, shape ");
	else if (t->dtype == CK_DTYPE_UNKNOWN)
		fault_set(f, EBADMSG, "unknown dtype %s", name);
	else if (dtype->size == 0)
		fault_set(f, EBADMSG, "dtype %s has no whole bytes per element",
			  name);
	else if (!volume(shape, t->ndim, numel) ||
		 !ck_mul(&nbytes, *numel, dtype->size) || nbytes > BYTES_MAX)
		fault_set(f, EIO, "too many elements to count, shape ");
	else
		t->nbytes = nbytes;
	if (f->err == EIO)
		dims_show(&f->text, shape, t->ndim);
}

static bool is_inside(const int64_t *box, const int64_t *shape, uint32_t ndim)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (box[d] < 0 || box[d] > shape[d] ||
		    box[ndim + d] > shape[d] - box[d])
			return false;
	return true;
}

/* Finds faults of single boxes. Lists those of positive volume in the tiling's index,
 * in order, and returns the sum of their volumes. */
static uint64_t boxes_check(struct check *k, const struct ck_tensor *t,
			    struct fault *f)
{
	const uint32_t *order = k->facts.order;
	const int64_t *shape = t->shape;
	uint64_t sum = 0, v;

	k->tiling.n = 0;
	for (uint32_t i = 0; i < t->nchunks && !f->err; i++) {
		const int64_t *box = ck_tensor_box(t, order[i]);
		bool negative = has_negative(box + t->ndim, t->ndim);

		if (!negative && ck_dims_have_zero(box + t->ndim, t->ndim))
			continue;
		if (negative || !is_inside(box, shape, t->ndim)) {
			fault_set(f, EIO, "a box is not inside the tensor%s",
				  negative ? ", its size is negative" : "");
			box_show(&f->text, t, order[i]);
			break;
		}
		/* No overflow: the box is inside a tensor whose volume fits. */
		if (!volume(box + t->ndim, t->ndim, &v) ||
		    !ck_add(&sum, sum, v))
			sum = UINT64_MAX;
		k->tiling.index[k->tiling.n++] = order[i];
	}
	return sum;
}

static enum ck_tiling_result tiling_check(struct check *k)
{
	uint64_t own = (uint64_t)k->tiling.n * k->tiling.ndim * STEPS_FOR_EACH;
	enum ck_tiling_result result;

	k->tiling.budget = own + k->shared;
	result = ck_tiling_check(&k->tiling);
	k->shared = ck_min(k->shared, k->tiling.budget);
	return result;
}

static void tiles_check(struct check *k, struct ck_tensor *t, uint64_t numel,
			uint64_t sum, struct fault *f)
{
	switch (tiling_check(k)) {
	case CK_TILING_OVERLAP:
		fault_set(f, EIO, "boxes overlap");
		box_show(&f->text, t, k->tiling.a);
		box_show(&f->text, t, k->tiling.b);
		return;
	case CK_TILING_IRREGULAR:
		fault_set(f, EIO, "%s",
			  sum > numel ? "boxes overlap"
				      : "boxes too irregular to verify");
		return;
	case CK_TILING_DISJOINT: break;
	}
	t->holes = sum < numel && t->entry.role == CK_ROLE_WHOLE;
}

static int fault_store(struct ck_catalog *c, struct ck_tensor *t,
		       const struct fault *f)
{
	t->err = (uint16_t)f->err;
	if (f->text.err)
		return -ENOMEM;
	return ck_catalog_fault_set(
		c, t, (struct ck_str){ f->text.data, f->text.len });
}

/* Sorts the boxes of the tensor in the tiling's index. */
static void order_find(struct check *k, const struct ck_tensor *t)
{
	struct ck_tiling *tiling = &k->tiling;

	tiling->boxes = t->boxes;
	tiling->ndim = t->ndim;
	tiling->n = t->nchunks;
	tiling->budget = 0;
	for (uint32_t i = 0; i < t->nchunks; i++)
		tiling->index[i] = i;
	ck_tiling_sort(tiling);
}

static void order_take(struct check *k, const struct ck_tensor *t,
		       uint32_t *order)
{
	if (t->nchunks)
		memcpy(order, k->tiling.index, t->nchunks * sizeof(*order));
	k->facts.order = order;
}

/* True if there are few boxes, in order: they share one constant order. */
static bool has_few_sorted(const struct check *k, const struct ck_tensor *t)
{
	if (t->nchunks > CK_ARRAY_SIZE(few_sorted))
		return false;
	return memcmp(k->tiling.index, few_sorted,
		      t->nchunks * sizeof(few_sorted[0])) == 0;
}

static int order_make(struct check *k, const struct ck_tensor *t)
{
	uint32_t *order;

	order_find(k, t);
	k->facts.order = few_sorted;
	if (has_few_sorted(k, t))
		return 0;
	order = ck_arena_alloc(&k->c->text, t->nchunks * sizeof(*order));
	if (order)
		order_take(k, t, order);
	return order ? 0 : -ENOMEM;
}

/* Finds the first fault of shape, dtype or boxes. */
static void boxes_judge(struct check *k, struct ck_tensor *t, struct fault *f)
{
	uint64_t numel = 0, sum = 0;

	if (t->err) /* a fault of the format */
		fault_set(f, t->err, "%s", ck_tensor_fault(t).p);
	else
		shape_check(t, &numel, f);
	if (!f->err)
		sum = boxes_check(k, t, f);
	if (!f->err)
		tiles_check(k, t, numel, sum, f);
}

static int boxes_finish(struct check *k, struct ck_tensor *t)
{
	struct fault f = { 0 };
	int rc;

	k->facts = *t->facts;
	rc = order_make(k, t);
	if (rc)
		return rc;
	boxes_judge(k, t, &f);
	if (f.err)
		rc = fault_store(k->c, t, &f);
	ck_buf_fini(&f.text);
	return rc ? rc : ck_tensor_facts_set(t, &k->facts, &k->c->caps->met);
}

/* --- items --------------------------------------------------------------------------- */

static const struct ck_data_file *file_of(const struct ck_catalog *c,
					  const struct ck_item *chunk)
{
	return chunk->file < c->files.n ? ck_catalog_file(c, chunk->file)
					: NULL;
}

/* Returns the offset behind the last byte of the item; saturates. */
static uint64_t item_end(const struct ck_item *chunk)
{
	uint64_t end;

	return ck_add(&end, chunk->fpos, chunk->length) ? end : UINT64_MAX;
}

uint8_t ck_catalog_item_err(const struct ck_catalog *c,
			    const struct ck_item *chunk)
{
	const struct ck_data_file *file = file_of(c, chunk);

	if (!file)
		return ENODATA;
	if (file->err)
		return (uint8_t)file->err;
	if (chunk->err)
		return chunk->err;
	return ck_catalog_item_is_there(c, chunk) ? 0 : ENODATA;
}

/* Items of one tensor. */
struct items {
	const struct ck_catalog *c;
	uint32_t chunk; /* first chunk of the tensor */
};

static int place_cmp(const struct ck_item *x, const struct ck_item *y)
{
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->fpos > y->fpos) - (x->fpos < y->fpos);
}

static int item_cmp(const void *a, const void *b, void *arg)
{
	const struct items *of = arg;
	const struct ck_item *x =
		ck_catalog_item(of->c, of->chunk + *(const uint32_t *)a);
	const struct ck_item *y =
		ck_catalog_item(of->c, of->chunk + *(const uint32_t *)b);

	return place_cmp(x, y);
}

bool ck_tensor_box_is_empty(const struct ck_tensor *t, uint32_t i)
{
	return ck_dims_have_zero(ck_tensor_box(t, i) + t->ndim, t->ndim);
}

/* Lists the items of the tensor that have data in the tiling's index, sorted by
 * location. Returns their number. */
static uint32_t items_sort(struct check *k, const struct ck_tensor *t)
{
	struct items of = { k->c, t->chunk };
	uint32_t *index = k->tiling.index;
	const struct ck_item *last = NULL;
	struct ck_item_walk walk = { 0 };
	bool sorted = true;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->nchunks; i++) {
		const struct ck_item *item = ck_item_walk_to(&walk, k->c,
							     t->chunk + i);

		if (!file_of(k->c, item) || item->length == 0 ||
		    /* they are ranges of other items */
		    item->form == CK_FORM_ELEMENTS ||
		    item->form == CK_FORM_WITHIN ||
		    ck_tensor_box_is_empty(t, i))
			continue;
		index[n++] = i;
		sorted &= !last || place_cmp(last, item) <= 0;
		last = item;
	}
	if (!sorted)
		qsort_r(index, n, sizeof(*index), item_cmp, &of);
	return n;
}

/* Marks items that share bytes. Each is compared only with the one that reaches
 * furthest. If it meets another one, that one has met the furthest one before and is
 * marked already. */
static void sharing_check(struct check *k, const struct ck_tensor *t)
{
	uint32_t n = t->nchunks > 1 ? items_sort(k, t) : 0;
	const struct ck_item *reach = NULL;
	uint32_t furthest = 0; /* chunk of `reach` */

	for (uint32_t i = 0; i < n; i++) {
		uint32_t chunk = t->chunk + k->tiling.index[i];
		const struct ck_item *item = ck_catalog_item(k->c, chunk);
		bool same_file = reach && reach->file == item->file;

		if (same_file && item->fpos < item_end(reach)) {
			ck_catalog_own_item(k->c, chunk)->err = EIO;
			ck_catalog_own_item(k->c, furthest)->err = EIO;
		}
		if (!same_file || item_end(item) > item_end(reach)) {
			reach = item;
			furthest = chunk;
		}
	}
}

/* Returns the positive errno of an item of box i, or 0. */
static uint8_t item_fault(const struct ck_catalog *c, const struct ck_tensor *t,
			  uint32_t i, const struct ck_item *item)
{
	uint8_t err = ck_catalog_item_err(c, item);

	if (!err && !t->err && !ck_catalog_item_fits(c, t, i, item))
		return EBADMSG;
	return err;
}

/* Checks replicas. If the item of a box has a fault, its first replica without one
 * takes its place. */
static void replicas_check(struct ck_catalog *c, const struct ck_tensor *t)
{
	uint32_t n, first = ck_catalog_replicas(c, t->chunk, t->nchunks, &n);

	for (uint32_t k = first; k < first + n; k++) {
		uint32_t chunk = ck_catalog_replica(c, k)->chunk;
		struct ck_item *item = ck_catalog_own_item(c, chunk);
		struct ck_item *replica = &ck_catalog_own_replica(c, k)->item;
		struct ck_item swap = *item;
		uint32_t i = chunk - t->chunk;

		if (ck_tensor_box_is_empty(t, i))
			continue;
		replica->err = item_fault(c, t, i, replica);
		if (!item->err || replica->err)
			continue;
		*item = *replica;
		*replica = swap;
	}
}

/* Checks items, and changes only rows whose error changes: most rows have no error. */
static void items_check(struct check *k, const struct ck_tensor *t)
{
	struct ck_item_walk walk = { 0 };

	sharing_check(k, t);
	for (uint32_t i = 0; i < t->nchunks; i++) {
		const struct ck_item *item = ck_item_walk_to(&walk, k->c,
							     t->chunk + i);
		uint8_t err;

		if (ck_tensor_box_is_empty(t, i))
			continue;
		err = item_fault(k->c, t, i, item);
		if (err != item->err)
			ck_catalog_own_item(k->c, t->chunk + i)->err = err;
	}
	replicas_check(k->c, t);
}

/* --- rows ------------------------------------------------------------------------- */

static int tensor_finish(struct check *k, uint32_t tensor)
{
	struct ck_tensor *t = ck_catalog_own_tensor(k->c, tensor);
	int rc;

	items_check(k, t);
	rc = ck_catalog_tensor_renew(k->c, tensor, &k->c->caps->met);
	return rc ? rc : boxes_finish(k, t);
}

static int object_finish(struct check *k, uint32_t object)
{
	struct ck_object *o = ck_catalog_own_object(k->c, object);
	/* The catalog may change them while it is filled. */
	struct ck_item *items = (struct ck_item *)(uintptr_t)o->items;

	o->item.err = ck_catalog_item_err(k->c, &o->item);
	for (uint32_t i = 0; i < o->nitems; i++)
		items[i].err = ck_catalog_item_err(k->c, &items[i]);
	return ck_catalog_object_renew(k->c, object);
}

static int check_init(struct check *k, struct ck_catalog *c)
{
	uint32_t most = 0;

	*k = (struct check){ .c = c, .shared = STEPS_SHARED };
	for (uint32_t i = 0; i < c->tensors.n; i++)
		most = (uint32_t)ck_max(most, ck_catalog_tensor(c, i)->nchunks);
	return ck_tiling_init(&k->tiling, most);
}

int ck_catalog_check_added(struct ck_catalog *c, uint32_t tensor,
			   uint32_t *order, struct ck_diag *d)
{
	struct ck_tensor *t = ck_catalog_own_tensor(c, tensor);
	struct check k = { .c = c, .shared = STEPS_SHARED, .facts = *t->facts };
	struct fault f = { 0 };
	int rc = ck_tiling_init(&k.tiling, t->nchunks);

	if (rc)
		return rc;
	items_check(&k, t);
	order_find(&k, t);
	order_take(&k, t, order);
	boxes_judge(&k, t, &f);
	if (f.err)
		rc = ck_fail(d, EINVAL, "%s", f.text.data ? f.text.data : "?");
	ck_buf_fini(&f.text);
	ck_tiling_fini(&k.tiling);
	return rc ? rc : ck_tensor_facts_set(t, &k.facts, NULL);
}

int ck_catalog_check(struct ck_catalog *c)
{
	struct check k;
	int rc = check_init(&k, c);

	for (uint32_t i = 0; rc == 0 && i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		rc = tensor_finish(&k, i);
		if (ck_tensor_alias_of(t) == CK_NO_TENSOR &&
		    t->entry.role == CK_ROLE_WHOLE)
			ck_catalog_bytes_add(c, t->nbytes);
	}
	for (uint32_t i = 0; rc == 0 && i < c->objects.n; i++)
		rc = object_finish(&k, i);
	ck_tiling_fini(&k.tiling);
	return rc;
}
