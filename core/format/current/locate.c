/* SPDX-License-Identifier: MIT */
/*
 * locate: makes the layout of a tensor. It reads the header of the item of each box, and
 * compares it with the box. If the item has a fault, the first readable replica is used. The
 * layout is private to the calling thread until current_layout.c shares it. The functions
 * must be called without a lock. No strides are stored if the elements of all boxes lie in C
 * order without gaps, which is the usual case.
 */
#include "layout_internal.h"

#include <errno.h>

void ck_located_free(struct ck_located *l)
{
	struct ck_layout *layout;

	if (!l)
		return;
	layout = &l->layout;
	for (uint32_t i = 0; layout->extents && i < layout->n; i++)
		free((void *)(uintptr_t)layout->extents[i].memory);
	for (uint32_t i = 0; layout->faults && i < layout->n; i++)
		free(layout->faults[i]);
	free(layout->faults);
	free(layout->extents);
	free(layout->strides);
	free(l->of_window);
	ck_owned_put(l->owner);
	free(l);
}

/* --- the fault of a box --------------------------------------------------------- */

/* Stores the fault of box k, for ck_box_has_fault(). */
static int keep_fault(struct ck_layout *layout, uint32_t k,
		      const struct ck_diag *d)
{
	struct ck_str what = ck_diag_what(d);
	size_t expected = strlen(d->expected) + 1, found = strlen(d->found) + 1;
	struct ck_box_fault *f =
		malloc(sizeof(*f) + what.len + expected + found);
	char *p;

	if (!layout->faults)
		layout->faults = calloc(layout->n, sizeof(f));
	if (!layout->faults || !f) {
		free(f);
		return -ENOMEM;
	}
	p = (char *)(f + 1);
	*f = (struct ck_box_fault){ .what = { p, what.len } };
	memcpy(p, what.p, what.len);
	memcpy(p + what.len, d->expected, expected);
	memcpy(p + what.len + expected, d->found, found);
	if (expected > 1 || found > 1) {
		f->expected = p + what.len;
		f->found = f->expected + expected;
	}
	layout->faults[k] = f;
	return 0;
}

/* Stores the error of locating box k. Only a permanent fault makes the layout faulty. A
 * transient error is logged by the read that returns it. */
static int take_fault(struct ck_located *l, uint32_t k, const struct ck_diag *d)
{
	struct ck_extent *extent = &l->layout.extents[k];

	extent->err = (uint16_t)d->err;
	extent->transient = d->transient;
	l->layout.transient |= d->transient;
	l->layout.faulty |= !d->transient;
	l->keep &= !d->transient && ck_is_lasting(-d->err);
	return keep_fault(&l->layout, k, d);
}

/* --- strides -------------------------------------------------------------------- */

static const uint64_t *size_of(const struct ck_layout *layout, uint32_t k)
{
	return (const uint64_t *)layout->boxes +
	       ((size_t)2 * k + 1) * layout->ndim;
}

/* Computes strides of elements in C order without gaps. */
static void strides_dense(const struct ck_layout *layout, uint32_t k,
			  uint64_t *out)
{
	const uint64_t *size = size_of(layout, k);
	uint64_t stride = ck_dtype_at(layout->dtype)->size;

	for (uint32_t d = layout->ndim; d > 0 && d--;) {
		out[d] = stride;
		stride *= size[d];
	}
}

static bool is_dense(const struct ck_layout *layout, uint32_t k,
		     const uint64_t *strides)
{
	const uint64_t *size = size_of(layout, k);
	uint64_t stride = ck_dtype_at(layout->dtype)->size;

	for (uint32_t d = layout->ndim; d > 0 && d--;) {
		if (size[d] != 1 && strides[d] != stride)
			return false;
		stride *= size[d];
	}
	return true;
}

/* Stores the strides of box k, which has elements. If all boxes are dense so far, nothing is
 * stored. */
static int keep_strides(struct ck_layout *layout, uint32_t k,
			const uint64_t *strides)
{
	size_t ndim = layout->ndim;

	if (!layout->strides && is_dense(layout, k, strides))
		return 0;
	if (!layout->strides) {
		layout->strides = calloc(layout->n * ndim + 1,
					 sizeof(*layout->strides));
		if (!layout->strides)
			return -ENOMEM;
		for (uint32_t i = 0; i < layout->n; i++)
			if (!ck_layout_box_is_empty(layout, i))
				strides_dense(layout, i,
					      layout->strides + i * ndim);
	}
	memcpy(layout->strides + k * ndim, strides, ndim * sizeof(*strides));
	return 0;
}

