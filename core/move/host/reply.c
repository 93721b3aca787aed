/* SPDX-License-Identifier: MIT */
/*
 * A read of a slice from local files. Each part of the range is answered the
 * fast way, by addresses in mapped files that the kernel copies from, if its
 * runs are long and few; else its bytes are gathered into a buffer. Measured
 * over FUSE, an address for each run wins down to runs of 4 KiB.
 */
#include "ckptfs/move.h"
#include "cold.h"
#include "gather.h"
#include "range.h"
#include "scratch.h"

#include <errno.h>

enum {
	COPIES_ASKED = 64, /* of more, nobody asks whether they are cold */
	RUN_BYTES = 4096,  /* shorter runs, on average, are gathered */
	RUNS_FREE = 8,	   /* so many may be shorter: ends of a range */
};

/* --- a reply being made -------------------------------------------------- */

struct reading {
	const struct ck_read *r;
	struct ck_reply *reply;
	struct ck_scratch *scratch;
	uint64_t len; /* of the whole reply */
	size_t iov_cap, used_cap;
};

static size_t count_iov(const struct reading *rd)
{
	return (size_t)rd->reply->niov;
}

static int reserve_iov(struct reading *rd, size_t more)
{
	struct iovec *iov = ck_grow(rd->reply->iov, &rd->iov_cap, count_iov(rd),
				    more, sizeof(*iov));

	if (!iov)
		return -ENOMEM;
	rd->reply->iov = iov;
	return 0;
}

/* Room was reserved. */
static void add_iov(struct reading *rd, const void *bytes, size_t len)
{
	struct ck_reply *reply = rd->reply;
	struct iovec *last = reply->iov + reply->niov;

	if (reply->niov > 0 &&
	    (const char *)last[-1].iov_base + last[-1].iov_len == bytes) {
		last[-1].iov_len += len;
		return;
	}
	last->iov_base = (void *)(uintptr_t)bytes;
	last->iov_len = len;
	reply->niov++;
}

/* The place in the reply's own buffer for the bytes from dst on. */
static uint8_t *own_at(struct reading *rd, uint64_t dst)
{
	struct ck_reply *reply = rd->reply;

	if (!reply->own)
		reply->own = ck_scratch_buffer(rd->scratch, rd->len,
					       &reply->own_len);
	return reply->own ? (uint8_t *)reply->own + dst : NULL;
}

void ck_host_release(struct ck_files *files, struct ck_reply *reply)
{
	for (size_t i = 0; i < reply->nused; i++)
		ck_files_put(files, &reply->used[i]);
	if (reply->own)
		ck_scratch_keep(reply->own, reply->own_len);
	free(reply->used);
	free(reply->iov);
	*reply = (struct ck_reply){ 0 };
}

/* --- where the runs are -------------------------------------------------- */

/* The file, opened and checked once in this reply. */
static int use_file(struct reading *rd, uint32_t number,
		    const struct ck_file **out)
{
	struct ck_reply *reply = rd->reply;
	struct ck_file *used;
	uint32_t *where;
	int rc;

	if (number >= ck_files_count(rd->r->files))
		return -ENODATA; /* CK_NO_FILE */
	where = &rd->scratch->where[number];
	if (*where < reply->nused && reply->used[*where].number == number) {
		*out = &reply->used[*where];
		return 0;
	}
	used = ck_grow(reply->used, &rd->used_cap, reply->nused, 1,
		       sizeof(*used));
	if (!used)
		return -ENOMEM;
	reply->used = used;
	rc = ck_files_get(rd->r->files, number, &used[reply->nused]);
	if (rc)
		return rc;
	*where = (uint32_t)reply->nused++;
	*out = &reply->used[*where];
	return 0;
}

