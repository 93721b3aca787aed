/* SPDX-License-Identifier: MIT */
/*
 * A read of a slice: the planner says which runs of which boxes the bytes are, and
 * they are gathered from mapped files into the caller's buffer; from one that cannot
 * be mapped they are read, and of one that is remote they are noted for its mover.
 *
 * The kernel could also be given the places in the mappings to copy from
 * itself. Measured, that is slower, since the bytes of a tensor lie at other
 * places in their pages than the pages of its file: the kernel looks up each
 * page of the source by itself and copies it in two misaligned pieces.
 */
#include "ckptfs/move.h"
#include "gather.h"
#include "range.h"
#include "read_op.h"
#include "run_plan.h"

#include <errno.h>

/* As ck_run_plan(), with changes on the way. The plan is of whole elements; `len`
 * bytes of it from `skip` on are wanted. */
static int gather_changed(struct ck_read_op *rd, const struct ck_layout *layout,
			  const struct ck_dtype *dtype, uint64_t skip,
			  uint64_t len, uint8_t *to)
{
	struct ck_workspace *s = rd->space;
	ck_auto_free uint8_t *whole = malloc(s->plan.covered);
	struct ck_gather g = { &s->plan, s->from, whole };
	size_t noted = rd->remote ? rd->remote->n : 0;
	int rc;

	if (!whole)
		return -ENOMEM;
	rc = ck_run_plan(rd, layout, whole);
	if (rc == 0 && rd->remote && rd->remote->n > noted) {
		rc = ck_remote_change(rd->remote, &s->plan, layout, whole, skip,
				      len, to);
		if (rc == 0)
			(void)ck_steal(&whole);
		return rc;
	}
	if (rc)
		return rc;
	for (size_t i = 0; i < s->plan.ncopies; i++) {
		uint32_t chunk = s->plan.copies[i].chunk;

		ck_gather_change(&g, i, dtype, layout->extents[chunk].change);
	}
	memcpy(to, whole + skip, len);
	return 0;
}

/* As ck_run_plan(), by way of the gatherer. */
static int read_packed(struct ck_read_op *rd, const struct ck_layout *layout,
		       uint64_t skip, uint64_t len, uint8_t *to)
{
	int rc = ck_packing_add(rd->packing, &rd->space->plan, layout, skip,
				len, to);

	return rc ? rc : ck_run_plan(rd, layout, rd->packing->slot->fill);
}

/* --- parts --------------------------------------------------------------- */

/* Bytes [begin, end) of a box of a tensor. */
static int read_box(struct ck_read_op *rd, const struct ck_layout *layout,
		    const uint64_t *box, uint64_t begin, uint64_t end,
		    uint8_t *to)
{
	const struct ck_dtype *dtype = ck_dtype_at(layout->dtype);
	struct ck_plan *plan = &rd->space->plan;
	struct ck_request r;
	int rc;

	if (layout->err)
		return -layout->err;
	if (layout->ndim > CK_MAX_DIMS || dtype->size == 0)
		return -EBADMSG;
	r = ck_range_request(layout, box);
	r.begin = begin;
	r.end = end;
	if (layout->change) { /* only whole elements can be changed */
		r.begin -= begin % r.item;
		r.end += (r.item - end % r.item) % r.item;
	}
	rc = ck_plan_make(&r, plan);
	if (!rc)
		rc = ck_run_plan_find(rd, layout);
	if (rc)
		return rc;
	if (plan->covered < r.end - r.begin)
		return layout->hole ? -layout->hole : -ENODATA;
	if (rd->packing)
		return read_packed(rd, layout, begin - r.begin, end - begin,
				   to);
	if (!layout->change)
		return ck_run_plan(rd, layout, to);
	return gather_changed(rd, layout, dtype, begin - r.begin, end - begin,
			      to);
}

/* What a read wants of one part. */
struct wanted {
	struct ck_read_op *rd;
	const struct ck_open_slice *from;
	const uint64_t *box;
	uint64_t begin, end;
	uint8_t *to;
};

static int read_by(const struct ck_layout *layout, void *arg)
{
	const struct wanted *w = arg;
	struct ck_remote_moves *remote = w->rd->remote;
	struct ck_packing *packing = w->rd->packing;
	size_t noted = remote ? remote->n : 0;
	struct ck_packing_mark mark = { 0 };
	int rc;

	if (packing)
		mark = ck_packing_mark(packing);
	rc = read_box(w->rd, layout, w->box, w->begin, w->end, w->to);
	/* Its files were looked at just now. */
	w->rd->old = w->rd->renewals < CK_RENEWALS &&
		     ck_open_slice_is_old(w->from, layout);
	if (w->rd->old)
		rc = -ESTALE;
	/* What was noted in vain may lead to memory that is gone. */
	if (rc && remote)
		remote->n = noted;
	if (rc && packing)
		ck_packing_back(packing, &mark);
	return rc;
}

/* A box that could not be asked for at the open, or at a read before, is asked
 * for again by a read that needs it. */
