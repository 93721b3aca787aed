/* SPDX-License-Identifier: MIT */
/*
 * rounds: ranks propose rounds at random, are slow, refuse, send wrong counts, stop and die.
 * Messages arrive in any permitted order, or are lost. The conditions for each end are in
 * rounds_model.h. CKPTFS_CASES: number of schedules.
 */
#include "rounds_model.h"

#include <unistd.h>

struct tally {
	uint64_t ops, good, failed, died, epochs, lies;
};

static uint64_t by_lot(struct model *m, uint64_t n)
{
	return tap_random(&m->random) % n;
}

static uint32_t any_node(struct model *m)
{
	return (uint32_t)m->choose(m, m->size);
}

static bool runs(const struct node *n)
{
	return !n->dead && !n->stopped;
}

/* --- events ----------------------------------------------------------------------------- */

static void do_ask(struct model *m)
{
	uint32_t asker = any_node(m);
	uint32_t mask = 1U << asker | (uint32_t)m->choose(m, 1U << m->size);
	uint64_t op;

	if (m->nops < MODEL_OPS / 2 && runs(&m->nodes[asker]))
		(void)!model_ask(m, asker, mask, &op);
}

static void do_deliver(struct model *m)
{
	uint32_t from = any_node(m), to = any_node(m);

	if (!m->nodes[to].stopped)
		model_deliver(m, from, to);
}

static void do_prepare(struct model *m)
{
	struct node *n = &m->nodes[any_node(m)];
	uint64_t op;

	if (!runs(n) || !n->npending)
		return;
	op = n->pending[m->choose(m, n->npending)];
	if (model_one_in(m, 12))
		node_refuse(n, op);
	else
		node_ready(n, op);
}

static void do_tick(struct model *m)
{
	model_pass(m, m->choose(m, 20));
	(void)model_tick(m);
}

static void do_kill(struct model *m)
{
	uint32_t live = 0;

	for (uint32_t i = 0; i < m->size; i++)
		live += !m->nodes[i].dead;
	if (live > 1 && model_one_in(m, 10))
		m->nodes[any_node(m)].dead = true;
}

static void do_observe(struct model *m)
{
	struct node *n = &m->nodes[any_node(m)];
	uint32_t other = any_node(m);

	if (runs(n) && m->nodes[other].dead)
		node_lose(n, other);
}

static void do_stop(struct model *m)
{
	struct node *n = &m->nodes[any_node(m)];

	n->stopped = !n->stopped && model_one_in(m, 8);
}

/* Advances the time while no rank has anything to do. */
static void do_pause(struct model *m)
{
	model_pass(m, m->choose(m, PAUSE_MSEC));
	(void)model_tick(m);
}

enum harm {
	CALM, /* each kind of harm includes those above it */
	STOPS,
	DEATHS,
	LOSSES,
	HARMS
};

static void step(struct model *m, enum harm harm)
{
	switch (m->choose(m, 64)) {
	case 0:
	case 1: do_ask(m); break;
	case 2:
	case 3:
	case 4:
	case 5: do_prepare(m); break;
	case 6:
	case 7:
	case 8: do_tick(m); break;
	case 10:
		if (harm >= STOPS && model_one_in(m, 4))
			do_stop(m);
		break;
	case 11:
		if (harm >= DEATHS)
			do_kill(m);
		break;
	case 12: do_observe(m); break;
	case 13:
		if (harm >= STOPS && model_one_in(m, 4))
			do_pause(m);
		break;
	default: do_deliver(m); break;
	}
}

/* --- schedules ----------------------------------------------------------------------------- */

static void count(const struct model *m, struct tally *t)
{
	for (unsigned i = 0; i < m->nops; i++) {
		const struct model_op *o = &m->ops[i];

		t->good += o->overs && o->rc == 0;
		t->failed += o->overs && o->rc;
		t->lies += o->overs && o->rc == -EBADMSG;
	}
	t->ops += m->nops;
	for (uint32_t i = 0; i < m->size; i++) {
		t->died += m->nodes[i].dead;
		t->epochs += m->nodes[i].epoch > m->size;
	}
}

/* Without faults, rounds fail only for a reason that the schedule explains. */
static void check_calm(struct model *m)
{
	for (unsigned i = 0; i < m->nops; i++) {
		int rc = m->ops[i].rc;

		if (rc && rc != -EBUSY && rc != -ENOSPC && rc != -ECANCELED &&
		    rc != -EBADMSG && rc != -ETIMEDOUT)
			model_wrong(m, "failed without a reason");
		if (m->ops[i].rc == -EBADMSG && !m->ops[i].lied)
			model_wrong(m, "right counts were refused");
	}
}

static unsigned run(uint64_t seed, bool canary, struct tally *t)
{
	static struct model m;

	enum harm harm;
	uint64_t steps;

	m = (struct model){ .choose = by_lot, .random = seed };
	harm = (enum harm)by_lot(&m, HARMS);
	m.size = 1 + (uint32_t)by_lot(&m, NODES);
	steps = 100 + by_lot(&m, 1500);
	m.liar = by_lot(&m, 4) ? m.size : (uint32_t)by_lot(&m, m.size);
	harm = canary ? LOSSES : harm;
	m.lossy = harm == LOSSES;
	m.loses_go = canary;
	m.slow = harm >= STOPS;
	m.quick = by_lot(&m, 2);
	model_begin(&m);
	for (uint64_t i = 0; i < steps && !m.wrong; i++)
		step(&m, harm);
	m.lossy = false; /* the remaining messages arrive */
	model_settle(&m);
	if (harm == CALM)
		check_calm(&m);
	count(&m, t);
	model_end(&m);
	if (m.wrong && !canary)
		printf("# schedule with seed %" PRIu64 ", harm %u, %u ranks\n",
		       seed, (unsigned)harm, m.size);
	return m.wrong;
}

/* Canary: a rank that does not receive GO runs the next round in its place. The model detects
 * that. */
static bool test_canary(uint64_t *random)
{
	struct tally t = { 0 };
	unsigned found = 0;

	for (unsigned i = 0; i < 2000 && found <= 10; i++)
		found += run(tap_random(random) | 1, true, &t) != 0;
	return found > 10;
}

int main(void)
{
	uint64_t n = tap_cases("CKPTFS_CASES", TAP_SLOW ? 1000 : 4000,
			       TAP_SLOW ? 20000 : 200000);
	uint64_t random = tap_seed(20262) | 1;
	struct tally t = { 0 };
	unsigned wrong = 0;

	alarm(600);
	for (uint64_t i = 0; i < n && wrong < 3; i++)
		wrong += run(tap_random(&random) | 1, false, &t) != 0;
	eq_u64(wrong, 0);
	ok(t.good > n && t.failed > n / 2 && t.died > n / 20 &&
	   t.epochs > n / 4 && t.lies > n / 50);
	printf("# %" PRIu64 " schedules: %" PRIu64 " ops, %" PRIu64
	       " good, %" PRIu64 " failed, %" PRIu64 " lies, %" PRIu64
	       " deaths, %" PRIu64 " ranks in a later epoch\n",
	       n, t.ops, t.good, t.failed, t.lies, t.died, t.epochs);
	ok(test_canary(&random));
	return tap_done();
}