static int find_copy(struct reading *rd, const struct ck_extent *e,
		     const struct ck_copy *c, const uint8_t **from)
{
	const struct ck_file *file;
	uint64_t end;
	int rc;

	if (e->err)
		return -e->err;
	if (!ck_range_end(&rd->scratch->plan, c, e->pos, &end))
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
	if (rd->scratch->plan.ncopies <= COPIES_ASKED)
		ck_cold_want(file, e->pos + c->src, end - e->pos - c->src);
	*from = file->map + e->pos + c->src;
	return 0;
}

/* The first run of each copy of the plan. */
static int find_copies(struct reading *rd, const struct ck_layout *layout)
{
	struct ck_scratch *s = rd->scratch;
	int rc = ck_scratch_reserve(s, s->plan.ncopies,
				    ck_files_count(rd->r->files));

	for (size_t i = 0; i < s->plan.ncopies && !rc; i++) {
		const struct ck_copy *c = &s->plan.copies[i];

		rc = find_copy(rd, &layout->extents[c->chunk], c, &s->from[i]);
	}
	return rc;
}

/* --- the fast way: addresses --------------------------------------------- */

static bool is_few_runs(const struct reading *rd)
{
	const struct ck_plan *plan = &rd->scratch->plan;

	return plan->runs + count_iov(rd) <= CK_IOV_MOST &&
	       plan->runs <= RUNS_FREE + plan->covered / RUN_BYTES;
}

/* The runs of a copy as spans. */
static size_t list_runs(const struct ck_plan *plan, const struct ck_copy *c,
			const uint8_t *from, struct ck_span *spans)
{
	size_t n = 1;

	spans[0] = (struct ck_span){ c->dst, from, c->run };
	/* each loop, from the innermost on, repeats what is there */
	for (uint32_t k = c->nloops; k-- > 0;) {
		const struct ck_loop *loop = &plan->loops[c->loop + k];
		size_t all = n * loop->count;

		for (size_t i = n; i < all; i++) {
			spans[i] = spans[i - n];
			spans[i].dst += loop->dst;
			spans[i].p += loop->src;
		}
		n = all;
	}
	return n;
}

static int compare_spans(const void *a, const void *b)
{
	uint64_t x = ((const struct ck_span *)a)->dst;
	uint64_t y = ((const struct ck_span *)b)->dst;

	return x < y ? -1 : x > y;
}

static bool is_sorted(const struct ck_span *spans, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (spans[i - 1].dst > spans[i].dst)
			return false;
	return true;
}

static int add_runs(struct reading *rd)
{
	struct ck_scratch *s = rd->scratch;
	size_t n = 0;

	if (reserve_iov(rd, s->plan.runs))
		return -ENOMEM;
	for (size_t i = 0; i < s->plan.ncopies; i++)
		n += list_runs(&s->plan, &s->plan.copies[i], s->from[i],
			       s->spans + n);
	if (!is_sorted(s->spans, n))
		qsort(s->spans, n, sizeof(s->spans[0]), compare_spans);
	for (size_t i = 0; i < n; i++)
		add_iov(rd, s->spans[i].p, s->spans[i].len);
	return 0;
}

/* --- the other way: a buffer --------------------------------------------- */

/* len bytes at dst of the reply are in its own buffer. */
static int add_own(struct reading *rd, uint64_t dst, uint64_t len)
{
	if (reserve_iov(rd, 1))
		return -ENOMEM;
	add_iov(rd, (const uint8_t *)rd->reply->own + dst, len);
	return 0;
}

static int gather(struct reading *rd, uint64_t dst)
{
	struct ck_scratch *s = rd->scratch;
	struct ck_gather g = { &s->plan, s->from, own_at(rd, dst) };
	int rc;

	if (!g.to)
		return -ENOMEM;
	rc = ck_gather_copy(&g);
	return rc ? rc : add_own(rd, dst, s->plan.covered);
}

/* As gather(), with changes on the way. The plan is of whole elements; `len`
 * bytes of it from `skip` on are wanted. */
