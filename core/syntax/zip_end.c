/* SPDX-License-Identifier: MIT */
/*
 * zip_end: reads bytes of an archive, and its end records. Reads go through
 * windows. A typical item needs two: its last 4 KiB (the directory) and its first
 * 4 KiB (data.pkl and most local headers); the other windows slide over the rest.
 * The state is that of the archive.
 *
 * The end records are the last part of an archive:
 *
 *   zip64 end record, zip64 locator	always by torch, optional here
 *   end record				the same numbers, as far as they fit
 */
#include "zip_internal.h"

#include <errno.h>
#include <inttypes.h>

enum {
	END64_SIG = 0x06064b50,
	LOCATOR_SIG = 0x07064b50,

	END_LEN = 22,
	END64_LEN = 56,
	LOCATOR_LEN = 20,

	LOCAL_STEP = 512, /* a descriptor and the next local header */
	DIR_STEP = 16384,
	END_SEARCH = END_LEN + UINT16_MAX, /* a comment may be this long */
};

/* --- bytes ----------------------------------------------------------------- */

void ck_zip_bytes_free(struct ck_zip_bytes *b)
{
	if (!b)
		return;
	free(b->front.bytes);
	free(b->tail.bytes);
	free(b->dir.bytes);
	free(b->local.bytes);
	free(b);
}

int ck_zip_bytes_read(const struct ck_zip_bytes *b, void *buf, size_t len,
		      uint64_t ipos, struct ck_diag *d)
{
	int rc = len ? b->src.read(b->src.ctx, buf, len, ipos) : 0;

	if (rc == -ENODATA) /* its file ends before */
		return ck_fail(d, ENODATA, "cannot read %zu bytes at %" PRIu64,
			       len, ipos);
	if (rc < 0)
		return ck_fail_transient(
			d, -rc, "cannot read %zu bytes at %" PRIu64 ": %s", len,
			ipos, strerrordesc_np(-rc));
	return 0;
}

static const uint8_t *window_peek(const struct ck_zip_window *w, uint64_t ipos,
				  size_t len)
{
	if (ipos < w->ipos || ipos - w->ipos > w->len)
		return NULL;
	if (len > w->len - (ipos - w->ipos))
		return NULL;
	return w->bytes + (ipos - w->ipos);
}

const uint8_t *ck_zip_peek(const struct ck_zip_bytes *b, uint64_t ipos,
			   size_t len)
{
	const uint8_t *p = window_peek(&b->tail, ipos, len);

	return p ? p : window_peek(&b->front, ipos, len);
}

/* Moves a window to [ipos, ipos + len), which is inside the item. */
static int window_load(struct ck_zip_bytes *b, struct ck_zip_window *w,
		       uint64_t ipos, size_t len, struct ck_diag *d)
{
	int rc;

	w->len = 0;
	if (len > w->cap) {
		uint8_t *bytes = realloc(w->bytes, len);

		if (!bytes)
			return ck_fail(d, ENOMEM, "out of memory");
		w->bytes = bytes;
		w->cap = len;
	}
	rc = ck_zip_bytes_read(b, w->bytes, len, ipos, d);
	if (rc < 0)
		return rc;
	w->ipos = ipos;
	w->len = len;
	return 0;
}

int ck_zip_fetch(struct ck_zip_bytes *b, struct ck_zip_window *w, uint64_t ipos,
		 size_t len, struct ck_cur *out, struct ck_diag *d)
{
	size_t step = w == &b->dir ? DIR_STEP : LOCAL_STEP;
	const uint8_t *p = ck_zip_peek(b, ipos, len);
	int rc;

	if (!p)
		p = window_peek(w, ipos, len);
	if (p) {
		*out = ck_cur_make(p, len);
		return 0;
	}
	if (ipos > b->src.len || len > b->src.len - ipos)
		return ck_fail(d, EBADMSG,
			       "cut short: %zu bytes expected at %" PRIu64
			       ", end at %" PRIu64,
			       len, ipos, b->src.len);
	step = (size_t)ck_min(ck_max(len, step), b->src.len - ipos);
	rc = window_load(b, w, ipos, step, d);
	if (rc < 0)
		return rc;
	*out = ck_cur_make(w->bytes, len);
	return 0;
}

/* --- end records ----------------------------------------------------------- */

/* Position in the window of the last complete end record, or -1. */
static int64_t end_search(const struct ck_zip_window *w)
{
	for (size_t i = w->len; i > 0 && i--;) {
		if (w->len - i >= END_LEN &&
		    memcmp(w->bytes + i, "PK\5\6", 4) == 0)
			return (int64_t)i;
	}
	return -1;
}

/* Fills the tail window and finds the end record in it. */
static int end_find(struct ck_zip_bytes *b, uint64_t *ipos, struct ck_diag *d)
{
	static const size_t depths[] = { CK_ZIP_EDGE, END_SEARCH };

	for (size_t i = 0; i < CK_ARRAY_SIZE(depths); i++) {
		size_t len = (size_t)ck_min(b->src.len, depths[i]);
		int64_t at;
		int rc = window_load(b, &b->tail, b->src.len - len, len, d);

		if (rc < 0)
			return rc;
		at = end_search(&b->tail);
		if (at >= 0) {
			*ipos = b->tail.ipos + (uint64_t)at;
			return 0;
		}
		if (len == b->src.len)
			break;
	}
	return ck_fail(d, EBADMSG, "no zip end record in %" PRIu64 " bytes",
		       b->src.len);
}

