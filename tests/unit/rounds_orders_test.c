/* SPDX-License-Identifier: MIT */
/*
 * rounds: few ranks and rounds, and every order in which messages can arrive. One rank dies
 * at every moment, and the others notice it at every later moment. The conditions for each
 * end are in rounds_nodes.h. CKPTFS_CASES: most orders of one scenario; small scenarios run
 * in all orders.
 */
#include "rounds_model.h"

enum { DEPTH = 256, EVENTS = 2 * NODES * NODES };

/* --- orders ------------------------------------------------------------------------------ */

/* The choices of one run and the number of options of each. The next run takes the next
 * option. */
static struct {
	uint32_t at, depth;
	uint8_t path[DEPTH], width[DEPTH];
} walk;

static uint64_t follow(struct model *m, uint64_t n)
{
	(void)m;
	if (n < 2)
		return 0;
	if (walk.at == walk.depth) {
		if (walk.depth == DEPTH)
			abort();
		walk.path[walk.depth] = 0;
		walk.width[walk.depth++] = (uint8_t)n;
	}
	return walk.path[walk.at++];
}

/* Advances to the next order. False after the last one. */
static bool next_order(void)
{
	while (walk.depth) {
		uint32_t last = walk.depth - 1;

		if (++walk.path[last] < walk.width[last])
			break;
		walk.depth--;
	}
	walk.at = 0;
	return walk.depth;
}

/* --- possible events ----------------------------------------------------------------------- */

struct scene {
	const char *what;
	uint32_t size;

	struct {
		uint32_t asker, ranks; /* bits */
	} asks[2];

	uint32_t victim; /* rank that dies; `size` if all ranks live */
	bool all;	 /* all orders must be played */
};

struct event {
	enum { DELIVER, DIE, SEE } kind;

	uint32_t from, to;
};

static uint32_t find_events(struct model *m, const struct scene *s,
			    struct event out[EVENTS])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->size; i++)
		for (uint32_t k = 0; k < m->size; k++)
			if (m->letters[i][k].first && !m->nodes[k].dead)
				out[n++] = (struct event){ DELIVER, i, k };
	if (s->victim == m->size)
		return n;
	if (!m->nodes[s->victim].dead && n)
		out[n++] = (struct event){ DIE, s->victim, 0 };
	for (uint32_t k = 0; k < m->size; k++)
		if (m->nodes[s->victim].dead && !m->nodes[k].dead &&
		    !m->nodes[k].saw_lost[s->victim])
			out[n++] = (struct event){ SEE, s->victim, k };
	return n;
}

static void happen(struct model *m, struct event e)
{
	if (e.kind == DELIVER)
		model_deliver(m, e.from, e.to);
	else if (e.kind == DIE)
		m->nodes[e.from].dead = true;
	else
		node_lose(&m->nodes[e.to], e.from);
}

/* Delivers messages of ranks to themselves, and runs ticks, before any other event. */
static void go_on(struct model *m)
{
	bool any;

	do {
		any = false;
		for (uint32_t i = 0; i < m->size; i++)
			while (!m->nodes[i].dead && m->letters[i][i].first) {
				model_deliver(m, i, i);
				any = true;
			}
		(void)model_tick(m);
	} while (any);
}

/* --- scenarios ------------------------------------------------------------------------------- */

/* Rounds without the victim must succeed. */
static void check_others(struct model *m, uint32_t victim)
{
	for (unsigned i = 0; i < m->nops; i++)
		if (!(m->ops[i].ranks >> victim & 1) && m->ops[i].rc)
			model_wrong(m, "failed without a reason");
}

static bool run(const struct scene *s)
{
	static struct model m;
	struct event events[EVENTS];
	uint32_t n;
	uint64_t op;

	m = (struct model){ .size = s->size,
			    .liar = s->size,
			    .quick = true,
			    .choose = follow };
	model_begin(&m);
	go_on(&m);
	for (unsigned i = 0; i < 2; i++)
		if (s->asks[i].ranks &&
		    model_ask(&m, s->asks[i].asker, s->asks[i].ranks, &op))
			model_wrong(&m, "ask");
	go_on(&m);
	while ((n = find_events(&m, s, events))) {
		happen(&m, events[m.choose(&m, n)]);
		go_on(&m);
	}
	model_settle(&m);
	check_others(&m, s->victim);
	model_end(&m);
	return m.wrong == 0;
}

static void test_scene(const struct scene *s, uint64_t most)
{
	uint64_t n = 0, wrong = 0;
	bool more = true;

	memset(&walk, 0, sizeof(walk));
	for (; more && n < most && !wrong; n++) {
		wrong += !run(s);
		more = next_order();
	}
	printf("# %s: %" PRIu64 " orders%s\n", s->what, n,
	       more ? ", not all" : "");
	eq_u64(wrong, 0);
	ok(!more || !s->all);
}

/* More orders than any scenario with `all` has. */
enum { ALL = 20000 };

static const struct scene scenes[] = {
	{ "one round of two", 2, { { 1, 3 } }, 2, true },
	{ "two that cross", 2, { { 0, 3 }, { 1, 3 } }, 2, true },
	{ "the asker dies", 2, { { 1, 3 } }, 1, true },
	{ "the sequencer dies", 2, { { 1, 3 } }, 0, true },
	{ "two that cross, the sequencer dies",
	  2,
	  { { 0, 3 }, { 1, 3 } },
	  0,
	  true },
	{ "one round of three", 3, { { 1, 7 } }, 3, true },
	{ "three, the sequencer dies", 3, { { 1, 7 } }, 0, false },
	{ "three, the asker dies", 3, { { 1, 7 } }, 1, false },
	{ "three, another one dies", 3, { { 1, 7 } }, 2, false },
	{ "two beside the sequencer, which dies", 3, { { 2, 6 } }, 0, false },
	{ "two that cross, of three", 3, { { 1, 7 }, { 2, 7 } }, 3, false },
	{ "two that cross, one dies", 3, { { 1, 7 }, { 2, 6 } }, 2, false },
};

int main(void)
{
	uint64_t most = tap_cases("CKPTFS_CASES", TAP_SLOW ? 700 : 2500,
				  TAP_SLOW ? 20000 : 100000);

	for (size_t i = 0; i < CK_ARRAY_SIZE(scenes); i++)
		test_scene(&scenes[i], ck_max(most, scenes[i].all ? ALL : 0U));
	return tap_done();
}
