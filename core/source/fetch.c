/* SPDX-License-Identifier: MIT */
/*
 * fetch: the ranges of remote files that one request needs. Ranges begin as
 * wanted; once fetched, they are sorted by file and position and found by a
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

/* Orders by file and position; of ranges with one position, the longest is
 * last. */
static int range_cmp(const void *a, const void *b)
{
	const struct ck_fetch_range *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->fpos != y->fpos)
		return x->fpos < y->fpos ? -1 : 1;
	return (x->len > y->len) - (x->len < y->len);
}

/* The last fetched range that begins at fpos or before, or NULL. */
static const struct ck_fetch_range *range_before(const struct ck_fetch *f,
						 uint32_t file, uint64_t fpos)
{
	const struct ck_fetch_range key = { .file = file,
					    .fpos = fpos,
					    .len = SIZE_MAX };
	size_t lo = CK_COUNT_BEFORE(f->complete, i,
				    range_cmp(&f->ranges[i], &key) <= 0);

	return lo && f->ranges[lo - 1].file == file ? &f->ranges[lo - 1] : NULL;
}

static bool has(const struct ck_fetch_range *p, uint32_t file, uint64_t fpos,
		size_t len)
{
	return p->file == file && fpos >= p->fpos && fpos - p->fpos <= p->len &&
	       len <= p->len - (fpos - p->fpos);
}

/* A fetched range that contains the given one, or NULL. A fetched range that
 * begins earlier and is longer may be missed: then the given range is fetched
 * separately, once. */
static const struct ck_fetch_range *range_find(const struct ck_fetch *f,
					       uint32_t file, uint64_t fpos,
					       size_t len)
{
	const struct ck_fetch_range *p = range_before(f, file, fpos);

	return p && has(p, file, fpos, len) ? p : NULL;
}

/* True if one of the last wanted ranges contains this one: a reader of an item
 * first requests both ends of the item. */
static bool is_wanted(const struct ck_fetch *f, uint32_t file, uint64_t fpos,
		      size_t len)
{
	enum { LAST = 4 };

	for (size_t i = f->n; i > f->complete && f->n - i < LAST; i--)
		if (has(&f->ranges[i - 1], file, fpos, len))
			return true;
	return false;
}

void ck_fetch_add(struct ck_fetch *f, uint32_t file, uint64_t fpos, size_t len)
{
	struct ck_fetch_range *ranges;
	uint8_t *bytes;

	if (len == 0 || range_find(f, file, fpos, len) ||
	    is_wanted(f, file, fpos, len))
		return;
	ranges = ck_grow(f->ranges, &f->cap, f->n, 1, sizeof(*ranges));
	bytes = ranges ? malloc(len) : NULL;
	if (ranges)
		f->ranges = ranges;
	if (!bytes) {
		f->err = -ENOMEM;
		return;
	}
	f->ranges[f->n++] = (struct ck_fetch_range){
		.file = file, .fpos = fpos, .len = len, .bytes = bytes
	};
	f->bytes += len;
}

bool ck_fetch_has(const struct ck_fetch *f, uint32_t file, uint64_t fpos,
		  size_t len)
{
	return range_find(f, file, fpos, len);
}

int ck_fetch_take(const struct ck_fetch *f, uint32_t file, uint64_t fpos,
		  size_t len, void *to)
{
	const struct ck_fetch_range *p;

	if (len == 0)
		return 0;
	p = range_find(f, file, fpos, len);
	if (!p)
		return -EREMOTE;
	if (p->rc == 0)
		memcpy(to, p->bytes + (fpos - p->fpos), len);
	return p->rc;
}

void ck_fetch_complete(struct ck_fetch *f)
{
	if (f->n)
		qsort(f->ranges, f->n, sizeof(*f->ranges), range_cmp);
	f->complete = f->n;
	f->rounds++;
}

void ck_fetch_forget_failed(struct ck_fetch *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->ranges[i].rc == 0 && i < f->complete) {
			f->ranges[n++] = f->ranges[i];
			continue;
		}
		f->bytes -= f->ranges[i].len;
		free(f->ranges[i].bytes);
	}
	f->n = f->complete = n;
}

void ck_fetch_fini(struct ck_fetch *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->ranges[i].bytes);
	free(f->ranges);
	*f = (struct ck_fetch){ 0 };
}
