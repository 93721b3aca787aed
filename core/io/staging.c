/* SPDX-License-Identifier: MIT */
/* staging: see staging.h. */
#include "staging.h"
#include "io/local/range.h"

#include <errno.h>

struct ck_packing_mark ck_packing_mark(const struct ck_packing *p)
{
	const struct ck_gather_slot *s = p->slot;

	return (struct ck_packing_mark){ s->filled, s->results, s->ncopies,
					 s->nloops, p->n,	p->bytes };
}

void ck_packing_back(struct ck_packing *p, const struct ck_packing_mark *mark)
{
	p->slot->filled = mark->filled;
	p->slot->results = mark->results;
	p->slot->ncopies = mark->ncopies;
	p->slot->nloops = mark->nloops;
	p->n = mark->n;
	p->bytes = mark->bytes;
}

void ck_packing_encode_none(struct ck_packing *p)
{
	p->slot->wanted = 0;
	p->slot->all_remote = false;
}

void ck_packing_clear(struct ck_packing *p)
{
	ck_packing_back(p, &(struct ck_packing_mark){ 0 });
	ck_packing_encode_none(p);
}

bool ck_packing_encode(struct ck_packing *p, struct ck_backend *remote,
		       const struct ck_copy_batch *batch)
{
	struct ck_gather_slot *s = p->slot;
	struct ck_described words = { .base = s->fill,
				      .size = s->filled,
				      .out = s->wants,
				      .room = s->wants_most };
	uint64_t come = 0, bytes, end;

	if (!remote->describe || !remote->describe(remote, batch, &words))
		return false;
	for (size_t i = 0; i < batch->n; i++)
		come += ck_copy_desc_measure(&batch->list[i], &bytes, &end)
				? bytes
				: 0;
	s->wanted = words.used;
	s->set = words.set;
	s->all_remote = come == p->bytes;
	return true;
}

uint64_t ck_packing_arrive(const struct ck_packing *p)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct ck_arrival *a = &p->arrivals[i];

		memcpy(a->to, p->slot->result + a->at, a->len);
		bytes += a->len;
	}
	return bytes;
}

void ck_packing_fini(struct ck_packing *p)
{
	free(p->arrivals);
	*p = (struct ck_packing){ 0 };
}

/* --- room ------------------------------------------------------------------------------ */

/* The first place from `at` on that lies as `like` does: both can be moved in vectors
 * then. */
static uint64_t place_like(uint64_t at, uint64_t like)
{
	return at + (like % CK_GATHER_ALIGN + CK_GATHER_ALIGN -
		     at % CK_GATHER_ALIGN) %
			    CK_GATHER_ALIGN;
}

/* base: where its result begins. */
static bool has_room(const struct ck_gather_slot *s, const struct ck_plan *plan,
		     uint64_t base)
{
	uint64_t filled = s->filled, nloops = s->nloops;

	if (plan->ncopies > s->copies_most - s->ncopies || base > s->room ||
	    plan->covered > s->room - base)
		return false;
	for (size_t i = 0; i < plan->ncopies; i++) {
		const struct ck_plan_op *c = &plan->copies[i];

		filled = place_like(filled, base + c->dst) +
			 ck_copy_bytes(plan, c);
		nloops += c->nloops;
	}
	return filled <= s->room && nloops <= s->loops_most;
}

/* --- the two halves -------------------------------------------------------------------- */

/* The greatest steps in the file outermost. */
static void order_loops(struct ck_loop *loops, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i; k && loops[k - 1].src < loops[k].src;
		     k--) {
			struct ck_loop loop = loops[k];

			loops[k] = loops[k - 1];
			loops[k - 1] = loop;
		}
}

/* Runs that lie one behind the other in the file, too, are one. */
static void join_runs(const struct ck_loop *loops, struct ck_plan_op *c)
{
	while (c->nloops && loops[c->nloops - 1].src == c->run)
		c->run *= loops[--c->nloops].count;
}

/* Of a copy whose first run is packed at `at`; base: of the plan's result. */
static void split(struct ck_gather_slot *s, struct ck_plan *plan,
		  struct ck_plan_op *c, uint8_t dtype, uint8_t change,
		  uint64_t base, uint64_t at)
{
	struct ck_loop *loops = plan->loops + c->loop;
	struct ck_gather_desc *second = &s->copies[s->ncopies++];

	*second = (struct ck_gather_desc){ .src = at,
					   .dst = base + c->dst,
					   .run = c->run,
					   .loop = s->nloops,
					   .nloops = c->nloops,
					   .dtype = dtype,
					   .change = change };
	c->dst = at;
	if (c->nloops == 0)
		return;
	order_loops(loops, c->nloops);
	memcpy(s->loops + s->nloops, loops, c->nloops * sizeof(*loops));
	ck_loops_pack(loops, c->nloops, c->run);
	for (uint32_t k = 0; k < c->nloops; k++)
		s->loops[s->nloops + k].src = loops[k].dst;
	s->nloops += c->nloops;
	join_runs(loops, c);
}

int ck_packing_add(struct ck_packing *p, struct ck_plan *plan,
		   const struct ck_layout *layout, uint64_t skip, uint64_t len,
		   uint8_t *to)
{
	struct ck_gather_slot *s = p->slot;
	uint64_t base = place_like(s->results, 0);
	struct ck_arrival *arrivals;

	if (!has_room(s, plan, base))
		return -E2BIG;
	arrivals = ck_grow(p->arrivals, &p->cap, p->n, 1, sizeof(*arrivals));
	if (!arrivals)
		return -ENOMEM;
	p->arrivals = arrivals;
	arrivals[p->n++] = (struct ck_arrival){ base + skip, len, to };
	for (size_t i = 0; i < plan->ncopies; i++) {
		struct ck_plan_op *c = &plan->copies[i];
		uint64_t bytes = ck_copy_bytes(plan, c);
		uint64_t at = place_like(s->filled, base + c->dst);

		split(s, plan, c, layout->dtype,
		      layout->extents[c->chunk].change, base, at);
		s->filled = (uint32_t)(at + bytes);
		p->bytes += bytes;
	}
	s->results = (uint32_t)(base + plan->covered);
	return 0;
}
