/* SPDX-License-Identifier: MIT */
/*
 * stage: the bytes that a program writes into one file of the mount, until a commit. A file
 * truncated to 0 grows as POSIX requires, and is complete when it ends where its header
 * requires and no byte is missing. Otherwise the written bytes replace those of the tensor, and
 * the file is complete when all were written. written_ranges.c decides which bytes are missing.
 *
 * Public functions hold x->placing for reading; calls for one stage must not overlap.
 */
#include "commit_internal.h"

#include <errno.h>
#include <stdio.h>

int ck_stage_spoil(struct ck_stage *s, const struct ck_diag *d, int err)
{
	s->spoiled = true;
	snprintf(s->why, sizeof(s->why), "%.500s", d ? d->text : "");
	return -err;
}

/* --- beginning and ending ------------------------------------------------------ */

static void enter(const struct ck_stage *s)
{
	pthread_rwlock_rdlock(&s->x->placing);
}

static void leave(const struct ck_stage *s)
{
	pthread_rwlock_unlock(&s->x->placing);
}

/* Discards all staged bytes. */
static void discard(struct ck_stage *s)
{
	ck_cutter_fini(&s->cutter);
	ck_cuts_drop(&s->cuts);
	ck_batch_free(s->batch);
	s->batch = NULL;
	s->placing = s->made = false;
	s->fortran = s->swapped = false;
	ck_buf_fini(&s->head);
	s->head = (struct ck_buf){ 0 };
	ck_written_clear(&s->written);
	s->data = 0;
	s->data_known = s->of.header.len == 0;
	s->head_accepted = s->data_known;
	s->touched = s->carries = s->foreign = false;
	s->spoiled = false;
	s->why[0] = '\0';
}

/* Stores the header that the mount shows. */
static int own_header(struct ck_stage *s)
{
	if (s->of.header.len == 0)
		return 0;
	ck_buf_add(&s->head, s->of.header.data, s->of.header.len);
	s->data = s->head.len;
	s->data_known = s->head_accepted = true;
	return s->head.err;
}

static void stage_free(struct ck_stage *s)
{
	ck_written_fini(&s->written);
	ck_buf_fini(&s->head);
	ck_buf_fini(&s->of.header);
	ck_catalog_put(s->catalog);
	free(s);
}

/* Takes ownership of of->header if the stage is made. */
static struct ck_stage *stage_make(struct ck_transaction *x,
				   const struct ck_catalog *c,
				   const struct ck_accepted *of)
{
	struct ck_stage *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->x = x;
	s->catalog = ck_catalog_hold(c);
	s->of = *of;
	discard(s);
	return s;
}

int ck_stage_open(struct ck_transaction *x, const struct ck_catalog *c,
		  const struct ck_slice *slice, enum ck_accepts accepts,
		  struct ck_stage **out, struct ck_diag *d)
{
	struct ck_accepted of;
	struct ck_stage *s;
	int rc = ck_accept(&of, c, slice, accepts, d);

	if (rc)
		return rc;
	s = stage_make(x, c, &of);
	if (!s) {
		ck_buf_fini(&of.header);
		return ck_fail(d, ENOMEM, "out of memory");
	}
	if (own_header(s))
		rc = ck_fail(d, ENOMEM, "out of memory");
	if (rc == 0 && ck_transaction_enlist(x, s))
		rc = ck_fail(d, EBUSY, "is being written already");
	if (rc)
		stage_free(s);
	else
		*out = s;
	return rc;
}

void ck_stage_close(struct ck_stage *s)
{
	if (!s)
		return;
	enter(s);
	discard(s);
	ck_transaction_delist(s->x, s);
	leave(s);
	stage_free(s);
}

void ck_stage_renew(struct ck_stage *s)
{
	bool foreign = s->fortran || s->swapped || s->data != s->of.header.len;

	discard(s);
	s->foreign = foreign;
	s->truncated = false;
	/* Without memory for the header the stage is spoiled; a truncation to 0 resets it. */
	if (own_header(s))
		s->spoiled = true;
}

/* --- elements ------------------------------------------------------------------- */

uint32_t ck_stage_boxes(const struct ck_stage *s, uint32_t *n)
{
	bool whole = s->of.box == CK_ALL_BOXES;

	*n = whole ? ck_stage_tensor(s)->nchunks : 1;
	return whole ? 0 : s->of.box;
}

static int plan(struct ck_stage *s)
{
	uint32_t n, first = ck_stage_boxes(s, &n);
	struct ck_batch *batch = s->x->batch;

	if (!batch && !s->batch)
		s->batch = ck_batch_make(s->x->w, false);
	if (!batch)
		batch = s->batch;
	return batch ? ck_cuts_plan(&s->cuts, s->x->w, batch, s->of.tensor,
				    first, n)
		     : -ENOMEM;
}

