/* SPDX-License-Identifier: MIT */
/*
 * A read of a slice from local files: the planner says which runs of which
 * boxes the bytes are, and they are gathered from mapped files into the
 * caller's buffer; from one that cannot be mapped they are read.
 *
 * The kernel could also be given the places in the mappings to copy from
 * itself. Measured, that is slower, since the bytes of a tensor lie at other
 * places in their pages than the pages of its file: the kernel looks up each
 * page of the source by itself and copies it in two misaligned pieces.
 */
#include "ckptfs/move.h"
#include "cold.h"
#include "gather.h"
#include "load.h"
#include "range.h"
#include "workspace.h"

#include <errno.h>

enum {
	COPIES_ASKED = 64, /* of more, nobody asks whether they are cold */
};

struct reading {
	struct ck_files *files;
	struct ck_workspace *space;
	bool loads; /* some copies of the plan are of files without mapping */
};

/* --- where the runs are -------------------------------------------------- */

/* The file, opened and checked once in this read. */
static int use_file(struct reading *rd, uint32_t number,
		    const struct ck_file **out)
{
	struct ck_workspace *s = rd->space;
	struct ck_file *used;
	uint32_t *where;
	int rc;

	if (number >= ck_files_count(rd->files))
		return -ENODATA; /* CK_NO_FILE */
	where = &s->where[number];
	if (*where < s->nused && s->used[*where].number == number) {
		*out = &s->used[*where];
		return 0;
	}
	used = ck_grow(s->used, &s->used_cap, s->nused, 1, sizeof(*used));
	if (!used)
		return -ENOMEM;
	s->used = used;
	rc = ck_files_get(rd->files, number, &used[s->nused]);
	if (rc)
		return rc;
	*where = (uint32_t)s->nused++;
	*out = &s->used[*where];
	return 0;
}

static void release_files(struct reading *rd)
{
	struct ck_workspace *s = rd->space;

	for (size_t i = 0; i < s->nused; i++)
		ck_files_put(rd->files, &s->used[i]);
	s->nused = 0;
}

static int find_copy(struct reading *rd, const struct ck_extent *e,
		     const struct ck_copy *c, const uint8_t **from)
{
	const struct ck_file *file;
	uint64_t end;
	int rc;

	if (e->err)
		return -e->err;
	if (!ck_range_end(&rd->space->plan, c, e->pos, &end))
		return -EIO;
	if (e->memory) {
		*from = e->memory + e->pos + c->src;
		return 0;
	}
	rc = use_file(rd, e->file, &file);
	if (rc)
		return rc;
	if (end > file->size)
		return -EIO;
	*from = NULL;
	rd->loads |= !file->map;
	if (!file->map)
		return 0;
	if (rd->space->plan.ncopies <= COPIES_ASKED)
		ck_cold_want(file, e->pos + c->src, end - e->pos - c->src);
	*from = file->map + e->pos + c->src;
	return 0;
}

/* The first run of each copy of the plan; NULL where there is no mapping. */
static int find_copies(struct reading *rd, const struct ck_layout *layout)
{
	struct ck_workspace *s = rd->space;
	int rc = ck_workspace_reserve(s, s->plan.ncopies,
				      ck_files_count(rd->files));

	rd->loads = false;
	for (size_t i = 0; i < s->plan.ncopies && !rc; i++) {
		const struct ck_copy *c = &s->plan.copies[i];

		rc = find_copy(rd, &layout->extents[c->chunk], c, &s->from[i]);
	}
	return rc;
}

/* --- their bytes --------------------------------------------------------- */

/* What is not in memory. */
static int load(struct reading *rd, const struct ck_layout *layout, uint8_t *to)
{
	struct ck_workspace *s = rd->space;
	uint8_t *block = ck_workspace_block(s);
	int rc = block ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->plan.ncopies && !rc; i++) {
		const struct ck_copy *c = &s->plan.copies[i];
		const struct ck_extent *e = &layout->extents[c->chunk];
		const struct ck_file *file;

		if (s->from[i])
			continue;
		rc = use_file(rd, e->file, &file);
		if (rc == 0)
			rc = ck_load_copy(file->fd, &s->plan, i,
					  e->pos + c->src, to, block);
	}
	return rc;
}

static int gather(struct reading *rd, const struct ck_layout *layout,
		  uint8_t *to)
{
	struct ck_workspace *s = rd->space;
	struct ck_gather g = { &s->plan, s->from, to };
	int rc = ck_gather_copy(&g);

	return rc || !rd->loads ? rc : load(rd, layout, to);
}

/* As gather(), with changes on the way. The plan is of whole elements; `len`
 * bytes of it from `skip` on are wanted. */
