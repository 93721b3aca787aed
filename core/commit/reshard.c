/* SPDX-License-Identifier: MIT */
/*
 * reshard: maps the elements that a program writes to boxes. It uses the request of a
 * read in reverse. Fortran order of a shape is C order of the reversed shape, so
 * shapes, boxes and strides are reversed then. Bytes of the other byte order are
 * reversed within each number, also if a write ends inside a number. A struct ck_cutter
 * is used by one thread at a time.
 */
#include "commit_internal.h"

#include <errno.h>

struct sorting {
	const int64_t *boxes;
	uint32_t ndim;
};

static int compare_offsets(const void *a, const void *b, void *arg)
{
	const struct sorting *s = arg;
	const int64_t *x = s->boxes + *(const uint32_t *)a * 2UL * s->ndim;
	const int64_t *y = s->boxes + *(const uint32_t *)b * 2UL * s->ndim;

	for (uint32_t i = 0; i < s->ndim; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

/* The arrays of a request, in one allocation each. */
struct arrays {
	uint64_t *off, *size, *strides;
	int64_t *boxes;
	uint32_t *order;
};

static bool arrays_make(struct arrays *a, struct ck_cutter *k, uint32_t n,
			uint32_t ndim)
{
	size_t dims = ndim ? ndim : 1, chunks = n ? n : 1;

	a->off = calloc(dims, sizeof(*a->off));
	a->size = calloc(dims, sizeof(*a->size));
	a->strides = calloc(chunks * dims, sizeof(*a->strides));
	a->boxes = calloc(chunks * 2 * dims, sizeof(*a->boxes));
	a->order = calloc(chunks, sizeof(*a->order));
	k->places = calloc(chunks, sizeof(*k->places));
	k->request.off = a->off;
	k->request.size = a->size;
	k->request.strides = a->strides;
	k->request.boxes = a->boxes;
	k->request.order = a->order;
	return a->off && a->size && a->strides && a->boxes && a->order &&
	       k->places;
}

/* Sets the box of a chunk, and the strides of its new item. */
static void fill_chunk(const struct arrays *a, uint32_t i, const int64_t *box,
		       uint32_t ndim, uint32_t item, bool fortran)
{
	int64_t *to = a->boxes + i * 2UL * ndim;
	uint64_t stride = item;

	for (uint32_t d = ndim; d > 0 && d--;) {
		uint32_t at = fortran ? ndim - 1 - d : d;

		to[at] = box[d];
		to[ndim + at] = box[ndim + d];
		a->strides[i * (size_t)ndim + at] = stride;
		stride *= (uint64_t)box[ndim + d];
	}
}

/* Sets the extent of the file: the whole tensor, or one box of it. */
static void fill_extent(const struct arrays *a, const int64_t *off,
			const int64_t *size, uint32_t ndim, bool fortran)
{
	for (uint32_t d = 0; d < ndim; d++) {
		uint32_t at = fortran ? ndim - 1 - d : d;

		a->off[at] = off ? (uint64_t)off[d] : 0;
		a->size[at] = (uint64_t)size[d];
	}
}

int ck_cutter_make(struct ck_cutter *k, const struct ck_catalog *c,
		   uint32_t tensor, uint32_t box, bool fortran, bool swapped)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	const struct ck_dtype *dtype = ck_dtype_at(t->dtype);
	bool whole = box == CK_ALL_BOXES;
	uint32_t first = whole ? 0 : box;
	uint32_t n = whole ? t->nchunks : 1;
	const int64_t *only = ck_tensor_box(t, first);
	struct arrays a;

	*k = (struct ck_cutter){ .unit = swapped ? dtype->unit : 1 };
	k->request.ndim = t->ndim;
	k->request.item = dtype->size;
	k->request.nchunks = n;
	if (!arrays_make(&a, k, n, t->ndim)) {
		ck_cutter_fini(k);
		return -ENOMEM;
	}
	if (whole)
		fill_extent(&a, NULL, t->shape, t->ndim, fortran);
	else
		fill_extent(&a, only, only + t->ndim, t->ndim, fortran);
	for (uint32_t i = 0; i < n; i++) {
		fill_chunk(&a, i, ck_tensor_box(t, first + i), t->ndim,
			   dtype->size, fortran);
		a.order[i] = i;
	}
	qsort_r(a.order, n, sizeof(*a.order), compare_offsets,
		&(struct sorting){ a.boxes, t->ndim });
	return 0;
}

void ck_cutter_aim(struct ck_cutter *k, struct ck_cuts *cuts, uint32_t first)
{
	for (uint32_t i = 0; i < cuts->n; i++) {
		const struct ck_cut *cut = &cuts->cuts[i];

		k->places[cut->chunk - first] = (struct ck_place){
			.target = &cuts->rooms[cut->shard].target,
			.fpos = cut->fpos + cut->form.head.len,
		};
	}
}

void ck_cutter_fini(struct ck_cutter *k)
{
	free((void *)(uintptr_t)k->request.off);
	free((void *)(uintptr_t)k->request.size);
	free((void *)(uintptr_t)k->request.strides);
	free((void *)(uintptr_t)k->request.boxes);
	free((void *)(uintptr_t)k->request.order);
	free(k->places);
	*k = (struct ck_cutter){ 0 };
}

/* --- placing ----------------------------------------------------------------- */

static int place(struct ck_cutter *k, uint64_t pos, const void *bytes,
		 uint64_t len)
{
	if (len == 0)
		return 0;
	k->request.begin = pos;
	k->request.end = pos + len;
	return ck_host_scatter(&k->request, k->places, bytes);
}

/* Places bytes of an incomplete number one by one. */
static int place_piece(struct ck_cutter *k, uint64_t pos, const uint8_t *bytes,
		       uint64_t len)
{
	int rc = 0;

	for (uint64_t i = 0; i < len && !rc; i++) {
		uint64_t in = (pos + i) % k->unit;

		rc = place(k, pos + i - in + k->unit - 1 - in, bytes + i, 1);
	}
	return rc;
}

static int place_swapped(struct ck_cutter *k, uint64_t pos,
			 const uint8_t *bytes, uint64_t len)
{
	ck_auto_free uint8_t *turned = malloc(len);

	if (!turned)
		return -ENOMEM;
	for (uint64_t i = 0; i < len; i++)
		turned[i - i % k->unit + k->unit - 1 - i % k->unit] = bytes[i];
	return place(k, pos, turned, len);
}

int ck_cutter_place(struct ck_cutter *k, uint64_t pos, const void *bytes,
		    uint64_t len)
{
	const uint8_t *p = bytes;
	uint64_t lead, whole;
	int rc;

	if (k->unit <= 1)
		return place(k, pos, bytes, len);
	lead = ck_min((k->unit - pos % k->unit) % k->unit, len);
	whole = (len - lead) / k->unit * k->unit;
	rc = place_piece(k, pos, p, lead);
	if (rc == 0 && whole)
		rc = place_swapped(k, pos + lead, p + lead, whole);
	if (rc == 0)
		rc = place_piece(k, pos + lead + whole, p + lead + whole,
				 len - lead - whole);
	return rc;
}

/* --- reading back ------------------------------------------------------------ */

static int fetch(struct ck_cutter *k, uint64_t pos, void *bytes, uint64_t len)
{
	k->request.begin = pos;
	k->request.end = pos + len;
	return ck_host_collect(&k->request, k->places, bytes);
}

/* Reads whole numbers, and reverses their bytes. */
static int fetch_swapped(struct ck_cutter *k, uint64_t pos, uint8_t *bytes,
			 uint64_t len)
{
	uint64_t begin = pos - pos % k->unit;
	uint64_t end = (pos + len + k->unit - 1) / k->unit * k->unit;
	ck_auto_free uint8_t *numbers = malloc(end - begin);
	int rc = numbers ? fetch(k, begin, numbers, end - begin) : -ENOMEM;

	for (uint64_t at = pos; rc == 0 && at < pos + len; at++)
		bytes[at - pos] = numbers[at - begin - at % k->unit + k->unit -
					  1 - at % k->unit];
	return rc;
}

int ck_cutter_fetch(struct ck_cutter *k, uint64_t pos, void *bytes,
		    uint64_t len)
{
	if (len == 0)
		return 0;
	return k->unit <= 1 ? fetch(k, pos, bytes, len)
			    : fetch_swapped(k, pos, bytes, len);
}
