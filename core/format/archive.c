/* SPDX-License-Identifier: MIT */
/*
 * archive: where the elements of a box are in an item that is an archive of torch.save, whatever
 * format names it.
 */
#include "item/item.h"
#include "item/stored.h"
#include "layout_internal.h"

static struct ck_item_want want_of(const struct ck_tensor *t, uint32_t i)
{
	return (struct ck_item_want){
		.dtype = t->dtype,
		.ndim = t->ndim,
		.size = ck_tensor_box(t, i) + t->ndim,
	};
}

/* Bytes of a box; the catalog has checked that they can be counted. */
static uint64_t box_bytes(const struct ck_item_want *want)
{
	uint64_t bytes = ck_dtype_at(want->dtype)->size;

	for (uint32_t dim = 0; dim < want->ndim; dim++)
		bytes *= (uint64_t)want->size[dim];
	return bytes;
}

/* Holds the item in memory, its stream transforms undone. */
static int locate_transformed(struct ck_stored *item, struct ck_str transforms,
			      const struct ck_item_want *want,
			      struct ck_extent *extent, uint64_t *strides,
			      struct ck_diag *d)
{
	ck_auto_free void *out = NULL;
	struct ck_zip_source src;
	uint16_t change = 0;
	size_t len;
	int rc = ck_stored_undo(item, transforms,
				ck_undone_box(box_bytes(want)), &out, &len, d);

	if (rc)
		return rc;
	src = ck_source_memory(out, len);
	rc = ck_item_locate(&src, want, &extent->pos, strides, &change, d);
	extent->change = (uint8_t)change;
	if (rc == 0)
		extent->memory = ck_steal(&out);
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

int ck_archive_locate(struct ck_checkpoint *cp, const struct ck_catalog *c,
		      const struct ck_tensor *t, uint32_t i,
		      const struct ck_item *item, struct ck_extent *extent,
		      uint64_t *strides, struct ck_diag *d)
{
	struct ck_item_want want = want_of(t, i);
	struct ck_stored stored;
	int rc;

	do {
		rc = ck_stored_get(cp->files, item, &stored, d);
		if (rc)
			break;
		rc = locate_in(&stored, transforms_of(c, item), &want, extent,
			       strides, d);
		rc = ck_stored_put(&stored, rc, d);
		if (rc) { /* its file may be another one since it was read */
			free((void *)(uintptr_t)extent->memory);
			extent->memory = NULL;
		}
	} while (stored.again);
	return rc;
}
