/* SPDX-License-Identifier: MIT */
/*
 * pack: descriptors whose runs lie one behind the other, as they do on their
 * way between hosts.
 */
#include "io/local/gather.h"
#include "io/local/range.h"

void ck_loops_pack(struct ck_loop *loops, uint32_t nloops, uint64_t run)
{
	for (uint32_t k = nloops; k > 0 && k--;) {
		loops[k].dst = run;
		run *= loops[k].count;
	}
}

bool ck_copy_desc_measure(const struct ck_copy_desc *m, uint64_t *bytes,
			  uint64_t *end)
{
	*bytes = m->run;
	for (uint32_t k = 0; k < m->nloops; k++)
		if (!ck_mul(bytes, *bytes, m->loops[k].count))
			return false;
	return ck_add(end, m->fpos, m->run) &&
	       ck_loops_end(m->loops, m->nloops, end);
}

void ck_copy_desc_unpack(const struct ck_copy_desc *m, const uint8_t *packed)
{
	struct ck_loop loops[CK_MAX_DIMS];
	struct ck_plan_op copy = { .run = m->run, .nloops = m->nloops };
	const struct ck_plan plan = { .copies = &copy,
				      .loops = loops,
				      .ncopies = 1,
				      .nloops = m->nloops };
	struct ck_gather g = { &plan, &packed, m->to };

	for (uint32_t k = 0; k < m->nloops; k++)
		loops[k].count = m->loops[k].count;
	ck_loops_pack(loops, m->nloops, m->run);
	for (uint32_t k = 0; k < m->nloops; k++) {
		loops[k].src = loops[k].dst;
		loops[k].dst = m->loops[k].dst;
	}
	ck_gather_run(&g);
}
