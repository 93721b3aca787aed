/* SPDX-License-Identifier: MIT */
/*
 * fetch: the ranges of remote files that one request needs. Ranges begin as
 * wanted; once brought, they are sorted by file and position and found by a
 * binary search. A thread has a stack of struct ck_fetch, the innermost of
 * which records its reads. One thread at a time for each struct ck_fetch.
 */
#include "fetch.h"
#include "ckptfs/table.h"

#include <errno.h>

static _Thread_local struct ck_fetch *present;

void ck_fetch_begin(struct ck_fetch *f)
{
	f->outer = present;
	present = f;
}

void ck_fetch_end(struct ck_fetch *f)
{
	present = f->outer;
	f->outer = NULL;
}

struct ck_fetch *ck_fetch_present(void)
{
	return present;
}

/* Orders by file and position; of pieces with one position, the longest is
 * last. */
static int piece_cmp(const void *a, const void *b)
{
	const struct ck_piece *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->fpos != y->fpos)
		return x->fpos < y->fpos ? -1 : 1;
	return (x->len > y->len) - (x->len < y->len);
}

/* The last brought piece that begins at fpos or before, or NULL. */
static const struct ck_piece *piece_before(const struct ck_fetch *f,
					   uint32_t file, uint64_t fpos)
{
	const struct ck_piece key = { .file = file,
				      .fpos = fpos,
				      .len = SIZE_MAX };
	size_t lo = CK_COUNT_BEFORE(f->brought, i,
				    piece_cmp(&f->pieces[i], &key) <= 0);

	return lo && f->pieces[lo - 1].file == file ? &f->pieces[lo - 1] : NULL;
}

static bool has(const struct ck_piece *p, uint32_t file, uint64_t fpos,
		size_t len)
{
	return p->file == file && fpos >= p->fpos && fpos - p->fpos <= p->len &&
	       len <= p->len - (fpos - p->fpos);
}

/* A brought piece that contains the range, or NULL. A piece that begins earlier
 * and is longer may be missed: then the range is fetched separately, once. */
static const struct ck_piece *piece_find(const struct ck_fetch *f,
					 uint32_t file, uint64_t fpos,
					 size_t len)
{
	const struct ck_piece *p = piece_before(f, file, fpos);

	return p && has(p, file, fpos, len) ? p : NULL;
}

/* True if one of the last wanted pieces contains the range: a reader of an item
 * first requests both ends of the item. */
static bool is_wanted(const struct ck_fetch *f, uint32_t file, uint64_t fpos,
		      size_t len)
{
	enum { LAST = 4 };

	for (size_t i = f->n; i > f->brought && f->n - i < LAST; i--)
		if (has(&f->pieces[i - 1], file, fpos, len))
			return true;
	return false;
}

void ck_fetch_want(struct ck_fetch *f, uint32_t file, uint64_t fpos, size_t len)
{
	struct ck_piece *pieces;
	uint8_t *bytes;

	if (len == 0 || piece_find(f, file, fpos, len) ||
	    is_wanted(f, file, fpos, len))
		return;
	pieces = ck_grow(f->pieces, &f->cap, f->n, 1, sizeof(*pieces));
	bytes = pieces ? malloc(len) : NULL;
	if (pieces)
		f->pieces = pieces;
	if (!bytes) {
		f->err = -ENOMEM;
		return;
	}
	f->pieces[f->n++] = (struct ck_piece){
		.file = file, .fpos = fpos, .len = len, .bytes = bytes
	};
	f->bytes += len;
}

bool ck_fetch_has(const struct ck_fetch *f, uint32_t file, uint64_t fpos,
		  size_t len)
{
	return piece_find(f, file, fpos, len);
}

int ck_fetch_take(const struct ck_fetch *f, uint32_t file, uint64_t fpos,
		  size_t len, void *to)
{
	const struct ck_piece *p;

	if (len == 0)
		return 0;
	p = piece_find(f, file, fpos, len);
	if (!p)
		return -EREMOTE;
	if (p->rc == 0)
		memcpy(to, p->bytes + (fpos - p->fpos), len);
	return p->rc;
}

void ck_fetch_came(struct ck_fetch *f)
{
	if (f->n)
		qsort(f->pieces, f->n, sizeof(*f->pieces), piece_cmp);
	f->brought = f->n;
	f->rounds++;
}

void ck_fetch_forget_failed(struct ck_fetch *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->pieces[i].rc == 0 && i < f->brought) {
			f->pieces[n++] = f->pieces[i];
			continue;
		}
		f->bytes -= f->pieces[i].len;
		free(f->pieces[i].bytes);
	}
	f->n = f->brought = n;
}

void ck_fetch_fini(struct ck_fetch *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->pieces[i].bytes);
	free(f->pieces);
	*f = (struct ck_fetch){ 0 };
}
