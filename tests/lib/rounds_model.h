/* SPDX-License-Identifier: MIT */
/*
 * rounds_model: ranks that agree about rounds, and the messages between them, in
 * one thread and on a simulated clock. The test chooses the next event; this file
 * implements the events and checks the results.
 */
#ifndef CK_ROUNDS_MODEL_H
#define CK_ROUNDS_MODEL_H

#include "rounds_nodes.h"

/* --- a model ------------------------------------------------------------------------------------ */

static inline void node_begin_life(struct model *m, uint32_t rank)
{
	const struct ck_rounds_options o = { rank, m->size, MOST, PREPARE_MSEC,
					     ROUND_MSEC };
	struct node *n = &m->nodes[rank];

	*n = (struct node){ .user = { node_send, node_prepare, node_ended,
				      node_over },
			    .backend = { node_epoch, node_token, node_begin,
					 node_poll, node_abort },
			    .m = m,
			    .rank = rank };
	n->all = ck_rounds_make(&o, &n->user, &n->backend, m->now);
	if (!n->all)
		abort();
}

static inline void model_begin(struct model *m)
{
	m->now = 1000000;
	for (uint32_t i = 0; i < m->size; i++)
		node_begin_life(m, i);
}

/* Frees the state of a dead rank. */
static inline void node_end_life(struct node *n)
{
	while (!ck_rounds_end(n->all, n->m->now))
		(void)!ck_rounds_tick(n->all, n->m->now);
	ck_rounds_free(n->all);
	for (uint32_t i = 0; i < n->m->size; i++) {
		free(n->sends[i].list);
		free(n->receives[i].list);
	}
}

static inline void model_end(struct model *m)
{
	m->over = true;
	for (uint32_t i = 0; i < m->size; i++)
		node_end_life(&m->nodes[i]);
	for (uint32_t i = 0; i < m->size; i++)
		for (uint32_t k = 0; k < m->size; k++)
			letters_clear(&m->letters[i][k]);
}

static inline int model_ask(struct model *m, uint32_t asker, uint32_t mask,
			    uint64_t *op)
{
	uint32_t ranks[NODES], n = 0;
	struct model_op *o;
	int rc;

	for (uint32_t i = 0; i < m->size; i++)
		if (mask >> i & 1)
			ranks[n++] = i;
	rc = ck_rounds_request(m->nodes[asker].all, ranks, n, CK_STR("what"),
			       op);
	if (rc)
		return rc;
	o = model_op(m, *op);
	o->ranks = mask;
	return 0;
}

static inline void model_pass(struct model *m, uint64_t msec)
{
	m->now += msec;
	for (uint32_t i = 0; i < m->size; i++)
		if (m->nodes[i].stopped)
			m->nodes[i].away += msec;
}

/* Ticks all live ranks. True if any of them has work in progress. */
static inline bool model_tick(struct model *m)
{
	bool busy = false;

	for (uint32_t i = 0; i < m->size; i++)
		if (!m->nodes[i].dead && !m->nodes[i].stopped)
			busy |= ck_rounds_tick(m->nodes[i].all, m->now) !=
				CK_ROUNDS_IDLE;
	return busy;
}

/* Each live rank must have reported the end of an op exactly once. */
static inline void model_check_op(struct model *m, const struct model_op *o)
{
	uint32_t live = 0;

	for (uint32_t i = 0; i < m->size; i++)
		live |= m->nodes[i].dead ? 0 : 1U << i;
	if ((o->prepared & live) != (o->ended & live))
		model_wrong(m, "not ended");
	if (live >> ck_rounds_initiator(o->op) & 1 && o->overs != 1)
		model_wrong(m, "not over");
}

/* Delivers all messages. True if there was a message. */
static inline bool model_deliver_all(struct model *m)
{
	bool any = false;

	for (uint32_t i = 0; i < m->size; i++)
		for (uint32_t k = 0; k < m->size; k++)
			while (m->letters[i][k].first) {
				any = true;
				model_deliver(m, i, k);
			}
	return any;
}

static inline void model_observe(struct model *m)
{
	for (uint32_t i = 0; i < m->size; i++)
		for (uint32_t k = 0; k < m->size; k++)
			if (m->nodes[k].dead && !m->nodes[i].dead)
				node_lose(&m->nodes[i], k);
}

/* Stops all new events: every op must end within its time limit. */
static inline void model_settle(struct model *m)
{
	uint64_t end = m->now + PREPARE_MSEC + 6 * ROUND_MSEC;

	m->quick = true;
	for (uint32_t i = 0; i < m->size; i++) {
		struct node *n = &m->nodes[i];

		n->stopped = false;
		while (!n->dead && n->npending)
			node_ready(n, n->pending[0]);
	}
	do {
		while (model_deliver_all(m))
			;
		model_observe(m);
		model_pass(m, 50);
	} while ((model_tick(m) || model_deliver_all(m)) && m->now < end);
	if (m->now >= end)
		model_wrong(m, "an op does not end");
	for (unsigned i = 0; i < m->nops; i++)
		model_check_op(m, &m->ops[i]);
}

#endif
