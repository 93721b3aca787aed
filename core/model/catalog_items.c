/* SPDX-License-Identifier: MIT */
/*
 * catalog_items: what few items have beside their place: strides, and replicas.
 * Both are lists sorted by chunk, since chunks are added in their order.
 */
#include "catalog_internal.h"
#include "ckptfs/fault.h"

#include <errno.h>
#include <stddef.h>

/* The first of n rows, each beginning with the number of its chunk, that is not
 * before `chunk`. */
static size_t row_at(const void *rows, size_t n, size_t size, uint32_t chunk)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		uint32_t at;

		memcpy(&at, (const char *)rows + mid * size, sizeof(at));
		if (at < chunk)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

_Static_assert(offsetof(struct ck_strided, chunk) == 0 &&
		       offsetof(struct ck_replica, chunk) == 0,
	       "rows begin with their chunk");

const uint64_t *ck_catalog_strides(const struct ck_catalog *c, uint32_t chunk)
{
	size_t i = row_at(c->strided, c->nstrided, sizeof(*c->strided), chunk);

	if (i == c->nstrided || c->strided[i].chunk != chunk)
		return NULL;
	return c->strides + c->strided[i].strides;
}

static size_t replica_at(const struct ck_catalog *c, uint32_t chunk)
{
	return row_at(c->replicas, c->nreplicas, sizeof(*c->replicas), chunk);
}

const struct ck_replica *ck_catalog_replicas(const struct ck_catalog *c,
					     uint32_t chunk, uint32_t n,
					     size_t *count)
{
	size_t first = replica_at(c, chunk);

	*count = replica_at(c, chunk + n) - first;
	return *count ? c->replicas + first : NULL;
}

void ck_catalog_replicas_drop(struct ck_catalog *c, uint32_t chunk)
{
	for (size_t i = replica_at(c, chunk);
	     i < c->nreplicas && c->replicas[i].chunk == chunk; i++)
		c->replicas[i].item = (struct ck_item){
			.file = CK_NO_FILE,
			.err = ENODATA,
		};
}

/* One past the last byte of a box's elements, from the first on; false: too far
 * to count. */
static bool span(const struct ck_tensor *t, const int64_t *size,
		 const uint64_t *strides, uint64_t *out)
{
	uint64_t way;

	*out = ck_dtype_at(t->dtype)->size;
	for (uint32_t d = 0; d < t->ndim; d++)
		if (!ck_mul(&way, (uint64_t)size[d] - 1, strides[d]) ||
		    !ck_add(out, *out, way))
			return false;
	return true;
}

bool ck_catalog_item_fits(const struct ck_catalog *c, const struct ck_tensor *t,
			  uint32_t i, const struct ck_item *item)
{
	const uint64_t *strides;
	uint64_t bytes;

	if (item->form == CK_FORM_ARCHIVE)
		return true;
	strides = ck_catalog_strides(c, t->chunk + i);
	bytes = ck_catalog_box_bytes(c, t, i);
	if (item->form == CK_FORM_BLOB)
		return item->length == bytes;
	if (strides &&
	    !span(t, ck_catalog_box(c, t, i) + t->ndim, strides, &bytes))
		return false;
	return bytes <= item->length;
}
