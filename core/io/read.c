/* SPDX-License-Identifier: MIT */
/*
 * read: the bytes of a slice, part by part. A box of a tensor is planned, and its
 * plan is run on mapped files; files that cannot be mapped are read with pread(2).
 * Ranges of remote files are recorded as descriptors for the remote backend.
 *
 * A read operation is: planned and run; then its files are stat'ed again. If one has
 * changed, the read runs again or fails with ESTALE. No state is kept between reads but
 * the workspace of the thread. Any thread.
 *
 * Vectored replies that point into the mappings were measured and are slower: the
 * bytes of a tensor and the pages of the reader are aligned differently, so that
 * the kernel looks up each source page and copies it in two pieces.
 */
#include "ckptfs/io.h"
#include "io/local/gather.h"
#include "io/local/range.h"
#include "io/local/run_plan.h"

#include <errno.h>

/* Elements that are converted at once. */
enum { BLOCK_ELEMENTS = 32 << 10 };

/* The bytes [begin, end) of one part of the slice. */
struct part_read {
	struct ck_read_op *rd;
	struct ck_open_slice *from;
	uint32_t i;
	struct ck_part part;
	uint64_t begin, end;
	uint8_t *to;
	uint64_t skip; /* bytes of the plan before `begin` */
};

/* --- boxes --------------------------------------------------------------- */

/* Plans the bytes, and finds the first run of each plan op. Values can be changed in
 * whole elements only: the plan of such a layout begins and ends with one. */
static int plan_box(const struct ck_layout *layout, struct part_read *p)
{
	struct ck_plan *plan = &p->rd->space->plan;
	struct ck_request r;
	int rc;

	if (layout->err)
		return -layout->err;
	if (layout->ndim > CK_MAX_DIMS || ck_dtype_at(layout->dtype)->size == 0)
		return -EBADMSG;
	r = ck_range_request(layout, p->part.at.box);
	p->skip = layout->change ? p->begin % r.item : 0;
	r.begin = p->begin - p->skip;
	r.end = p->end;
	if (layout->change)
		r.end += (r.item - p->end % r.item) % r.item;
	rc = ck_plan_make(&r, plan);
	if (!rc)
		rc = ck_run_plan_find(p->rd, layout);
	if (rc)
		return rc;
	if (plan->covered < r.end - r.begin)
		return layout->hole ? -layout->hole : -ENODATA;
	return 0;
}

/* Runs the plan in memory of its own, changes the values there, and delivers them. If some
 * are remote, that is left to ck_remote_finish(). */
static int run_aside(const struct ck_layout *layout, struct part_read *p,
		     const struct ck_delivery *to)
{
	struct ck_read_op *rd = p->rd;
	struct ck_workspace *s = rd->space;
	const struct ck_dtype *dtype = ck_dtype_at(layout->dtype);
	ck_auto_free uint8_t *whole = malloc(s->plan.covered);
	struct ck_gather g = { &s->plan, s->from, whole };
	size_t recorded = rd->remote ? rd->remote->n : 0;
	int rc;

	if (!whole)
		return -ENOMEM;
	rc = ck_run_plan(rd, layout, whole);
	if (rc)
		return rc;
	if (rd->remote && rd->remote->n > recorded) {
		rc = ck_remote_change(rd->remote, &s->plan, layout, whole, to);
		if (rc == 0)
			(void)ck_steal(&whole);
		return rc;
	}
	for (size_t i = 0; i < s->plan.ncopies; i++) {
		uint32_t chunk = s->plan.copies[i].chunk;

		ck_gather_change(&g, i, dtype, layout->extents[chunk].change);
	}
	ck_deliver(to, whole);
	return 0;
}

static int run_changed(const struct ck_layout *layout, struct part_read *p)
{
	const struct ck_delivery to = { .skip = p->skip,
					.len = p->end - p->begin,
					.to = p->to };

	return run_aside(layout, p, &to);
}

/* Runs the plan into the slot of the gather engine. */
static int run_packed(const struct ck_layout *layout, struct part_read *p)
{
	struct ck_packing *packing = p->rd->packing;
	int rc = ck_packing_add(packing, &p->rd->space->plan, layout, p->skip,
				p->end - p->begin, p->to);

	return rc ? rc : ck_run_plan(p->rd, layout, packing->slot->fill);
}

/* Plans, runs and converts the elements in blocks, which stay in the cache of the
 * processor. The GPU does not gather them. */