int ck_stage_place(struct ck_stage *s, bool fortran, bool swapped,
		   struct ck_diag *d)
{
	uint32_t n, first = ck_stage_boxes(s, &n);
	int rc = plan(s);

	if (rc)
		return ck_fail(d, -rc, "cannot be stored: %s", strerror(-rc));
	rc = ck_cutter_make(&s->cutter, s->catalog, s->of.tensor, s->of.box,
			    fortran, swapped);
	if (rc) {
		ck_cuts_drop(&s->cuts);
		return ck_fail(d, -rc, "out of memory");
	}
	ck_cutter_aim(&s->cutter, &s->cuts, ck_stage_tensor(s)->chunk + first);
	s->placing = true;
	s->fortran = fortran;
	s->swapped = swapped;
	return 0;
}

int ck_stage_make(struct ck_stage *s, struct ck_diag *d)
{
	int rc = 0;

	if (!s->placing) {
		if (!s->carries)
			ck_header_order(s);
		rc = ck_stage_place(s, s->fortran, s->swapped, d);
	}
	if (rc || s->made)
		return rc;
	rc = ck_cuts_make(&s->cuts, s->x->w, d);
	s->made = rc == 0;
	return rc;
}

uint64_t ck_stage_total(const struct ck_stage *s)
{
	return s->data + s->of.nbytes;
}

int ck_stage_too_long(struct ck_stage *s, uint64_t end, struct ck_diag *d)
{
	(void)ck_differs(d, EFBIG,
			 ck_shown("%ju", (uintmax_t)ck_stage_total(s)),
			 ck_shown("%ju", (uintmax_t)end), "too many bytes");
	return ck_stage_spoil(s, d, EFBIG);
}

/* Writes bytes behind the header. */
static int write_elements(struct ck_stage *s, uint64_t vpos, const void *bytes,
			  uint64_t len, struct ck_diag *d)
{
	int rc;

	if (len == 0)
		return 0;
	if (len > ck_stage_total(s) || vpos > ck_stage_total(s) - len)
		return ck_stage_too_long(s, vpos + len, d);
	if (s->foreign) {
		(void)ck_fail(d, EINVAL,
			      "after a sync with a header that is not the one "
			      "shown, elements without their header");
		return ck_stage_spoil(s, d, EINVAL);
	}
	rc = ck_stage_make(s, d);
	if (rc)
		return rc;
	rc = ck_cutter_place(&s->cutter, vpos - s->data, bytes, len);
	return rc ? ck_fail(d, -rc, "staging: %s", strerror(-rc)) : 0;
}

/* --- functions for fs ------------------------------------------------------------- */

/* Finds the first missing bytes; there must be some. */
static int explain_gap(const struct ck_stage *s, struct ck_diag *d)
{
	const struct ck_ranges *written = &s->written.ranges;
	uint64_t begin = s->truncated ? 0 : s->data, end = ck_stage_total(s);
	uint64_t have = begin + ck_written_bytes(&s->written, begin);
	size_t i = 0;

	for (; i < written->n && written->r[i].begin <= begin; i++)
		begin = ck_max(begin, written->r[i].end);
	if (i < written->n)
		end = written->r[i].begin;
	return ck_differs(d, EINVAL,
			  ck_shown("%ju bytes", (uintmax_t)ck_stage_total(s)),
			  ck_shown("%ju", (uintmax_t)have),
			  "not complete: bytes %ju to %ju were not written%s",
			  (uintmax_t)begin, (uintmax_t)end - 1,
			  s->truncated || s->fortran || s->swapped
				  ? ""
				  : "; a mount with -o patch keeps them");
}

static int explain(const struct ck_stage *s, struct ck_diag *d)
{
	const struct ck_written_ranges *g = &s->written;

	if (s->spoiled)
		return ck_fail(d, EINVAL, "%s", s->why);
	if (g->failed.n)
		return ck_fail(
			d, EINVAL,
			"bytes %ju to %ju could not be written, and were "
			"not written again",
			(uintmax_t)g->failed.r[0].begin,
			(uintmax_t)g->failed.r[0].end - 1);
	if (!s->touched)
		return ck_fail(d, EINVAL, "nothing was written");
	if (s->truncated && ck_written_nothing(g))
		return ck_fail(d, EINVAL,
			       g->end ? "nothing but holes; zeros have to be "
					"written"
				      : "was truncated, and nothing was "
					"written");
	if (!s->data_known)
		return ck_fail(d, EINVAL, "its header is not complete");
	if (s->truncated && g->end < ck_stage_total(s))
		return ck_differs(
			d, EINVAL,
			ck_shown("%ju bytes", (uintmax_t)ck_stage_total(s)),
			ck_shown("%ju", (uintmax_t)g->end), "not complete");
	return explain_gap(s, d);
}

