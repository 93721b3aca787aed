/* SPDX-License-Identifier: MIT */
/*
 * split_reads: splits copy descriptors into READ requests.
 *
 * The bytes of a descriptor have a packed order, and a part of it is identified
 * by its position in that order. A part consists of as many iterations as fit
 * of the outermost loop that begins at this position, with its inner loops; or
 * of bytes of one run.
 *
 * State: struct ck_reads, the position in the list of descriptors. One thread
 * at a time.
 */
#include "dist/dist_internal.h"

#include <errno.h>

/* If less than this is left of a request, a descriptor that does not fit begins
 * the next one. */
enum { ROOM_MIN = 128 << 10 };

void ck_reads_begin(struct ck_reads *r, struct ck_copy_desc *list, size_t n)
{
	*r = (struct ck_reads){ .list = list, .n = n };
	for (size_t i = 0; i < n; i++)
		list[i].rc = 0;
}

bool ck_reads_left(struct ck_reads *r)
{
	for (; r->next < r->n && r->done == 0; r->next++) {
		struct ck_copy_desc *m = &r->list[r->next];
		uint64_t end;

		if (m->nloops > CK_MAX_DIMS ||
		    !ck_copy_desc_measure(m, &r->bytes, &end))
			m->rc = -EIO;
		else if (r->bytes)
			return true;
	}
	return r->next < r->n;
}

/* --- parts ---------------------------------------------------------------- */

/* bytes[k]: size of one iteration of the k-th loop from the outside, with the
 * inner loops. bytes[0] is the size of the descriptor. */
static void measure_turns(const struct ck_copy_desc *m, uint64_t *bytes)
{
	bytes[m->nloops] = m->run;
	for (uint32_t k = m->nloops; k > 0; k--)
		bytes[k - 1] = bytes[k] * m->loops[k - 1].count;
}

/* Makes a part of n iterations of loop k, with its inner loops. Returns 0 or
 * -ENOMEM. */
static int part_turns(struct ck_query_part *p, uint32_t k, uint64_t n,
		      struct ck_arena *arena)
{
	const struct ck_copy_desc *m = p->whole;
	size_t bytes = (m->nloops - k) * sizeof(struct ck_loop);
	struct ck_loop *loops = ck_arena_alloc(arena, bytes);

	if (!loops)
		return -ENOMEM;
	memcpy(loops, m->loops + k, bytes);
	loops[0].count = n;
	p->desc.loops = loops;
	p->desc.nloops = m->nloops - k;
	p->desc.run = m->run;
	return 0;
}

/* Makes the part of p->whole that begins at byte `at` in packed order, of at
 * most `room` bytes, at least 1. Returns 0 or -ENOMEM. */
static int part_make(struct ck_query_part *p, uint64_t at, uint64_t room,
		     struct ck_arena *arena)
{
	const struct ck_copy_desc *m = p->whole;
	uint64_t turn[CK_MAX_DIMS + 1];

	measure_turns(m, turn);
	p->desc = (struct ck_copy_desc){ .file = m->file,
					 .fpos = m->fpos,
					 .to = m->to };
	for (uint32_t k = 0; k < m->nloops; k++) {
		const struct ck_loop *loop = &m->loops[k];
		uint64_t i = at / turn[k + 1], n;

		at -= i * turn[k + 1];
		p->desc.fpos += i * loop->src;
		p->desc.to += i * loop->dst;
		n = ck_min(loop->count - i, room / turn[k + 1]);
		if (at || n == 0)
			continue;
		p->bytes = n * turn[k + 1];
		return part_turns(p, k, n, arena);
	}
	p->desc.fpos += at;
	p->desc.to += at;
	p->desc.run = p->bytes = ck_min(m->run - at, room);
	return 0;
}

/* --- requests ---------------------------------------------------------------------- */

static bool has_room(const struct ck_query *a, const struct ck_reads *r)
{
	uint64_t room = CK_WIRE_READ_MAX - a->bytes;
	uint64_t row = CK_READ_ROW +
		       (uint64_t)CK_LOOP_ROW * r->list[r->next].nloops;

	if (a->nparts == 0)
		return true;
	return a->body.len + row <= CK_WIRE_BODY_MAX &&
	       (room >= ROOM_MIN || r->bytes - r->done <= room);
}

static void part_put(struct ck_buf *b, const struct ck_copy_desc *m)
{
	ck_buf_u32(b, m->file);
	ck_buf_u32(b, m->nloops);
	ck_buf_u64(b, m->fpos);
	ck_buf_u64(b, m->run);
	for (uint32_t k = 0; k < m->nloops; k++) {
		ck_buf_u64(b, m->loops[k].count);
		ck_buf_u64(b, m->loops[k].src);
	}
}

/* Adds the next part to the request. Returns 0 or -ENOMEM. */
static int add_part(struct ck_reads *r, struct ck_query *a)
{
	struct ck_query_part *parts = ck_grow(a->parts, &a->cap, a->nparts, 1,
					      sizeof(*parts));
	struct ck_query_part *p;

	if (!parts)
		return -ENOMEM;
	a->parts = parts;
	p = &parts[a->nparts];
	p->whole = &r->list[r->next];
	if (part_make(p, r->done, CK_WIRE_READ_MAX - a->bytes, &a->loops))
		return -ENOMEM;
	part_put(&a->body, &p->desc);
	a->nparts++;
	a->bytes += p->bytes;
	r->done += p->bytes;
	if (r->done == r->bytes) {
		r->done = 0;
		r->next++;
	}
	return a->body.err;
}

int ck_query_read(struct ck_reads *r, struct ck_query *a)
{
	const struct ck_reads before = *r;
	int rc;

	*a = (struct ck_query){ .head = { .type = CK_WIRE_READ } };
	ck_buf_u64(&a->body, 0); /* number of parts, set below */
	rc = a->body.err;
	while (!rc && ck_reads_left(r) && has_room(a, r))
		rc = add_part(r, a);
	if (rc) {
		ck_query_fini(a);
		*r = before;
		return rc;
	}
	for (int i = 0; i < 4; i++)
		a->body.data[i] = (char)(a->nparts >> 8 * i & 0xff);
	a->head.body = (uint32_t)a->body.len;
	return 0;
}

void ck_query_fail(const struct ck_query *a, int rc)
{
	for (size_t i = 0; i < a->nparts; i++)
		if (a->parts[i].whole->rc == 0)
			a->parts[i].whole->rc = rc;
}
