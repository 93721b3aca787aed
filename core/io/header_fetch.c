/* SPDX-License-Identifier: MIT */
/* header_fetch: an array of descriptors, their loop nests, and a list of
 * changes. */
#include "header_fetch.h"

#include <errno.h>

struct ck_remote_change {
	struct ck_remote_change *next;
	struct ck_plan plan;
	const struct ck_dtype *dtype;
	uint8_t *whole;
	struct ck_delivery to;
	uint8_t how[]; /* enum ck_change of each copy */
};

int ck_remote_add(struct ck_remote_batch *m, const struct ck_plan *plan,
		  size_t i, const struct ck_extent *extent, uint8_t *to)
{
	const struct ck_plan_op *c = &plan->copies[i];
	size_t bytes = c->nloops * sizeof(struct ck_loop);
	struct ck_copy_desc *list = ck_grow(m->list, &m->cap, m->n, 1,
					    sizeof(*list));
	struct ck_loop *loops = NULL;

	if (!list)
		return -ENOMEM;
	m->list = list;
	if (bytes) {
		loops = ck_arena_alloc(&m->loops, bytes);
		if (!loops)
			return -ENOMEM;
		memcpy(loops, plan->loops + c->loop, bytes);
	}
	list[m->n++] = (struct ck_copy_desc){ .file = extent->file,
					      .nloops = c->nloops,
					      .loops = loops,
					      .fpos = extent->pos + c->src,
					      .run = c->run,
					      .to = to + c->dst };
	return 0;
}

int ck_remote_change(struct ck_remote_batch *m, struct ck_plan *plan,
		     const struct ck_layout *layout, uint8_t *whole,
		     const struct ck_delivery *to)
{
	struct ck_remote_change *c = malloc(sizeof(*c) + plan->ncopies);

	if (!c)
		return -ENOMEM;
	*c = (struct ck_remote_change){ .next = m->changes,
					.plan = *plan,
					.dtype = ck_dtype_at(layout->dtype),
					.whole = whole,
					.to = *to };
	for (size_t i = 0; i < plan->ncopies; i++)
		c->how[i] = layout->extents[plan->copies[i].chunk].change;
	*plan = (struct ck_plan){ 0 };
	m->changes = c;
	return 0;
}

static void change(const struct ck_remote_change *c)
{
	const struct ck_gather g = { .plan = &c->plan, .to = c->whole };

	for (size_t i = 0; i < c->plan.ncopies; i++)
		ck_gather_change(&g, i, c->dtype, c->how[i]);
	ck_deliver(&c->to, c->whole);
}

int ck_remote_finish(struct ck_remote_batch *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->list[i].rc)
			return m->list[i].rc;
	for (const struct ck_remote_change *c = m->changes; c; c = c->next)
		change(c);
	return 0;
}

void ck_remote_back(struct ck_remote_batch *m, size_t n,
		    const struct ck_remote_change *last)
{
	while (m->changes != last) {
		struct ck_remote_change *next = m->changes->next;

		ck_plan_fini(&m->changes->plan);
		free(m->changes->whole);
		free(m->changes);
		m->changes = next;
	}
	m->n = n;
}

void ck_remote_fini(struct ck_remote_batch *m)
{
	ck_remote_back(m, 0, NULL);
	free(m->list);
	ck_arena_fini(&m->loops);
	*m = (struct ck_remote_batch){ 0 };
}
