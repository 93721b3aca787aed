/* SPDX-License-Identifier: MIT */
/*
 * rounds: single rounds step by step: success, refusals, timeouts, lost ranks, and invalid
 * messages. All orders of messages are in rounds_orders_test.c and rounds_random_test.c, real
 * processes in rounds_ordered_test.c.
 */
#include "rounds_model.h"

static struct model m;

static uint64_t first(struct model *x, uint64_t n)
{
	(void)x;
	return n - 1; /* one_in() is always false */
}

static void begin(uint32_t size, bool quick)
{
	m = (struct model){
		.size = size, .liar = size, .quick = quick, .choose = first
	};
	model_begin(&m);
	(void)model_tick(&m);
	while (model_deliver_all(&m))
		;
}

static void end(void)
{
	model_settle(&m);
	eq_u64(m.wrong, 0);
	model_end(&m);
}

static uint64_t ask(uint32_t asker, uint32_t ranks)
{
	uint64_t op = 0;

	eq_err(model_ask(&m, asker, ranks, &op), 0);
	return op;
}

/* Delivers messages and runs ticks until nothing changes at the current time. */
static void go(void)
{
	while (model_deliver_all(&m))
		(void)model_tick(&m);
}

static void pass(uint64_t msec)
{
	for (uint64_t i = 0; i < msec; i += 50) {
		model_pass(&m, 50);
		(void)model_tick(&m);
		go();
	}
}

static unsigned letters_left(void)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < m.size; i++)
		for (uint32_t k = 0; k < m.size; k++)
			n += m.letters[i][k].first != NULL;
	return n;
}

/* --- success ----------------------------------------------------------------------------- */

static void test_one(void)
{
	uint64_t op;

	begin(4, true);
	op = ask(2, 0xd);
	ok(model_tick(&m));
	go();
	eq_i64(model_op(&m, op)->rc, 0);
	eq_u64(model_op(&m, op)->overs, 1);
	eq_u64(model_op(&m, op)->good, 0xd);
	end();
}

/* Without a round in flight no message is sent, and no tick is needed. */
static void test_idle(void)
{
	begin(4, true);
	ok(!model_tick(&m));
	(void)ask(1, 0xf);
	go();
	ok(!model_tick(&m));
	pass(100000);
	eq_u64(letters_left(), 0);
	for (uint32_t i = 0; i < m.size; i++)
		eq_u64(ck_rounds_tick(m.nodes[i].all, m.now), CK_ROUNDS_IDLE);
	end();
}

static void test_alone(void)
{
	uint64_t op;

	begin(1, true);
	op = ask(0, 1);
	go();
	eq_i64(model_op(&m, op)->rc, 0);
	eq_u64(model_op(&m, op)->good, 1);
	end();
}

/* A rank that runs a round prepares the next ones, up to its limit. */
static void test_busy(void)
{
	uint64_t ops[4];

	begin(4, false);
	for (unsigned i = 0; i < 3; i++)
		ops[i] = ask(i, 1U << i | 8);
	go();
	eq_u64(m.nodes[3].npending, MOST);
	ops[3] = ask(3, 8 | 1);
	go();
	eq_i64(model_op(&m, ops[3])->rc, -EBUSY);
	eq_u64(model_op(&m, ops[3])->overs, 1);
	end();
	for (unsigned i = 0; i < 3; i++)
		eq_i64(model_op(&m, ops[i])->rc, 0);
}

static void test_asked_too_often(void)
{
	uint64_t op;

	begin(2, false);
	for (unsigned i = 0; i < MOST; i++)
		(void)ask(0, 3);
	eq_err(model_ask(&m, 0, 3, &op), -EBUSY);
	end();
}

/* --- failure ------------------------------------------------------------------------------- */

static void test_refused(void)
{
	uint64_t op;

	begin(3, false);
	op = ask(0, 7);
	go();
	node_ready(&m.nodes[0], op);
	node_refuse(&m.nodes[2], op);
	go();
	eq_i64(model_op(&m, op)->rc, -ENOSPC);
	eq_u64(model_op(&m, op)->ended, 3);
	end();
}