static int run_converted(const struct ck_layout *layout, struct part_read *p)
{
	const uint64_t block = BLOCK_ELEMENTS * CK_FLOAT32_SIZE;
	struct part_read q = *p;
	uint64_t next;
	int rc = 0;

	if (layout->dtype != p->part.from)
		return -EBADMSG;
	for (uint64_t at = p->begin; at < p->end && rc == 0; at = next) {
		struct ck_delivery to = { .dtype = p->part.from,
					  .convert = true,
					  .skip = at % CK_FLOAT32_SIZE,
					  .to = p->to + (at - p->begin) };

		next = ck_min(p->end, (at / block + 1) * block);
		to.len = next - at;
		q.begin = at;
		q.end = next;
		ck_range_source(&p->part, &q.begin, &q.end);
		rc = plan_box(layout, &q);
		if (rc == 0)
			rc = run_aside(layout, &q, &to);
	}
	return rc;
}

static int run_box(const struct ck_layout *layout, struct part_read *p)
{
	int rc;

	if (p->part.from != CK_DTYPE_UNKNOWN)
		return run_converted(layout, p);
	rc = plan_box(layout, p);
	if (rc)
		return rc;
	if (p->rd->packing)
		return run_packed(layout, p);
	return layout->change ? run_changed(layout, p)
			      : ck_run_plan(p->rd, layout, p->to);
}

/* Reads the bytes with one layout of the box. Sets rd->old if the layout is outdated;
 * the bytes are undefined then. */
static int read_box(const struct ck_layout *layout, void *arg)
{
	struct part_read *p = arg;
	struct ck_read_op *rd = p->rd;
	size_t recorded = rd->remote ? rd->remote->n : 0;
	const struct ck_remote_change *last = rd->remote ? rd->remote->changes
							 : NULL;
	struct ck_packing_mark mark = { 0 };
	int rc;

	if (rd->packing)
		mark = ck_packing_mark(rd->packing);
	rc = run_box(layout, p);
	/* The plan has just stat'ed the files of the layout. */
	rd->old = rd->renewals < CK_RENEWALS &&
		  ck_open_slice_is_old(p->from, layout);
	if (rd->old)
		rc = -ESTALE;
	/* Recorded descriptors of a failed plan may lead to memory that was
	 * freed. */
	if (rc && rd->remote)
		ck_remote_back(rd->remote, recorded, last);
	if (rc && rd->packing)
		ck_packing_back(rd->packing, &mark);
	return rc;
}

/* Reads a box again after read_box() returned rc: with a new layout if the layout is
 * outdated, or if it has transient errors. */
static int retry_box(const struct ck_layout *layout, struct part_read *p,
		     int rc)
{
	struct ck_read_op *rd = p->rd;

	while (rd->old) {
		rd->old = false;
		rd->renewals++;
		rc = ck_open_slice_renew(p->from, p->i, layout, read_box, p);
		layout = ck_open_slice_known(p->from, p->i);
	}
	if (rc == 0 || rc == -EREMOTE || rc == -E2BIG || !layout->transient)
		return rc;
	return ck_open_slice_again(p->from, p->i, layout, read_box, p);
}

/* --- other parts --------------------------------------------------------- */

/* Reads one run of a data file, as if it was a box. */
static int read_range(const struct part_read *p)
{
	struct ck_extent extent = { .file = p->part.number,
				    .pos = p->part.at.fpos + p->begin };
	const struct ck_layout layout = { .extents = &extent, .n = 1 };
	int rc = ck_plan_run(&p->rd->space->plan, p->end - p->begin);

	if (rc == 0)
		rc = ck_run_plan_find(p->rd, &layout);
	return rc ? rc : ck_run_plan(p->rd, &layout, p->to);
}

/* Makes the whole part and copies the requested bytes. */
static int read_made(const struct part_read *p)
{
	const struct ck_slice *slice = ck_open_slice_slice(p->from);
	struct ck_buf made = { 0 };
	int rc = slice->make(slice, p->part.number, &made);

	if (rc == 0)
		rc = made.err;
	if (rc == 0 && made.len != ck_slice_part_len(slice, p->i))
		rc = -EIO;
	if (rc == 0)
		memcpy(p->to, made.data + p->begin, p->end - p->begin);
	ck_buf_fini(&made);
	return rc;
}

