/* SPDX-License-Identifier: MIT */
/*
 * archive: locates the elements of a box in an item that is an archive of torch.save, for
 * all formats. An item of DCP may also be a blob, see blob.h. Headers of blobs and archives
 * without their stream transforms are cached by cp->blobs and cp->undones; there is no other
 * state. Any thread may call ck_archive_locate(), without a lock.
 */
#include "blob.h"
#include "format/item/item.h"
#include "format/item/stored.h"
#include "layout_internal.h"
#include "undone.h"

#include <errno.h>

static struct ck_item_want want_of(const struct ck_checkpoint *cp,
				   const struct ck_tensor *t, uint32_t i)
{
	return (struct ck_item_want){
		.dtype = t->dtype,
		.ndim = t->ndim,
		.size = ck_tensor_box(t, i) + t->ndim,
		.remarks = cp->remarks,
	};
}

/* Sets strides of C order. stride: bytes from one element to the next. */
static void strides_set(const struct ck_item_want *want, uint64_t stride,
			uint64_t *strides)
{
	for (uint32_t dim = want->ndim; dim > 0 && dim--;) {
		strides[dim] = stride;
		stride *= (uint64_t)want->size[dim];
	}
}

/* Undoes the stream transforms. Sets extent->memory to the bytes of the whole archive. */
static int locate_transformed(struct ck_stored *item, struct ck_str transforms,
			      const struct ck_item_want *want,
			      struct ck_extent *extent, uint64_t *strides,
			      struct ck_diag *d)
{
	struct ck_undone undone = { 0 };
	int rc = ck_archive_undo(item, transforms, want, &undone, strides, d);

	extent->memory = undone.bytes;
	extent->pos = undone.pos;
	extent->change = undone.change;
	return rc;
}

static int locate_in(struct ck_stored *item, struct ck_str transforms,
		     const struct ck_item_want *want, struct ck_extent *extent,
		     uint64_t *strides, struct ck_diag *d)
{
	struct ck_zip_source src;
	uint16_t change = 0;
	int rc;

	if (transforms.len)
		return locate_transformed(item, transforms, want, extent,
					  strides, d);
	src = ck_source_stored(item);
	rc = ck_item_locate(&src, want, &extent->pos, strides, &change, d);
	extent->change = (uint8_t)change;
	extent->pos += item->fpos;
	return rc;
}

static struct ck_str transforms_of(const struct ck_catalog *c,
				   const struct ck_item *chunk)
{
	if (!chunk->transform)
		return CK_STR("");
	return c->transforms[chunk->transform];
}

/* The box that an archive contains. Box i of a tensor is a run of its elements, or all. */
struct held {
	const struct ck_tensor *tensor;
	uint32_t box;
	const struct ck_within *in; /* the run; NULL: all elements */
};

static struct held held_of(const struct ck_catalog *c,
			   const struct ck_tensor *t, uint32_t i,
			   const struct ck_item *item)
{
	struct held h = { t, i, NULL };

	if (item->form != CK_FORM_WITHIN)
		return h;
	h.in = ck_catalog_within(c, t->chunk + i);
	h.tensor = ck_catalog_tensor(c, ck_catalog_tensor_of(c, h.in->of));
	h.box = h.in->of - h.tensor->chunk;
	return h;
}

/* True if an error may mean that the item is not an archive. */
static bool is_no_archive(int rc, const struct ck_diag *d)
{
	return (rc == -EBADMSG || rc == -ENODATA) && !d->transient;
}

/* Locates a run in an archive with stream transforms: sets extent->memory to a copy of the
 * elements of the run, without gaps. *undone: see ck_undone_get(). */
static int locate_run(struct ck_checkpoint *cp, const struct held *h,
		      const struct ck_item *item, struct ck_stored *stored,
		      struct ck_str transforms, const struct ck_item_want *box,
		      struct ck_extent *extent, struct ck_undone **undone,
		      struct ck_diag *d)
{
	const struct ck_item_want want = want_of(cp, h->tensor, h->box);
	uint64_t size = ck_dtype_at(box->dtype)->size;
	uint64_t bytes = ck_item_bytes(box);
	int rc = ck_undone_get(cp->undones, item, stored, transforms, &want,
			       undone, d);
	const uint8_t *from;
	uint8_t *run;

	if (rc)
		return rc;
	run = malloc(bytes);
	if (!run)
		return ck_fail_transient(d, ENOMEM, "out of memory");
	from = (*undone)->bytes + (*undone)->pos +
	       h->in->first * (*undone)->stride;
	if ((*undone)->stride == size)
		memcpy(run, from, bytes);
	else
		for (uint64_t at = 0; at < bytes;
		     at += size, from += (*undone)->stride)
			memcpy(run + at, from, size);
	extent->memory = run;
	extent->change = (*undone)->change;
	return 0;
}

/* Locates all elements of an archive; or only `run`, if stream transforms must be undone and
 * the box is a run. Repeats that if reads of the item fail over to a replica meanwhile. */
static int locate_held(struct ck_checkpoint *cp, const struct ck_catalog *c,
		       const struct held *h, const struct ck_item *item,
		       const struct ck_item_want *run, struct ck_extent *extent,
		       uint64_t *strides, struct ck_diag *d)
{
	struct ck_item_want want = want_of(cp, h->tensor, h->box);
	const struct ck_blob_want box = { h->tensor, h->box };
	struct ck_str transforms = transforms_of(c, item);
	struct ck_stored stored;
	int rc, found;

	do {
		struct ck_undone *undone = NULL;
		struct ck_blob *made = NULL;

		rc = ck_stored_get(cp->files, item, &stored, d);
		if (rc)
			break;
		rc = h->in && transforms.len
			     ? locate_run(cp, h, item, &stored, transforms, run,
					  extent, &undone, d)
			     : locate_in(&stored, transforms, &want, extent,
					 strides, d);
		if (is_no_archive(rc, d) && !item->transform) {
			strides_set(&want, ck_dtype_at(want.dtype)->size,
				    strides);
			rc = ck_blob_locate(cp, &stored, &box, rc, &extent->pos,
					    &made, d);
		}
		found = rc;
		rc = ck_stored_put(&stored, rc, d);
		ck_blobs_keep(cp, made, rc == found && !stored.again);
		ck_undones_keep(cp->undones, undone, rc == 0 && !stored.again);
		/* The bytes may be those of a file that was replaced. */
		if (rc) {
			free((void *)(uintptr_t)extent->memory);
			extent->memory = NULL;
		}
	} while (stored.again);
	return rc;
}

int ck_archive_locate(struct ck_checkpoint *cp, const struct ck_catalog *c,
		      const struct ck_tensor *t, uint32_t i,
		      const struct ck_item *item, struct ck_extent *extent,
		      uint64_t *strides, struct ck_diag *d)
{
	const struct held h = held_of(c, t, i, item);
	const struct ck_item_want box = want_of(cp, t, i);
	uint64_t stride = ck_dtype_at(box.dtype)->size;
	int rc = locate_held(cp, c, &h, item, &box, extent,
			     h.in ? &stride : strides, d);

	if (rc || !h.in)
		return rc;
	if (!extent->memory)
		extent->pos += h.in->first * stride;
	strides_set(&box, stride, strides);
	return 0;
}