static int end_parse(struct ck_zip_bytes *b, uint64_t ipos,
		     struct ck_zip_ends *e, struct ck_diag *d)
{
	struct ck_cur c;
	int rc = ck_zip_fetch(b, &b->local, ipos, END_LEN, &c, d);

	if (rc < 0)
		return rc;
	(void)ck_zip_u32(&c); /* the signature was searched for */
	e->disks = ck_zip_u16(&c);
	e->disks |= ck_zip_u16(&c);
	e->count_here = ck_zip_u16(&c);
	e->count = ck_zip_u16(&c);
	e->dir_len = ck_zip_u32(&c);
	e->dir = ck_zip_u32(&c);
	e->comment = ck_zip_u16(&c);
	return 0;
}

/* The zip64 end record, at its only place: before its locator. */
static int end64_parse(struct ck_zip_bytes *b, uint64_t ipos,
		       struct ck_zip_ends *e, struct ck_diag *d)
{
	struct ck_cur c;
	int rc = ck_zip_fetch(b, &b->local, ipos, END64_LEN, &c, d);

	if (rc < 0)
		return rc;
	if (ck_zip_u32(&c) != END64_SIG || ck_zip_u64(&c) != END64_LEN - 12)
		return ck_fail(d, EBADMSG,
			       "malformed zip64 end record at %" PRIu64, ipos);
	(void)ck_zip_u32(&c); /* versions */
	e->disks = ck_zip_u32(&c);
	e->disks |= ck_zip_u32(&c);
	e->count_here = ck_zip_u64(&c);
	e->count = ck_zip_u64(&c);
	e->dir_len = ck_zip_u64(&c);
	e->dir = ck_zip_u64(&c);
	return 0;
}

/* True if the end record has the values of the zip64 end record, as far as they
 * fit. */
static bool ends_agree(const struct ck_zip_ends *e,
		       const struct ck_zip_ends *wide)
{
	return e->count == ck_min(wide->count, UINT16_MAX) &&
	       e->count_here == ck_min(wide->count_here, UINT16_MAX) &&
	       e->dir_len == ck_min(wide->dir_len, CK_ZIP_SATURATED) &&
	       e->dir == ck_min(wide->dir, CK_ZIP_SATURATED);
}

/* If a zip64 locator is before the end record at *end: takes the numbers
 * from there and moves *end to the begin of the three. */
static int end64_take(struct ck_zip_bytes *b, uint64_t *end,
		      struct ck_zip_ends *e, struct ck_diag *d)
{
	struct ck_zip_ends wide = { .comment = e->comment };
	struct ck_cur c;
	uint64_t at;
	int rc;

	if (*end < LOCATOR_LEN + END64_LEN)
		return 0;
	rc = ck_zip_fetch(b, &b->local, *end - LOCATOR_LEN, LOCATOR_LEN, &c, d);
	if (rc < 0)
		return rc;
	if (ck_zip_u32(&c) != LOCATOR_SIG)
		return 0;
	at = *end - LOCATOR_LEN - END64_LEN;
	if (ck_zip_u32(&c) != 0 || ck_zip_u64(&c) != at || ck_zip_u32(&c) != 1)
		return ck_fail(d, EBADMSG,
			       "malformed zip64 locator at %" PRIu64,
			       *end - LOCATOR_LEN);
	rc = end64_parse(b, at, &wide, d);
	if (rc < 0)
		return rc;
	if (!ends_agree(e, &wide))
		return ck_fail(d, EBADMSG, "zip end records disagree");
	wide.disks |= e->disks;
	*e = wide;
	*end = at;
	return 0;
}

static int ends_check(const struct ck_zip_ends *e, uint64_t end,
		      struct ck_diag *d)
{
	uint64_t dir_end, least;

	if (e->disks || e->count != e->count_here)
		return ck_fail(d, EBADMSG, "zip of several disks");
	if (!ck_add(&dir_end, e->dir, e->dir_len) || dir_end != end)
		return ck_fail(d, EBADMSG,
			       "zip directory at %" PRIu64 " of %" PRIu64
			       " bytes does not end at %" PRIu64,
			       e->dir, e->dir_len, end);
	if (!ck_mul(&least, e->count, CK_ZIP_ENTRY_LEN) || least > e->dir_len ||
	    e->count == 0 || e->count > UINT32_MAX)
		return ck_fail(d, EBADMSG,
			       "zip directory of %" PRIu64
			       " bytes cannot hold %" PRIu64 " records",
			       e->dir_len, e->count);
	return 0;
}

int ck_zip_ends_read(struct ck_zip_bytes *b, struct ck_zip_ends *e,
		     struct ck_diag *d)
{
	uint64_t end = 0;
	int rc = end_find(b, &end, d);

	if (rc < 0)
		return rc;
	rc = end_parse(b, end, e, d);
	if (rc < 0)
		return rc;
	/* Without a comment, bytes after the end do not belong to the zip. */
	if (e->comment && b->src.len - end != END_LEN + (uint64_t)e->comment)
		return ck_fail(d, EBADMSG,
			       "zip comment of %u bytes does not end the item",
			       e->comment);
	rc = end64_take(b, &end, e, d);
	if (rc < 0)
		return rc;
	rc = ends_check(e, end, d);
	if (rc < 0 || b->tail.ipos == 0)
		return rc;
	return window_load(b, &b->front, 0,
			   (size_t)ck_min(b->src.len, CK_ZIP_EDGE), d);
}
