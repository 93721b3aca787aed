/* SPDX-License-Identifier: MIT */
/*
 * gather_request: copies a request, and checks that every descriptor stays
 * within its slot. No state, any thread.
 */
#include "gather_request.h"

void ck_gather_request_clear(struct ck_gather_request *j)
{
	free(j->copies);
	free(j->loops);
	free(j->request.wants);
	j->copies = NULL;
	j->loops = NULL;
	j->request.wants = NULL;
}

/* True if all runs of c end within `bytes` bytes; src: of the source, else of
 * the destination. */
static bool is_within(const struct ck_gather_request *j,
		      const struct ck_gather_desc *c, bool src, uint64_t bytes)
{
	uint64_t end = src ? c->src : c->dst, step;

	if (!ck_add(&end, end, c->run))
		return false;
	for (uint32_t k = 0; k < c->nloops; k++) {
		const struct ck_loop *l = &j->loops[c->loop + k];

		if (!ck_mul(&step, src ? l->src : l->dst, l->count - 1) ||
		    !ck_add(&end, end, step))
			return false;
	}
	return end <= bytes;
}

static bool is_copy_right(const struct ck_gather_request *j,
			  const struct ck_gather_desc *c, uint32_t nloops)
{
	const struct ck_dtype *dtype = ck_dtype_at(c->dtype);
	if (c->run == 0 || c->change > CK_GATHER_CHANGES ||
	    c->nloops > CK_MAX_DIMS || c->loop > nloops ||
	    c->nloops > nloops - c->loop)
		return false;
	for (uint32_t k = 0; k < c->nloops; k++)
		if (j->loops[c->loop + k].count == 0)
			return false;
	if (c->change && (dtype->size == 0 || c->run % dtype->size))
		return false;
	return is_within(j, c, true, j->work.filled) &&
	       is_within(j, c, false, j->work.results);
}

/* Copies the transfer list, and checks that all entries lie within the slot. */
static bool take_wants(struct ck_gather_request *j,
		       const struct ck_gather_slot *slot,
		       const struct ck_gpu_message *m)
{
	struct ck_want want;
	struct ck_cur c;
	int next;

	j->request = (struct ck_gpurounds_request){ .work = &j->work,
						    .wanted = m->wanted };
	if (m->wanted == 0)
		return true;
	if (m->wanted > CK_GPU_WANTS)
		return false;
	j->request.wants = malloc(m->wanted);
	if (!j->request.wants)
		return false;
	memcpy(j->request.wants, slot->wants, m->wanted);
	c = ck_cur_make(j->request.wants, m->wanted);
	while ((next = ck_want_next(&c, &want)) > 0)
		if (want.at > j->work.filled ||
		    want.bytes > j->work.filled - want.at)
			return false;
	return next == 0;
}

bool ck_gather_request_take(uint8_t *memory, const struct ck_gpu_message *m,
			    struct ck_gather_request *j)
{
	struct ck_gather_slot slot;

	if (m->filled == 0 || m->filled > CK_GPU_ROOM || m->results == 0 ||
	    m->results > CK_GPU_ROOM || m->ncopies == 0 ||
	    m->ncopies > CK_GPU_COPIES || m->nloops > CK_GPU_LOOPS)
		return false;
	ck_gpu_slot_at(memory, m->slot, &slot);
	j->copies = calloc(m->ncopies, sizeof(*j->copies));
	j->loops = calloc(m->nloops + 1UL, sizeof(*j->loops));
	if (!j->copies || !j->loops)
		return false;
	memcpy(j->copies, slot.copies, m->ncopies * sizeof(*j->copies));
	memcpy(j->loops, slot.loops, m->nloops * sizeof(*j->loops));
	j->work = (struct ck_gpu_work){ .fill = m->all_remote ? NULL
							      : slot.fill,
					.result = slot.result,
					.filled = m->filled,
					.results = m->results,
					.ncopies = m->ncopies,
					.copies = j->copies,
					.loops = j->loops };
	for (uint32_t i = 0; i < m->ncopies; i++)
		if (!is_copy_right(j, &j->copies[i], m->nloops))
			return false;
	if (m->all_remote && !m->wanted)
		return false;
	return take_wants(j, &slot, m);
}