static int read_other(const struct part_read *p)
{
	switch ((enum ck_part_kind)p->part.kind) {
	case CK_PART_BYTES:
		memcpy(p->to, p->part.at.bytes + p->begin, p->end - p->begin);
		return 0;
	case CK_PART_MADE: return read_made(p);
	case CK_PART_ZEROS: memset(p->to, 0, p->end - p->begin); return 0;
	case CK_PART_RANGE: return read_range(p);
	case CK_PART_BOX: break;
	}
	return -EIO;
}

/* --- slices -------------------------------------------------------------- */

/* Reads part by part. The files stay in use until ck_run_plan_end(). Returns -EREMOTE
 * if headers of some parts must be fetched first: all these ranges are recorded in
 * one pass, and an error behind them may not be the first one. */
static int read_parts(struct ck_read_op *rd, const struct ck_read *r)
{
	const struct ck_slice *slice = ck_open_slice_slice(r->from);
	uint64_t end = r->vpos + r->len, at, next;
	struct part_read p = { .rd = rd, .from = r->from };
	const struct ck_layout *layout;
	bool waits = false;
	int rc = 0;

	p.i = ck_slice_find(slice, r->vpos);
	at = ck_slice_begin(slice, p.i);
	for (; p.i < slice->nparts && at < end && rc == 0; p.i++, at = next) {
		next = ck_slice_begin(slice, p.i + 1);
		p.begin = ck_max(r->vpos, at) - at;
		p.end = ck_min(end, next) - at;
		if (p.begin >= p.end)
			continue;
		p.to = (uint8_t *)r->to + (at + p.begin - r->vpos);
		p.part = ck_slice_part(slice, p.i);
		if (p.part.kind != CK_PART_BOX)
			rc = read_other(&p);
		else if (!(rc = ck_open_slice_layout(r->from, p.i, &layout)))
			rc = retry_box(layout, &p, read_box(layout, &p));
		waits |= rc == -EREMOTE;
		if (rc == -EREMOTE && rd->remote)
			rc = 0;
	}
	return waits ? -EREMOTE : rc;
}

/* --- files that change --------------------------------------------------- */

/* Stats the files again after the read. A write to a file changes its times first, so
 * bytes that were read before such a change are of one version. Returns rc, or the
 * error of a changed file. */
static int revalidate(struct ck_read_op *rd, int rc)
{
	if (rc && rc != -EIO)
		return rc;
	for (size_t i = 0; i < rd->space->nused; i++) {
		bool transient;
		int now = ck_files_revalidate(rd->files, &rd->space->used[i],
					      &transient);

		if (!now)
			continue;
		rd->failed = true;
		return now;
	}
	return rc;
}

/* Fails over the local files in use to other hosts, since it is unknown which of them
 * failed. Returns true if a file has a replica there. */
static bool fail_over(const struct ck_read_op *rd, int rc)
{
	bool moved = false;

	for (size_t i = 0; rd->failed && i < rd->space->nused; i++)
		if (!rd->space->used[i].remote)
			moved |= ck_files_fail_over(
				rd->files, rd->space->used[i].number, rc);
	return moved;
}

/* True if the ctime of a file in use changed since it was opened for this read: the
 * bytes may be of two versions. */
static bool is_touched(struct ck_read_op *rd)
{
	bool touched = false;

	for (size_t i = 0; i < rd->space->nused && !touched; i++) {
		const struct ck_file *file = &rd->space->used[i];

		touched = !file->remote &&
			  ck_files_touched(rd->files, file->number) !=
				  file->touched;
	}
	return touched && rd->renewals++ < CK_RENEWALS;
}

int ck_read_slice(struct ck_files *files, const struct ck_read *r,
		  struct ck_remote_batch *remote, struct ck_packing *packing)
{
	uint64_t size = ck_open_slice_slice(r->from)->size;
	struct ck_read_op rd = { .files = files,
				 .space = ck_workspace_get(),
				 .remote = remote,
				 .packing = packing,
				 .is_pass = r->is_pass };
	bool again;
	int rc;

	if (r->len > size || r->vpos > size - r->len)
		return -EINVAL;
	if (r->len == 0)
		return 0;
	if (!rd.space)
		return -ENOMEM;
	do {
		rc = revalidate(&rd, read_parts(&rd, r));
		again = fail_over(&rd, rc) || is_touched(&rd);
		rd.failed = false;
		ck_run_plan_end(&rd);
		if (again && remote)
			ck_remote_fini(remote);
		if (again && packing)
			ck_packing_clear(packing);
	} while (again);
	ck_workspace_trim(rd.space);
	return rc;
}