int ck_stage_explain(const struct ck_stage *s, struct ck_diag *d)
{
	int rc;

	enter(s);
	rc = explain(s, d);
	leave(s);
	return rc;
}

/* Stores bytes of a header, then elements. */
static int put(struct ck_stage *s, uint64_t vpos, const void *bytes, size_t len,
	       struct ck_diag *d)
{
	uint64_t used = 0;
	int rc = ck_header_write(s, vpos, bytes, len, &used, d);

	return rc ? rc
		  : write_elements(s, vpos + used, (const char *)bytes + used,
				   len - used, d);
}

/* After a failed write it is unknown which of its bytes are in the file: all count as
 * missing. */
static void note_failure(struct ck_stage *s, uint64_t begin, uint64_t end)
{
	struct ck_diag d = { 0 };

	if (!s->spoiled && ck_written_fail(&s->written, begin, end)) {
		(void)ck_fail(&d, ENOMEM, "a write failed; write all again");
		(void)ck_stage_spoil(s, &d, ENOMEM);
	}
}

static int write_now(struct ck_stage *s, uint64_t vpos, const void *bytes,
		     size_t len, uint32_t thread, struct ck_diag *d)
{
	uint64_t end;
	int rc;

	if (s->spoiled)
		return explain(s, d);
	if (len == 0)
		return 0;
	if (!ck_add(&end, vpos, len) || end > INT64_MAX)
		return ck_fail(d, EFBIG, "too many bytes");
	s->touched = true;
	rc = put(s, vpos, bytes, len, d);
	if (rc == 0) {
		rc = ck_written_write(&s->written, vpos, bytes, len, thread);
		rc = rc ? ck_fail(d, -rc, "too many pieces: %s", strerror(-rc))
			: 0;
	}
	if (rc)
		note_failure(s, vpos, end);
	return rc;
}

int ck_stage_write(struct ck_stage *s, uint64_t vpos, const void *bytes,
		   size_t len, uint32_t thread, struct ck_diag *d)
{
	int rc;

	enter(s);
	rc = write_now(s, vpos, bytes, len, thread, d);
	leave(s);
	return rc;
}

int ck_stage_fill(struct ck_stage *s, uint64_t vpos, const void *bytes,
		  size_t len, struct ck_diag *d)
{
	int rc;

	enter(s);
	rc = s->carries ? 0 : ck_stage_verify(s, d);
	if (rc == 0) {
		s->carries = true;
		rc = write_now(s, vpos, bytes, len, 0, d);
	}
	leave(s);
	return rc;
}

static int put_zeros(struct ck_stage *s, uint64_t begin, uint64_t end,
		     struct ck_diag *d)
{
	static const char zeros[64 << 10];
	int rc = 0;

	for (uint64_t at = begin; at < end && !rc; at += sizeof(zeros))
		rc = write_elements(s, at, zeros,
				    ck_min(sizeof(zeros), end - at), d);
	return rc;
}

/* Shortens a file that was truncated to 0: bytes behind `size` become zeros. */
static int cut_off(struct ck_stage *s, uint64_t size, struct ck_diag *d)
{
	const struct ck_ranges *written = &s->written.ranges;
	int rc = 0;

	if (!s->data_known || size < s->data) {
		(void)ck_fail(d, EINVAL, "its header is cut off");
		return ck_stage_spoil(s, d, EINVAL);
	}
	for (size_t i = written->n; i > 0 && !rc; i--)
		rc = put_zeros(s, ck_max(size, written->r[i - 1].begin),
			       written->r[i - 1].end, d);
	if (rc)
		note_failure(s, size, s->written.end);
	return rc;
}

/* Truncates to 0. */
static void begin_anew(struct ck_stage *s)
{
	discard(s);
	s->truncated = true;
	s->touched = true;
}

static int truncate_now(struct ck_stage *s, uint64_t size, struct ck_diag *d)
{
	int rc = 0;

	if (size == 0) {
		begin_anew(s);
		return 0;
	}
	if (s->spoiled)
		return explain(s, d);
	if (!s->truncated && size == ck_stage_total(s))
		return 0;
	if (!s->truncated) {
		(void)ck_differs(d, EINVAL,
				 ck_shown("%ju", (uintmax_t)ck_stage_total(s)),
				 ck_shown("%ju", (uintmax_t)size),
				 "another size");
		return ck_stage_spoil(s, d, EINVAL);
	}
	if (s->data_known && size > ck_stage_total(s))
		return ck_stage_too_long(s, size, d);
	if (size < s->written.end)
		rc = cut_off(s, size, d);
	if (rc == 0)
		ck_written_size(&s->written, size);
	return rc;
}