static int gather_changed(struct reading *rd, const struct ck_layout *layout,
			  const struct ck_dtype *dtype, uint64_t skip,
			  uint64_t len, uint8_t *to)
{
	struct ck_workspace *s = rd->space;
	ck_auto_free uint8_t *whole = malloc(s->plan.covered);
	struct ck_gather g = { &s->plan, s->from, whole };
	int rc;

	if (!whole)
		return -ENOMEM;
	rc = gather(rd, layout, whole);
	if (rc)
		return rc;
	for (size_t i = 0; i < s->plan.ncopies; i++) {
		uint32_t chunk = s->plan.copies[i].chunk;

		ck_gather_change(&g, i, dtype, layout->extents[chunk].change);
	}
	memcpy(to, whole + skip, len);
	return 0;
}

/* --- parts --------------------------------------------------------------- */

/* Bytes [begin, end) of a box of a tensor. */
static int read_box(struct reading *rd, const struct ck_layout *layout,
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
		rc = find_copies(rd, layout);
	if (rc)
		return rc;
	if (plan->covered < r.end - r.begin)
		return -ENODATA;
	if (!layout->change)
		return gather(rd, layout, to);
	return gather_changed(rd, layout, dtype, begin - r.begin, end - begin,
			      to);
}

/* What a read wants of one part. */
struct wanted {
	struct reading *rd;
	const uint64_t *box;
	uint64_t begin, end;
	uint8_t *to;
};

static int read_by(const struct ck_layout *layout, void *arg)
{
	const struct wanted *w = arg;

	return read_box(w->rd, layout, w->box, w->begin, w->end, w->to);
}

/* A box that could not be asked for at the open, or at a read before, is asked
 * for again by a read that needs it. */
static int read_tensor(struct reading *rd, struct ck_opened *o, uint32_t i,
		       uint64_t begin, uint64_t end, uint8_t *to)
{
	struct wanted w = { rd, ck_slice_part(ck_opened_slice(o), i).at.box,
			    begin, end, to };
	const struct ck_layout *layout;
	int rc = ck_opened_layout(o, i, &layout);

	if (rc == 0)
		rc = read_by(layout, &w);
	else
		return rc;
	if (rc == 0 || !layout->passing)
		return rc;
	return ck_opened_again(o, i, layout, read_by, &w);
}

/* One run of a data file, as if it was a box. */
static int read_range(struct reading *rd, uint32_t file, uint64_t fpos,
		      uint64_t len, uint8_t *to)
{
	struct ck_extent extent = { .file = file, .pos = fpos };
	const struct ck_layout layout = { .extents = &extent, .n = 1 };
	int rc = ck_plan_run(&rd->space->plan, len);

	if (rc == 0)
		rc = find_copies(rd, &layout);
	return rc ? rc : gather(rd, &layout, to);
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
static int read_part(struct reading *rd, struct ck_opened *o, uint32_t i,
		     uint64_t begin, uint64_t end, uint8_t *to)
{
	const struct ck_slice *slice = ck_opened_slice(o);
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
static int read_parts(struct reading *rd, const struct ck_read *r)
{
	const struct ck_slice *slice = ck_opened_slice(r->from);
	uint64_t end = r->vpos + r->len;
	int rc = 0;

	for (uint32_t i = ck_slice_find(slice, r->vpos);
	     i < slice->nparts && slice->begins[i] < end && rc == 0; i++) {
		uint64_t at = slice->begins[i];
		uint64_t from = ck_max(r->vpos, at);
		uint64_t till = ck_min(end, slice->begins[i + 1]);

		if (from < till)
			rc = read_part(rd, r->from, i, from - at, till - at,
				       (uint8_t *)r->to + (from - r->vpos));
	}
	return rc;
}

int ck_host_read(struct ck_files *files, const struct ck_read *r)
{
	uint64_t size = ck_opened_slice(r->from)->size;
	struct reading rd = { .files = files, .space = ck_workspace_get() };
	int rc;

	if (r->len > size || r->vpos > size - r->len)
		return -EINVAL;
	if (r->len == 0)
		return 0;
	if (!rd.space)
		return -ENOMEM;
	rc = read_parts(&rd, r);
	release_files(&rd);
	ck_workspace_trim(rd.space);
	return rc;
}

static int mover_read(struct ck_mover *m, struct ck_read *r)
{
	const struct ck_host_mover *host = (const struct ck_host_mover *)m;

	return ck_host_read(host->files, r);
}

void ck_host_mover_init(struct ck_host_mover *m, struct ck_files *files)
{
	*m = (struct ck_host_mover){
		.mover = { .name = "host", .read = mover_read }, .files = files
	};
}
