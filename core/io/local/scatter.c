/* SPDX-License-Identifier: MIT */
/*
 * scatter: writes the bytes of a tensor into the files of its boxes. The planner plans
 * as for a read; each plan op then runs in the other direction.
 *
 * Runs of RUN_BYTES and more are written one by one. Shorter runs that fill a range of
 * the file are gathered in memory and written at once. Other runs, whose order differs
 * from that of the file, would cost a system call for each element: they are stored
 * through a mapping. No state but the workspace of the thread.
 */
#include "ckptfs/io.h"
#include "gather.h"
#include "range.h"
#include "workspace.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

enum {
	RUN_BYTES = 16 << 10, /* longer runs are written one by one */
	FILLED_MAX = 4 << 20, /* most bytes gathered for one write */
};

/* A plan op with source and destination exchanged, as a plan of its own. */
struct reversed {
	struct ck_plan_op copy;
	struct ck_loop loops[CK_MAX_DIMS];
	struct ck_plan plan;
};

static void reverse(struct reversed *b, const struct ck_plan *plan,
		    const struct ck_plan_op *c)
{
	b->copy = (struct ck_plan_op){ .run = c->run, .nloops = c->nloops };
	for (uint32_t k = 0; k < c->nloops; k++) {
		const struct ck_loop *loop = &plan->loops[c->loop + k];

		b->loops[k] = (struct ck_loop){ .count = loop->count,
						.dst = loop->src,
						.src = loop->dst };
	}
	b->plan = (struct ck_plan){ .copies = &b->copy,
				    .loops = b->loops,
				    .ncopies = 1,
				    .nloops = c->nloops };
}

static uint64_t copy_bytes(const struct ck_plan *plan,
			   const struct ck_plan_op *c)
{
	uint64_t bytes = c->run;

	for (uint32_t k = 0; k < c->nloops; k++)
		bytes *= plan->loops[c->loop + k].count;
	return bytes;
}

/* Writes each run by itself, the innermost loop first. */
static int write_runs(const struct ck_plan *plan, const struct ck_plan_op *c,
		      int fd, uint64_t fpos, const uint8_t *bytes)
{
	const struct ck_loop *loops = plan->loops + c->loop;
	uint64_t index[CK_MAX_DIMS] = { 0 };
	bool more = true;

	while (more) {
		int rc = ck_pwrite_full(fd, bytes, c->run, fpos);

		if (rc)
			return rc;
		more = false;
		for (uint32_t k = c->nloops; !more && k > 0 && k--;) {
			fpos += loops[k].src;
			bytes += loops[k].dst;
			more = ++index[k] < loops[k].count;
			if (more)
				continue;
			fpos -= loops[k].count * loops[k].src;
			bytes -= loops[k].count * loops[k].dst;
			index[k] = 0;
		}
	}
	return 0;
}

/* Gathers runs that fill [fpos, fpos + len) of the file, and writes them at once. */
static int write_filled(const struct reversed *b, int fd, uint64_t fpos,
			uint64_t len, const uint8_t *bytes)
{
	struct ck_workspace *s = ck_workspace_get();
	void *filled = s ? ck_pages_reserve(&s->filled, len) : NULL;
	struct ck_gather g = { &b->plan, &bytes, filled };
	int rc = filled ? ck_sigbus_guard(ck_gather_run, &g) : -ENOMEM;

	return rc ? rc : ck_pwrite_full(fd, filled, len, fpos);
}

/* True if the bytes of the caller do not overlap the memory that is gathered into. */
static inline bool is_apart(const struct ck_workspace *s, const void *bytes,
			    uint64_t len)
{
	const struct ck_pages *filled = &s->filled;
	uintptr_t p = (uintptr_t)bytes, own = (uintptr_t)filled->bytes;

	return !own || p + len <= own || p >= own + filled->len;
}

static int target_map(struct ck_target *t)
{
	if (t->map)
		return 0;
	t->map = mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd,
		      0);
	if (t->map == MAP_FAILED) {
		t->map = NULL;
		return -errno;
	}
	return 0;
}

void ck_target_unmap(struct ck_target *t)
{
	if (t->map)
		munmap(t->map, t->size);
	t->map = NULL;
}

static int store(const struct reversed *b, struct ck_target *t, uint64_t fpos,
		 const uint8_t *bytes)
{
	struct ck_gather g = { &b->plan, &bytes, t->map + fpos };

	return ck_sigbus_guard(ck_gather_run, &g);
}

static int place_copy(const struct ck_plan *plan, const struct ck_plan_op *c,
		      const struct ck_place *place, const uint8_t *bytes)
{
	struct ck_target *t = place->target;
	uint64_t fpos = place->fpos + c->src;
	uint64_t len = copy_bytes(plan, c);
	struct reversed b;
	uint64_t end;

	if (!ck_range_end(plan, c, place->fpos, &end) || end > t->size)
		return -EINVAL;
	bytes += c->dst;
	if (c->nloops == 0 || c->run >= RUN_BYTES)
		return write_runs(plan, c, t->fd, fpos, bytes);
	reverse(&b, plan, c);
	if (end - fpos == len && len <= FILLED_MAX)
		return write_filled(&b, t->fd, fpos, len, bytes);
	/* The file cannot be mapped. */
	if (target_map(t))
		return write_runs(plan, c, t->fd, fpos, bytes);
	return store(&b, t, fpos, bytes);
}

int ck_host_scatter(const struct ck_request *r, const struct ck_place *places,
		    const void *bytes)
{
	struct ck_workspace *s = ck_workspace_get();
	int rc;

	if (!s)
		return -ENOMEM;
	assert(is_apart(s, bytes, r->end - r->begin));
	rc = ck_plan_make(r, &s->plan);
	if (rc == 0 && s->plan.covered < r->end - r->begin)
		rc = -ENODATA;
	for (size_t i = 0; i < s->plan.ncopies && !rc; i++)
		rc = place_copy(&s->plan, &s->plan.copies[i],
				&places[s->plan.copies[i].chunk], bytes);
	ck_workspace_trim(s);
	return rc;
}

/* --- reading back ------------------------------------------------------------- */

static int collect_copy(const struct ck_plan *plan, const struct ck_plan_op *c,
			const struct ck_place *place, void *bytes)
{
	const struct ck_plan one = { .copies =
					     (struct ck_plan_op *)(uintptr_t)c,
				     .loops = plan->loops,
				     .ncopies = 1,
				     .nloops = plan->nloops };
	struct ck_target *t = place->target;
	const uint8_t *from;
	uint64_t end;
	int rc;

	if (!ck_range_end(plan, c, place->fpos, &end) || end > t->size)
		return -EINVAL;
	rc = target_map(t);
	if (rc)
		return rc;
	from = t->map + place->fpos + c->src;
	return ck_sigbus_guard(ck_gather_run,
			       &(struct ck_gather){ &one, &from, bytes });
}

int ck_host_collect(const struct ck_request *r, const struct ck_place *places,
		    void *bytes)
{
	struct ck_workspace *s = ck_workspace_get();
	int rc = s ? ck_plan_make(r, &s->plan) : -ENOMEM;

	if (rc == 0 && s->plan.covered < r->end - r->begin)
		rc = -ENODATA;
	for (size_t i = 0; rc == 0 && i < s->plan.ncopies; i++)
		rc = collect_copy(&s->plan, &s->plan.copies[i],
				  &places[s->plan.copies[i].chunk], bytes);
	if (s)
		ck_workspace_trim(s);
	return rc;
}