/* --- boxes ---------------------------------------------------------------------- */

/* The layout that is being made. */
struct locating {
	struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	const struct ck_tensor *t;
	struct ck_located *l;
	uint64_t *strides; /* buffer for the strides of one box */
	bool waits;	   /* remote ranges must be fetched first */
};

static uint32_t chunk_of(const struct locating *at, uint32_t k)
{
	return at->t->chunk + ck_layout_chunk(&at->l->layout, k);
}

/* Locates the elements of box k in one of its items. Only an archive must be read for
 * that. */
static int locate_in(const struct locating *at, uint32_t k,
		     const struct ck_item *item, struct ck_diag *d)
{
	const struct ck_layout *layout = &at->l->layout;
	struct ck_extent *extent = &layout->extents[k];
	const uint64_t *known;

	*extent = (struct ck_extent){ .file = item->file };
	if (item->form == CK_FORM_ARCHIVE || item->form == CK_FORM_WITHIN)
		return ck_archive_locate(at->cp, at->c, at->t,
					 ck_layout_chunk(layout, k), item,
					 extent, at->strides, d);
	extent->pos = item->fpos;
	extent->change = item->change;
	known = ck_catalog_strides(at->c, chunk_of(at, k));
	if (!known || item->form == CK_FORM_BLOB)
		strides_dense(layout, k, at->strides);
	else if (at->t->ndim)
		memcpy(at->strides, known, at->t->ndim * sizeof(*known));
	return 0;
}

/* Locates box k in its first replica that can be read. Returns 0, or: rc, the error of the
 * first item, if no replica can be read; -EREMOTE; shortages of this process. */
static int locate_replica(const struct locating *at, uint32_t k, int rc)
{
	uint32_t n, first = ck_catalog_replicas(at->c, chunk_of(at, k), 1, &n);

	for (uint32_t i = first; i < first + n; i++) {
		const struct ck_replica *r = ck_catalog_replica(at->c, i);
		struct ck_diag d = { 0 };
		int replica;

		if (r->item.err)
			continue;
		replica = locate_in(at, k, &r->item, &d);
		if (replica == 0 || replica == -EREMOTE ||
		    ck_is_shortage(replica))
			return replica;
	}
	return rc;
}

/* Locates box k. A fault is stored in its extent. Returns 0, or a shortage of this process. */
static int locate(struct locating *at, uint32_t k)
{
	const struct ck_item *item = ck_catalog_item(at->c, chunk_of(at, k));
	struct ck_located *l = at->l;
	struct ck_extent *extent = &l->layout.extents[k];
	struct ck_diag d = { 0 };
	int rc;

	/* A box without elements may have no item: it needs no file. */
	extent->file = CK_NO_FILE;
	if (ck_layout_box_is_empty(&l->layout, k))
		return 0;
	rc = item->err ? -item->err : locate_in(at, k, item, &d);
	if (rc && rc != -EREMOTE && !ck_is_shortage(rc))
		rc = locate_replica(at, k, rc);
	at->waits |= rc == -EREMOTE;
	if (rc == -EREMOTE)
		return 0;
	if (ck_is_shortage(rc))
		return rc;
	if (rc)
		*extent = (struct ck_extent){ .file = item->file,
					      .err = item->err };
	if (rc && item->err) {
		l->layout.faulty = true;
		return 0;
	}
	if ((rc == 0 || !d.transient) && at->t->entry.role != CK_ROLE_COPY &&
	    item->form != CK_FORM_WITHIN)
		ck_items_read_box(at->cp, chunk_of(at, k));
	d.err = -rc;
	if (rc)
		return take_fault(l, k, &d);
	l->layout.change |= extent->change;
	l->keep &= !extent->memory;
	return keep_strides(&l->layout, k, at->strides);
}

/* True if an older layout of the same boxes has located box k, and the ctime of its file has
 * not changed since. */
static bool is_known(const struct ck_checkpoint *cp,
		     const struct ck_located *old, uint32_t k)
{
	const struct ck_extent *x = old ? &old->layout.extents[k] : NULL;

	return x && !x->err && !x->memory &&
	       !ck_layout_box_is_empty(&old->layout, k) &&
	       ck_files_touched(cp->files, x->file) <=
		       ck_layout_touches(&old->layout);
}