static int gather_changed(struct reading *rd, const struct ck_layout *layout,
			  const struct ck_dtype *dtype, uint64_t skip,
			  uint64_t dst, uint64_t len)
{
	struct ck_scratch *s = rd->scratch;
	ck_auto_free uint8_t *whole = malloc(s->plan.covered);
	struct ck_gather g = { &s->plan, s->from, whole };
	uint8_t *to = own_at(rd, dst);
	int rc;

	if (!whole || !to)
		return -ENOMEM;
	rc = ck_gather_copy(&g);
	if (rc)
		return rc;
	for (size_t i = 0; i < s->plan.ncopies; i++) {
		uint32_t chunk = s->plan.copies[i].chunk;

		ck_gather_change(&g, i, dtype, layout->extents[chunk].change);
	}
	memcpy(to, whole + skip, len);
	return add_own(rd, dst, len);
}

/* --- parts --------------------------------------------------------------- */

static int read_literal(struct reading *rd, const struct ck_part *part,
			uint64_t begin, uint64_t end, uint64_t dst)
{
	uint8_t *to;

	if (count_iov(rd) < CK_IOV_MOST) {
		if (reserve_iov(rd, 1))
			return -ENOMEM;
		add_iov(rd, part->literal + begin, end - begin);
		return 0;
	}
	to = own_at(rd, dst);
	if (!to)
		return -ENOMEM;
	memcpy(to, part->literal + begin, end - begin);
	return add_own(rd, dst, end - begin);
}

static int read_tensor(struct reading *rd, const struct ck_part *part,
		       const struct ck_layout *layout, uint64_t begin,
		       uint64_t end, uint64_t dst)
{
	const struct ck_catalog *c = rd->r->catalog;
	const struct ck_tensor *t = &c->tensors[part->tensor];
	const struct ck_dtype *dtype = ck_dtype_at(t->dtype);
	struct ck_plan *plan = &rd->scratch->plan;
	struct ck_request r;
	int rc;

	if (t->err)
		return -t->err;
	if (t->ndim > CK_MAX_DIMS || dtype->size == 0)
		return -EBADMSG;
	r = ck_range_request(c, part, layout);
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
	if (layout->change)
		return gather_changed(rd, layout, dtype, begin - r.begin, dst,
				      end - begin);
	return is_few_runs(rd) ? add_runs(rd) : gather(rd, dst);
}

/* What [vpos, vpos + rd->len) has of part i. */
static int read_part(struct reading *rd, uint32_t i, uint64_t vpos)
{
	const struct ck_part *part = &rd->r->slice->parts[i];
	uint64_t from = ck_max(vpos, part->vpos);
	uint64_t to = ck_min(vpos + rd->len, part->vpos + part->len);
	uint64_t begin = from - part->vpos;
	uint64_t end = to - part->vpos;

	if (from >= to)
		return 0;
	if (part->kind == CK_PART_LITERAL)
		return read_literal(rd, part, begin, end, from - vpos);
	return read_tensor(rd, part, rd->r->layouts[i], begin, end,
			   from - vpos);
}

int ck_host_read(const struct ck_read *r, uint64_t vpos, uint64_t len,
		 struct ck_reply *reply)
{
	const struct ck_slice *slice = r->slice;
	struct reading rd = { .r = r, .reply = reply };
	int rc = 0;

	*reply = (struct ck_reply){ 0 };
	if (vpos >= slice->size || len == 0)
		return 0;
	rd.len = ck_min(len, slice->size - vpos);
	rd.scratch = ck_scratch_get();
	if (!rd.scratch)
		return -ENOMEM;
	for (uint32_t i = ck_range_part(slice, vpos); i < slice->nparts && !rc;
	     i++) {
		if (slice->parts[i].vpos >= vpos + rd.len)
			break;
		rc = read_part(&rd, i, vpos);
	}
	ck_scratch_trim(rd.scratch);
	if (rc) {
		ck_host_release(r->files, reply);
		return rc;
	}
	reply->len = rd.len;
	return 0;
}