int ck_stage_truncate(struct ck_stage *s, uint64_t size, struct ck_diag *d)
{
	int rc;

	enter(s);
	rc = truncate_now(s, size, d);
	leave(s);
	return rc;
}

int ck_stage_grow(struct ck_stage *s, uint64_t end, struct ck_diag *d)
{
	int rc = 0;

	enter(s);
	if (end > (s->truncated ? s->written.end : ck_stage_total(s))) {
		rc = truncate_now(s, end, d);
		if (rc == 0)
			ck_written_allocate(&s->written, end);
	}
	leave(s);
	return rc;
}

void ck_stage_closed_by(struct ck_stage *s, uint32_t thread)
{
	enter(s);
	ck_written_close(&s->written, thread);
	leave(s);
}

void ck_stage_synced(struct ck_stage *s)
{
	enter(s);
	if (s->truncated)
		ck_written_sync(&s->written);
	leave(s);
}

static bool is_written(const struct ck_stage *s)
{
	const struct ck_written_ranges *g = &s->written;
	uint64_t end = ck_stage_total(s);

	if (!s->truncated)
		return ck_written_all(g, s->data, end);
	if (g->end != end)
		return false;
	return ck_written_all(g, 0, end) ||
	       (ck_written_skips(g) && g->failed.n == 0);
}

static enum ck_stage_state state_now(struct ck_stage *s)
{
	struct ck_diag d;

	if (s->spoiled)
		return CK_STAGE_SPOILED;
	if (!s->touched)
		return CK_STAGE_EMPTY;
	if (s->truncated && ck_written_nothing(&s->written))
		return s->data_known && ck_stage_total(s) == 0 ? CK_STAGE_EMPTY
							       : CK_STAGE_BEGUN;
	if (!s->data_known || !is_written(s))
		return CK_STAGE_PART;
	if (!s->head_accepted && ck_header_settle(s, &d))
		return CK_STAGE_SPOILED;
	return CK_STAGE_COMPLETE;
}

bool ck_stage_gap(const struct ck_stage *s, uint64_t *begin, uint64_t *end)
{
	*begin = s->data;
	*end = s->data_known ? ck_stage_total(s) : 0;
	return !s->truncated && !s->spoiled && s->written.failed.n == 0 &&
	       !s->fortran && !s->swapped &&
	       ck_ranges_gap(&s->written.ranges, begin, end);
}

enum ck_stage_state ck_stage_state(struct ck_stage *s)
{
	enum ck_stage_state state;

	enter(s);
	state = state_now(s);
	leave(s);
	return state;
}

/* --- staging and moving -------------------------------------------------- */

int ck_stage_complete(struct ck_stage *s, struct ck_diag *d)
{
	if (state_now(s) != CK_STAGE_COMPLETE)
		return explain(s, d);
	return ck_stage_make(s, d); /* all bytes may be skipped zeros */
}

int ck_stage_keep(struct ck_stage *s, struct ck_diag *d)
{
	int rc;

	enter(s);
	rc = ck_stage_complete(s, d);
	if (rc == 0)
		rc = ck_cuts_check(&s->cuts, s->x->w, d);
	if (rc == 0) {
		rc = ck_cuts_keep(&s->cuts, s->of.tensor);
		if (rc)
			rc = ck_fail(d, -rc, "staging: %s", strerror(-rc));
	}
	if (rc == 0) {
		ck_stage_renew(s);
		s->kept_in = s->x->batch;
	}
	leave(s);
	return rc == -EINTR ? -EIO : rc;
}

/* Writes to the new batch first, so that an error changes nothing. */
static int move_cuts(struct ck_stage *s, struct ck_cuts *to)
{
	struct ck_diag d;
	int rc = 0;

	if (s->made)
		rc = ck_cuts_make(to, s->x->w, &d);
	if (rc == 0 && s->made)
		rc = ck_cuts_copy(&s->cuts, to);
	return rc;
}

int ck_stage_move(struct ck_stage *s, struct ck_batch *to)
{
	uint32_t n, first = ck_stage_boxes(s, &n);
	struct ck_cuts cuts;
	int rc;

	if (!s->placing)
		return 0;
	rc = ck_cuts_plan(&cuts, s->x->w, to, s->of.tensor, first, n);
	if (rc)
		return rc;
	rc = move_cuts(s, &cuts);
	if (rc) {
		ck_cuts_drop(&cuts);
		return rc;
	}
	ck_cuts_drop(&s->cuts);
	s->cuts = cuts;
	ck_cutter_aim(&s->cutter, &s->cuts, ck_stage_tensor(s)->chunk + first);
	return 0;
}

void ck_stage_lose(struct ck_stage *s, const char *why)
{
	discard(s);
	s->spoiled = true;
	snprintf(s->why, sizeof(s->why), "%s", why);
}