/* Copies box k from an older layout. */
static int reuse(const struct locating *at, const struct ck_located *old,
		 uint32_t k)
{
	const struct ck_layout *from = &old->layout;
	struct ck_located *l = at->l;

	l->layout.extents[k] = from->extents[k];
	l->layout.change |= from->extents[k].change;
	if (!from->strides)
		strides_dense(from, k, at->strides);
	else if (from->ndim)
		memcpy(at->strides, from->strides + (size_t)k * from->ndim,
		       from->ndim * sizeof(*at->strides));
	return keep_strides(&l->layout, k, at->strides);
}

static int locate_all(struct locating *at, const struct ck_located *old)
{
	struct ck_layout *layout = &at->l->layout;
	int rc = 0;

	layout->extents = calloc(layout->n + 1UL, sizeof(*layout->extents));
	at->strides = calloc(layout->ndim + 1UL, sizeof(*at->strides));
	if (!layout->extents || !at->strides)
		rc = -ENOMEM;
	for (uint32_t k = 0; rc == 0 && k < layout->n; k++)
		rc = is_known(at->cp, old, k) ? reuse(at, old, k)
					      : locate(at, k);
	free(at->strides);
	return rc == 0 && at->waits ? -EREMOTE : rc;
}

/* --- choosing boxes -------------------------------------------------------------- */

/* Restricts the layout to the boxes that a window touches, sorted by offsets. */
static int narrow(struct ck_located *l, const struct ck_catalog *c,
		  const uint64_t *window)
{
	struct ck_layout *layout = &l->layout;
	const struct ck_tensor *t = ck_catalog_tensor(c, layout->tensor);
	size_t box = (size_t)2 * layout->ndim;
	ck_auto_free uint32_t *chunks = NULL;
	uint32_t *order, *numbers;
	int64_t *boxes;
	bool covered;
	int rc = ck_tensor_window(t, window, &chunks, &layout->n, &covered);

	if (rc)
		return rc;
	boxes = malloc(layout->n * (box * sizeof(*boxes) + 2 * sizeof(*order)) +
		       1);
	if (!boxes)
		return -ENOMEM;
	l->of_window = boxes;
	order = (uint32_t *)(boxes + layout->n * box);
	numbers = order + layout->n;
	for (uint32_t k = 0; k < layout->n; k++) {
		if (box)
			memcpy(boxes + k * box, ck_tensor_box(t, chunks[k]),
			       box * sizeof(*boxes));
		order[k] = k;
		numbers[k] = chunks[k];
	}
	layout->boxes = boxes;
	layout->order = order;
	layout->chunks = numbers;
	layout->faulty = !covered;
	return 0;
}

/* Fills the layout with the boxes of the tensor or the window, without their extents. */
static int choose(const struct ck_catalog *c, uint32_t tensor,
		  const uint64_t *window, struct ck_located *l)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	l->keep = true;
	l->owner = ck_tensor_hold(t);
	l->layout = (struct ck_layout){
		.tensor = tensor,
		.version = t->facts->version,
		.ndim = t->ndim,
		.dtype = t->dtype,
		.err = t->err,
		.faulty = t->holes || t->err,
		.hole = c->partly ? EIO : ENODATA,
		/* No item is read for a tensor that cannot be served. */
		.n = t->err ? 0 : t->nchunks,
		.shape = (const uint64_t *)t->shape,
		.boxes = ck_tensor_box(t, 0),
		.order = t->facts->order,
	};
	return window && !t->err ? narrow(l, c, window) : 0;
}

int ck_locate(struct ck_checkpoint *cp, const struct ck_catalog *c,
	      uint32_t tensor, const uint64_t *window,
	      const struct ck_located *old, struct ck_located **out)
{
	struct locating at = { .cp = cp,
			       .c = c,
			       .t = ck_catalog_tensor(c, tensor),
			       .l = calloc(1, sizeof(*at.l)) };
	uint64_t touches = ck_files_touches(cp->files);
	int rc = at.l ? choose(c, tensor, window, at.l) : -ENOMEM;

	if (rc == 0)
		at.l->layout.touches = touches;
	if (rc == 0)
		rc = locate_all(&at, old);
	if (rc)
		ck_located_free(at.l);
	else
		*out = at.l;
	return rc;
}