static void test_counts(void)
{
	struct ck_round_pair p = { 1, { 5, 1 }, { 0, 0 } };
	uint64_t op;

	begin(2, false);
	op = ask(0, 3);
	go();
	eq_err(ck_rounds_ready(m.nodes[0].all, op, &p, 1), 0);
	p = (struct ck_round_pair){ 0, { 0, 0 }, { 5, 2 } };
	eq_err(ck_rounds_ready(m.nodes[1].all, op, &p, 1), 0);
	m.nodes[0].npending = m.nodes[1].npending = 0;
	go();
	eq_i64(model_op(&m, op)->rc, -EBADMSG);
	eq_u64(model_op(&m, op)->begun, 0);
	eq_u64(m.nodes[0].epoch, m.size);
	end();
}

/* Invalid pairs in the READY message of a rank. */
static void test_unsound_pairs(void)
{
	static const struct ck_round_pair bad[] = {
		{ 2, { 5, 1 }, { 0, 0 } }, /* not a rank of the round */
		{ 9, { 5, 1 }, { 0, 0 } },
		{ 1, { 0, 0 }, { 0, 0 } }, /* nothing */
		{ 1, { 5, 0 }, { 5, 1 } }, /* bytes without a message */
		{ 1, { CK_ROUND_BYTES + 1, 1 }, { 0, 0 } },
		{ 1, { 5, CK_ROUND_MESSAGES + 1 }, { 0, 0 } },
	};
	const struct ck_round_pair twice[] = { { 1, { 5, 1 }, { 0, 0 } },
					       { 1, { 5, 1 }, { 0, 0 } } };
	uint64_t op;

	begin(3, false);
	op = ask(0, 3);
	go();
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		eq_err(ck_rounds_ready(m.nodes[0].all, op, &bad[i], 1),
		       -EINVAL);
	eq_err(ck_rounds_ready(m.nodes[0].all, op, twice, 2), -EINVAL);
	end();
}

/* --- time ------------------------------------------------------------------------------------- */

/* A rank that was not ready in time gets no further round for a while. */
static void test_slow(void)
{
	uint64_t op, next;

	begin(3, false);
	op = ask(0, 3);
	go();
	node_ready(&m.nodes[0], op);
	m.nodes[1].stopped = true;
	pass(PREPARE_MSEC - 100);
	eq_u64(model_op(&m, op)->overs, 0);
	pass(200);
	eq_i64(model_op(&m, op)->rc, -ETIMEDOUT);
	m.nodes[1].stopped = false;
	eq_err(model_ask(&m, 0, 3, &next), -EHOSTDOWN);
	m.quick = true;
	(void)ask(0, 5);
	/* The rank gets rounds again after it has sent a message, or after a long time. */
	(void)ask(1, 3);
	go();
	(void)ask(0, 3);
	end();
}

/* A hanging round is aborted by all ranks, and the next round runs in the next epoch. */
static void test_hang(void)
{
	uint64_t hung, behind;

	begin(3, true);
	m.slow = true;
	hung = ask(1, 6);
	while (!m.nodes[1].running) {
		(void)model_deliver_all(&m);
		(void)model_tick(&m);
		m.nodes[1].hangs = m.nodes[2].hangs = true;
	}
	m.slow = false;
	behind = ask(2, 7);
	pass(ROUND_MSEC / 2);
	eq_u64(model_op(&m, behind)->overs, 0);
	pass(ROUND_MSEC);
	eq_i64(model_op(&m, hung)->rc, -ETIMEDOUT);
	eq_u64(model_op(&m, hung)->ended, 6);
	eq_i64(model_op(&m, behind)->rc, 0);
	eq_u64(model_op(&m, behind)->good, 7);
	eq_u64(m.nodes[0].epoch, 2 * (uint64_t)m.size);
	end();
}

/* A process that was stopped does not treat its own gap as a timeout of others. */
static void test_gap(void)
{
	uint64_t op;

	begin(2, false);
	op = ask(0, 3);
	go();
	m.now += 100000;
	(void)model_tick(&m);
	go();
	eq_u64(model_op(&m, op)->overs, 0);
	model_op(&m, op)->asked_at = m.now;
	end();
	eq_i64(model_op(&m, op)->rc, 0);
}

/* --- lost ranks ---------------------------------------------------------------------------------- */

static void lose(uint32_t rank)
{
	m.nodes[rank].dead = true;
	model_observe(&m);
	go();
}

