/* SPDX-License-Identifier: MIT */
/*
 * pieces: a rank's file has its part of a flat parameter of FSDP1, and its pieces of the
 * parameters in it, too. A sidecar that does not fit makes other elements of the one than the
 * other has.
 */
#include "replicas_internal.h"

/* What a file has of a parameter that a sidecar makes, which is a run of its elements. */
struct run {
	uint64_t first, end, count;
};

/* Where a box, which is a run, begins among the elements of its tensor; how many it has. */
static uint64_t box_begin(const struct ck_tensor *t, uint32_t i,
			  uint64_t *count)
{
	const int64_t *box = ck_tensor_box(t, i);
	uint64_t begin = 0;

	*count = 1;
	for (uint32_t d = 0; d < t->ndim; d++) {
		begin = begin * (uint64_t)t->shape[d] + (uint64_t)box[d];
		*count *= (uint64_t)box[t->ndim + d];
	}
	return begin;
}

static bool is_in_file(const struct ck_catalog *c, uint32_t chunk,
		       uint32_t file)
{
	uint32_t first, n;
	bool found = ck_catalog_item(c, chunk)->file == file;

	first = ck_catalog_replicas(c, chunk, 1, &n);
	for (uint32_t i = first; i < first + n && !found; i++)
		found = ck_catalog_replica(c, i)->item.file == file;
	return found;
}

static struct run run_of(const struct ck_catalog *c, const struct ck_tensor *t,
			 uint32_t file)
{
	struct run run = { .first = UINT64_MAX };

	for (uint32_t i = 0; i < t->nchunks; i++) {
		uint64_t count, begin = box_begin(t, i, &count);

		if (!is_in_file(c, t->chunk + i, file))
			continue;
		run.first = ck_min(run.first, begin);
		run.end = ck_max(run.end, begin + count);
		run.count += count;
	}
	return run;
}

/* Box i of the parameter, with the elements of the piece from `at` on. 1: others; 0: the same,
 * or one of them cannot be read. */
static int part_compare(struct ck_comparing *k, const struct ck_tensor *t,
			uint32_t i, const struct ck_tensor *piece, uint64_t at)
{
	const struct ck_item *x = ck_catalog_item(k->c, t->chunk + i);
	const struct ck_item *y = ck_catalog_item(k->c, piece->chunk);
	uint64_t bytes = ck_tensor_box_bytes(t, i), count;
	uint64_t size = ck_dtype_at(t->dtype)->size;
	int64_t box[2] = { (int64_t)at, 0 };
	int rc;

	(void)box_begin(t, i, &count);
	box[1] = (int64_t)count;
	if (x->err || y->err || bytes == 0 ||
	    (x->file == y->file && x->fpos == y->fpos + at * size))
		return 0;
	rc = ck_side_open(&k->shown, t->entry.number, ck_tensor_box(t, i),
			  bytes);
	if (rc == 0)
		rc = ck_side_open(&k->other, piece->entry.number, box, bytes);
	if (rc == 0)
		rc = ck_bytes_compare(k, bytes);
	ck_side_close(&k->shown);
	ck_side_close(&k->other);
	return rc;
}

int ck_piece_compare(struct ck_comparing *k, const struct ck_tensor *t,
		     const struct ck_tensor *piece)
{
	uint32_t file = ck_catalog_item(k->c, piece->chunk)->file;
	struct run run = run_of(k->c, t, file);
	uint64_t have = (uint64_t)piece->shape[0];
	int rc = run.count != have || piece->dtype != t->dtype ||
		 (have && run.end - run.first != have);

	for (uint32_t i = 0; i < t->nchunks && have && rc == 0; i++) {
		uint64_t count, begin = box_begin(t, i, &count);

		if (is_in_file(k->c, t->chunk + i, file))
			rc = part_compare(k, t, i, piece, begin - run.first);
	}
	return rc > 0 ? ck_differing_add(k, file) : rc;
}

const struct ck_tensor *ck_piece_at(const struct ck_catalog *c,
				    const struct ck_tensor *t,
				    const struct ck_same_name *same)
{
	const struct ck_tensor *p;

	if (same->id.is_object || t->entry.role != CK_ROLE_WHOLE || t->err)
		return NULL;
	p = ck_catalog_tensor(c, same->id.i);
	return p->entry.role == CK_ROLE_OWN && !p->err && p->ndim == 1 &&
			       p->nchunks == 1
		       ? p
		       : NULL;
}
