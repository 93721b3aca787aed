/* SPDX-License-Identifier: MIT */
/*
 * catalog_items: facts of few items: strides, locations inside an archive, and
 * replicas. They are lists sorted by chunk, because chunks are added in order. And the
 * number of ranks.
 */
#include "catalog_internal.h"
#include "ckptfs/table.h"
#include "fault.h"
#include "items.h"

#include <errno.h>

static int chunk_cmp(const void *key, const void *row)
{
	const uint32_t *a = key, *b = row;

	return *a < *b ? -1 : *a > *b;
}

/* Returns the row of a chunk, or NULL. A row begins with the number of its chunk. */
static const void *row_of(const void *rows, size_t n, size_t size,
			  uint32_t chunk)
{
	return n ? bsearch(&chunk, rows, n, size, chunk_cmp) : NULL;
}

const uint64_t *ck_catalog_strides(const struct ck_catalog *c, uint32_t chunk)
{
	const struct ck_strided *row = row_of(c->strided, c->nstrided,
					      sizeof(*row), chunk);

	return row ? c->strides + row->strides : NULL;
}

const struct ck_within *ck_catalog_within(const struct ck_catalog *c,
					  uint32_t chunk)
{
	return row_of(c->within, c->nwithin, sizeof(*c->within), chunk);
}

/* Returns the first replica of a chunk from this one on. */
static uint32_t replica_at(const struct ck_catalog *c, uint32_t chunk)
{
	return (uint32_t)CK_COUNT_BEFORE(
		c->replicas.n, i,
		ck_catalog_replica(c, (uint32_t)i)->chunk < chunk);
}

uint32_t ck_catalog_replicas(const struct ck_catalog *c, uint32_t chunk,
			     uint32_t n, uint32_t *count)
{
	uint32_t first = replica_at(c, chunk);

	*count = replica_at(c, chunk + n) - first;
	return first;
}

int ck_catalog_replicas_drop(struct ck_catalog *c, uint32_t chunk)
{
	uint32_t n, first = ck_catalog_replicas(c, chunk, 1, &n);

	for (uint32_t i = first; i < first + n; i++) {
		struct ck_replica *r = ck_catalog_own_replica(c, i);

		if (!r)
			return -ENOMEM;
		r->item = (struct ck_item){ .file = CK_NO_FILE,
					    .err = ENODATA };
	}
	return 0;
}

/* Sets *out to the bytes from the first element of a box to the end of the last one.
 * False if they overflow. */
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

	if (item->form == CK_FORM_ARCHIVE || item->form == CK_FORM_WITHIN)
		return true;
	strides = ck_catalog_strides(c, t->chunk + i);
	bytes = ck_tensor_box_bytes(t, i);
	if (item->form == CK_FORM_BLOB)
		return item->length == bytes;
	if (strides && !span(t, ck_tensor_box(t, i) + t->ndim, strides, &bytes))
		return false;
	return bytes <= item->length;
}

/* --- ranks -------------------------------------------------------------------------- */

static int rank_cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int ck_catalog_count_ranks(const struct ck_catalog *c, size_t *out)
{
	ck_auto_free uint64_t *ranks = calloc(c->files.n + 1UL, sizeof(*ranks));
	size_t n = 0;

	*out = 0;
	if (!ranks)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->files.n; i++)
		if ((ranks[n] = ck_catalog_file(c, i)->rank) != CK_NO_RANK)
			n++;
	qsort(ranks, n, sizeof(*ranks), rank_cmp);
	for (size_t i = 0; i < n; i++)
		*out += i == 0 || ranks[i] != ranks[i - 1];
	return 0;
}