static void test_lost(void)
{
	uint64_t op, next;

	begin(4, false);
	op = ask(1, 0xe);
	go();
	lose(3);
	eq_i64(model_op(&m, op)->rc, -EHOSTDOWN);
	eq_u64(model_op(&m, op)->ended, 6);
	eq_err(model_ask(&m, 1, 0xe, &next), -EHOSTDOWN);
	m.quick = true;
	next = ask(1, 7);
	go();
	eq_i64(model_op(&m, next)->rc, 0);
	end();
}

/* The next lowest rank becomes the sequencer, in an epoch with a number of its own. */
static void test_sequencers(void)
{
	uint64_t op;

	begin(4, true);
	for (uint32_t gone = 0; gone < 3; gone++) {
		op = ask(3, 0xfU << gone & 0xf);
		go();
		eq_i64(model_op(&m, op)->rc, 0);
		eq_u64(m.nodes[3].epoch % m.size, gone);
		lose(gone);
	}
	op = ask(3, 8);
	go();
	eq_i64(model_op(&m, op)->rc, 0);
	end();
}

/* If two ranks begin an epoch at the same time, all ranks use the greater number. */
static void test_two_sequencers(void)
{
	uint64_t op;

	begin(4, true);
	node_lose(&m.nodes[1], 0); /* but rank 0 lives */
	go();
	for (uint32_t i = 0; i < 4; i++)
		ok(m.nodes[i].all->epoch == 5 || i == 0);
	op = ask(2, 0xc);
	go();
	eq_i64(model_op(&m, op)->rc, 0);
	eq_u64(m.nodes[3].epoch, 5);
	node_lose(&m.nodes[0], 1);
	go();
	op = ask(2, 0xd);
	go();
	eq_i64(model_op(&m, op)->rc, 0);
	eq_u64(m.nodes[3].epoch, 8);
	end();
}

static void test_end(void)
{
	uint64_t op, other;

	begin(3, false);
	op = ask(1, 6);
	other = ask(0, 3);
	go();
	ok(ck_rounds_end(m.nodes[1].all, m.now));
	eq_i64(model_op(&m, op)->rc, -ECANCELED);
	go();
	eq_i64(model_op(&m, other)->rc, -ECANCELED);
	eq_err(model_ask(&m, 1, 6, &op), -ECANCELED);
	op = ask(0, 3);
	go();
	eq_i64(model_op(&m, op)->rc, -ECANCELED);
	end();
}

/* --- options ------------------------------------------------------------------------------------- */

static void test_options(void)
{
	static const struct ck_rounds_options bad[] = {
		{ 0, 0, 1, 1, 1 }, { 2, 2, 1, 1, 1 },
		{ 0, 2, 0, 1, 1 }, { 0, 2, 1, 0, 1 },
		{ 0, 2, 1, 1, 0 }, { 0, CK_ROUNDS_SIZE + 1, 1, 1, 1 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		ok(!ck_rounds_make(&bad[i], NULL, NULL, 0));
	ck_rounds_free(NULL);
}

static void test_bad_asks(void)
{
	const uint32_t unsorted[] = { 1, 0 }, twice[] = { 0, 0 },
		       others[] = { 1, 2 }, beyond[] = { 0, 3 };
	static const char large[CK_ROUND_WHAT + 1];
	struct ck_rounds *all;
	uint64_t op;

	begin(3, true);
	all = m.nodes[0].all;
	eq_err(ck_rounds_request(all, unsorted, 2, CK_STR("x"), &op), -EINVAL);
	eq_err(ck_rounds_request(all, twice, 2, CK_STR("x"), &op), -EINVAL);
	eq_err(ck_rounds_request(all, others, 2, CK_STR("x"), &op), -EINVAL);
	eq_err(ck_rounds_request(all, beyond, 2, CK_STR("x"), &op), -EINVAL);
	eq_err(ck_rounds_request(all, unsorted, 0, CK_STR("x"), &op), -EINVAL);
	eq_err(ck_rounds_request(all, twice, 1,
				 (struct ck_str){ large, sizeof(large) }, &op),
	       -EINVAL);
	end();
}

int main(void)
{
	test_one();
	test_idle();
	test_alone();
	test_busy();
	test_asked_too_often();
	test_refused();
	test_counts();
	test_unsound_pairs();
	test_slow();
	test_hang();
	test_gap();
	test_lost();
	test_sequencers();
	test_two_sequencers();
	test_end();
	test_options();
	test_bad_asks();
	return tap_done();
}