static int read_tensor(struct ck_read_op *rd, struct ck_open_slice *o,
		       uint32_t i, uint64_t begin, uint64_t end, uint8_t *to)
{
	struct wanted w = {
		rd,    o,   ck_slice_part(ck_open_slice_slice(o), i).at.box,
		begin, end, to
	};
	const struct ck_layout *layout;
	int rc = ck_open_slice_layout(o, i, &layout);

	if (rc)
		return rc;
	rc = read_by(layout, &w);
	while (rd->old) {
		rd->old = false;
		rd->renewals++;
		rc = ck_open_slice_renew(o, i, layout, read_by, &w);
		layout = ck_open_slice_known(o, i);
	}
	if (rc == 0 || rc == -EREMOTE || rc == -E2BIG || !layout->passing)
		return rc;
	return ck_open_slice_again(o, i, layout, read_by, &w);
}

/* One run of a data file, as if it was a box. */
static int read_range(struct ck_read_op *rd, uint32_t file, uint64_t fpos,
		      uint64_t len, uint8_t *to)
{
	struct ck_extent extent = { .file = file, .pos = fpos };
	const struct ck_layout layout = { .extents = &extent, .n = 1 };
	int rc = ck_plan_run(&rd->space->plan, len);

	if (rc == 0)
		rc = ck_run_plan_find(rd, &layout);
	return rc ? rc : ck_run_plan(rd, &layout, to);
}

/* What the slice makes for this read. */
static int read_made(const struct ck_slice *slice, uint32_t i,
		     const struct ck_part *part, uint64_t begin, uint64_t end,
		     uint8_t *to)
{
	struct ck_buf made = { 0 };
	int rc = slice->make(slice, part->number, &made);

	if (rc == 0)
		rc = made.err;
	if (rc == 0 && made.len != ck_slice_part_len(slice, i))
		rc = -EIO;
	if (rc == 0)
		memcpy(to, made.data + begin, end - begin);
	ck_buf_fini(&made);
	return rc;
}

/* Bytes [begin, end) of part i. */
static int read_part(struct ck_read_op *rd, struct ck_open_slice *o, uint32_t i,
		     uint64_t begin, uint64_t end, uint8_t *to)
{
	const struct ck_slice *slice = ck_open_slice_slice(o);
	struct ck_part part = ck_slice_part(slice, i);

	switch ((enum ck_part_kind)part.kind) {
	case CK_PART_BYTES:
		memcpy(to, part.at.bytes + begin, end - begin);
		return 0;
	case CK_PART_MADE: return read_made(slice, i, &part, begin, end, to);
	case CK_PART_ZEROS: memset(to, 0, end - begin); return 0;
	case CK_PART_BOX: return read_tensor(rd, o, i, begin, end, to);
	case CK_PART_RANGE:
		return read_range(rd, part.number, part.at.fpos + begin,
				  end - begin, to);
	}
	return -EIO;
}

/* Part by part; what it needs of files stays in use until the end. */
static int read_parts(struct ck_read_op *rd, const struct ck_read *r)
{
	const struct ck_slice *slice = ck_open_slice_slice(r->from);
	uint64_t end = r->vpos + r->len;
	uint32_t i = ck_slice_find(slice, r->vpos);
	uint64_t at = ck_slice_begin(slice, i), next;
	bool waits = false;
	int rc = 0;

	for (; i < slice->nparts && at < end && rc == 0; i++, at = next) {
		uint64_t from = ck_max(r->vpos, at);
		uint64_t till;

		next = ck_slice_begin(slice, i + 1);
		till = ck_min(end, next);
		if (from < till)
			rc = read_part(rd, r->from, i, from - at, till - at,
				       (uint8_t *)r->to + (from - r->vpos));
		/* What other parts need is noted in the same run. */
		waits |= rc == -EREMOTE;
		if (rc == -EREMOTE && rd->remote)
			rc = 0;
	}
	/* An error behind what is not known yet may not be the first. */
	return waits ? -EREMOTE : rc;
}

/* Files were looked at before they were read. Who writes over one gives it another time
 * first: what was read since may be of both, or end where the new one does. */
static int look_again(struct ck_read_op *rd, int rc)
{
	if (rc && rc != -EIO)
		return rc;
	for (size_t i = 0; i < rd->space->nused; i++) {
		bool passing;
		int now = ck_files_look_again(rd->files, &rd->space->used[i],
					      &passing);

		if (!now)
			continue;
		rd->failed = true;
		return now;
	}
	return rc;
}

/* Whether files that are in use are read on other hosts from now on. Which of them has
 * failed is not known. */
static bool leave_used(const struct ck_read_op *rd, int rc)
{
	bool left = false;

	for (size_t i = 0; rd->failed && i < rd->space->nused; i++)
		if (!rd->space->used[i].remote)
			left |= ck_files_leave(rd->files,
					       rd->space->used[i].number, rc);
	return left;
}

/* Whether the ctime of a file that is in use changed since it was opened for this read: the
 * bytes may be of two files. */
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

int ck_read_op_run(struct ck_files *files, const struct ck_read *r,
		   struct ck_remote_moves *remote, struct ck_packing *packing)
{
	uint64_t size = ck_open_slice_slice(r->from)->size;
	struct ck_read_op rd = { .files = files,
				 .space = ck_workspace_get(),
				 .remote = remote,
				 .packing = packing };
	bool again;
	int rc;

	if (r->len > size || r->vpos > size - r->len)
		return -EINVAL;
	if (r->len == 0)
		return 0;
	if (!rd.space)
		return -ENOMEM;
	do {
		rc = look_again(&rd, read_parts(&rd, r));
		again = leave_used(&rd, rc) || is_touched(&rd);
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

int ck_host_read(struct ck_files *files, const struct ck_read *r)
{
	return ck_read_op_run(files, r, NULL, NULL);
}
