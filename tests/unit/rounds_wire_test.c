/* SPDX-License-Identifier: MIT */
/*
 * rounds: invalid messages are refused without an effect. A malicious rank that sends random
 * or forbidden messages delays the other ranks only for a limited time.
 */
#include "rounds_model.h"

/* --- bytes ------------------------------------------------------------------------------- */

static struct ck_buf buf;

static const struct ck_round_pair pair = { 1, { 10, 1 }, { 20, 2 } };

/* A valid message of a kind, in a job of four ranks. */
static void put(enum ck_rounds_kind kind)
{
	static const uint8_t token[CK_ROUND_TOKEN];
	struct ck_rounds_message m = { .kind = kind,
				       .op = (uint64_t)2 << 48 | 1,
				       .epoch = 4 };

	switch (kind) {
	case CK_ROUNDS_PREPARE:
		m.epoch = 0;
		m.nranks = 2;
		ck_rounds_put(&buf, &m, 4);
		ck_buf_u32(&buf, 1);
		ck_buf_u32(&buf, 2);
		ck_buf_u32(&buf, 77);
		return;
	case CK_ROUNDS_READY:
		m.epoch = 0;
		ck_rounds_put(&buf, &m, CK_ROUNDS_ROW);
		ck_rounds_put_row(&buf, &pair);
		return;
	case CK_ROUNDS_REFUSED:
		m.epoch = 0;
		m.err = EIO;
		break;
	case CK_ROUNDS_PROPOSE:
		m.nranks = 2;
		ck_rounds_put(&buf, &m, 8 + CK_ROUNDS_ROW);
		ck_buf_u32(&buf, 1);
		ck_buf_u32(&buf, 2);
		ck_buf_u32(&buf, 0);
		ck_buf_u32(&buf, 1);
		ck_rounds_put_row(&buf, &pair);
		return;
	case CK_ROUNDS_GO: m.n = 3; break;
	case CK_ROUNDS_OVER: m.epoch = 0; break;
	case CK_ROUNDS_BROKEN: m.op = 0; break;
	case CK_ROUNDS_EPOCH:
		m.op = 0;
		m.nranks = 1;
		ck_rounds_put(&buf, &m, CK_ROUND_TOKEN);
		ck_buf_u32(&buf, 0);
		ck_buf_add(&buf, token, sizeof(token));
		return;
	case CK_ROUNDS_DONE:
	case CK_ROUNDS_KINDS: break;
	}
	ck_rounds_put(&buf, &m, 0);
}

static int parse(void)
{
	struct ck_rounds_message m;
	char *exact = malloc(buf.len + 1);
	int rc;

	if (!exact)
		abort();
	memcpy(exact, buf.data, buf.len);
	rc = ck_rounds_parse((struct ck_str){ exact, buf.len }, 4, &m);
	free(exact);
	return rc;
}

static void test_whole(void)
{
	for (unsigned i = 1; i < CK_ROUNDS_KINDS; i++) {
		put((enum ck_rounds_kind)i);
		eq_err(parse(), 0);
		ck_buf_u8(&buf, 0);
		eq_err(parse(), -EPROTO);
	}
}

static void test_cut(void)
{
	unsigned good = 0;

	for (unsigned i = 1; i < CK_ROUNDS_KINDS; i++) {
		put((enum ck_rounds_kind)i);
		while (buf.len) {
			buf.len--;
			good += parse() == 0;
		}
	}
	eq_u64(good, 0);
}

/* A field that the kind does not use, or that has an invalid value. */
static void test_fields(void)
{
	static const struct {
		enum ck_rounds_kind kind;
		size_t at;
		uint8_t byte;
	} bad[] = {
		{ CK_ROUNDS_GO, 0, 0 },
		{ CK_ROUNDS_GO, 0, CK_ROUNDS_KINDS },
		{ CK_ROUNDS_GO, 1, 1 },
		{ CK_ROUNDS_GO, 2, 1 },	   /* zero */
		{ CK_ROUNDS_GO, 4, 1 },	   /* err */
		{ CK_ROUNDS_GO, 16, 0 },   /* no epoch */
		{ CK_ROUNDS_GO, 22, 1 },   /* too large */
		{ CK_ROUNDS_GO, 24, 0 },   /* no n */
		{ CK_ROUNDS_GO, 14, 4 },   /* rank of the op is out of range */
		{ CK_ROUNDS_GO, 32, 1 },   /* ranks */
		{ CK_ROUNDS_GO, 36, 1 },   /* rest */
		{ CK_ROUNDS_DONE, 24, 1 }, /* n */
		{ CK_ROUNDS_DONE, 4, 1 },  /* err */
		{ CK_ROUNDS_REFUSED, 4, 0 },	 /* err */
		{ CK_ROUNDS_REFUSED, 5, 0x10 },	 /* err */
		{ CK_ROUNDS_OVER, 16, 1 },	 /* epoch */
		{ CK_ROUNDS_BROKEN, 8, 1 },	 /* op */
		{ CK_ROUNDS_PREPARE, 32, 0 },	 /* ranks */
		{ CK_ROUNDS_PREPARE, 40, 2 },	 /* twice the same */
		{ CK_ROUNDS_PREPARE, 40, 3 },	 /* descending ranks */
		{ CK_ROUNDS_PREPARE, 44, 4 },	 /* beyond the job */
		{ CK_ROUNDS_PREPARE, 35, 0x80 }, /* too many ranks */
		{ CK_ROUNDS_READY, 36, 31 },	 /* part of a row */
		{ CK_ROUNDS_EPOCH, 36, 127 },	 /* part of a token */
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++) {
		put(bad[i].kind);
		buf.data[bad[i].at] = (char)bad[i].byte;
		if (parse() != -EPROTO) {
			printf("# row %zu\n", i);
			ok(false);
		}
	}
	ok(true);
}

/* --- a malicious rank ---------------------------------------------------------------------- */

static struct model m;

static uint64_t by_lot(struct model *x, uint64_t n)
{
	return tap_random(&x->random) % n;
}

static void begin(uint32_t size, uint64_t seed)
{
	m = (struct model){ .size = size,
			    .liar = size,
			    .random = seed | 1,
			    .quick = true,
			    .choose = by_lot };
	model_begin(&m);
	(void)model_tick(&m);
	while (model_deliver_all(&m))
		;
}

static int receive(uint32_t to, uint32_t from)
{
	return ck_rounds_receive(m.nodes[to].all, from,
				 (struct ck_str){ buf.data, buf.len }, m.now);
}

static void test_strangers(void)
{
	/* Messages that rank 1 must not send to rank 0, the sequencer of epoch 4. */
	static const enum ck_rounds_kind others[] = {
		CK_ROUNDS_PREPARE, CK_ROUNDS_READY, CK_ROUNDS_REFUSED,
		CK_ROUNDS_PROPOSE, CK_ROUNDS_GO,    CK_ROUNDS_DONE,
		CK_ROUNDS_OVER,	   CK_ROUNDS_EPOCH,
	};

	begin(4, 1);
	for (size_t i = 0; i < CK_ARRAY_SIZE(others); i++) {
		put(others[i]);
		eq_err(receive(0, 1), -EPROTO);
	}
	eq_err(ck_rounds_receive(m.nodes[0].all, 4, CK_STR(""), m.now),
	       -EPROTO);
	put(CK_ROUNDS_PREPARE); /* the receiver is not a rank of the round */
	eq_err(receive(0, 2), -EPROTO);
	put(CK_ROUNDS_PROPOSE);
	buf.data[48] = 9; /* more rows of a rank than the message has */
	eq_err(receive(0, 2), -EPROTO);
	model_end(&m);
}

/* An op is prepared once, numbers increase, and OVER before GO is refused. */
static void test_order(void)
{
	begin(4, 1);
	m.quick = false;
	put(CK_ROUNDS_PREPARE);
	buf.len -= 4;
	buf.data[36] = 4;
	ck_buf_str(&buf, CK_STR("what"));
	eq_err(receive(1, 2), 0);
	eq_err(receive(1, 2), -EPROTO);
	put(CK_ROUNDS_OVER);
	eq_err(receive(1, 2), -EPROTO);
	put(CK_ROUNDS_GO);
	eq_err(receive(1, 0), 0);
	eq_err(receive(1, 0), -EPROTO);
	buf.data[16] = 8; /* an epoch that has not begun */
	eq_err(receive(1, 0), -EPROTO);
	put(CK_ROUNDS_BROKEN);
	buf.data[20] = 1; /* an epoch far ahead */
	eq_err(receive(0, 1), -EPROTO);
	model_end(&m);
}

/* A random message that resembles a valid one. */
static void put_random(void)
{
	uint64_t *r = &m.random;
	uint64_t op = tap_random(r) % m.size << 48 | (1 + tap_random(r) % 8);
	static const size_t places[] = { 4, 8, 14, 16, 24, 32, 36, 40, 44, 48 };

	put((enum ck_rounds_kind)(1 + tap_random(r) % (CK_ROUNDS_KINDS - 1)));
	if (buf.data[8])
		memcpy(buf.data + 8, &op, sizeof(op));
	if (buf.data[16])
		buf.data[16] = (char)(1 + tap_random(r) % 16);
	for (unsigned i = 0; i < tap_random(r) % 3; i++) {
		size_t at = places[tap_random(r) % CK_ARRAY_SIZE(places)];

		if (at < buf.len)
			buf.data[at] = (char)(tap_random(r) % 8);
	}
}

static void step(uint32_t hostile)
{
	uint32_t asker = (uint32_t)by_lot(&m, m.size - 1), to;
	uint64_t op;

	if (m.nops < MODEL_OPS / 2 && model_one_in(&m, 20))
		(void)!model_ask(&m, asker,
				 1U << asker | (uint32_t)by_lot(&m, 16), &op);
	put_random();
	to = (uint32_t)by_lot(&m, m.size - 1);
	if (model_one_in(&m, 4) && !m.nodes[to].saw_lost[hostile] &&
	    receive(to, hostile) && model_one_in(&m, 20))
		node_lose(&m.nodes[to], hostile);
	model_deliver(&m, (uint32_t)by_lot(&m, m.size),
		      (uint32_t)by_lot(&m, m.size));
	model_pass(&m, by_lot(&m, 4));
	(void)model_tick(&m);
}

/* Whatever a malicious rank sends, all rounds of the other ranks end. The results of these
 * rounds are not checked here. */
static bool run_hostile(uint64_t seed)
{
	uint64_t end;

	begin(4, seed);
	m.over = true;
	for (unsigned i = 0; i < 400; i++)
		step(3);
	m.nodes[3].dead = true;
	model_observe(&m);
	end = m.now + PREPARE_MSEC + 6 * ROUND_MSEC;
	do {
		while (model_deliver_all(&m))
			;
		model_pass(&m, 50);
	} while ((model_tick(&m) || model_deliver_all(&m)) && m.now < end);
	model_end(&m);
	return m.now < end;
}

static void test_hostile(uint64_t seed)
{
	uint64_t random = seed | 1;
	uint64_t n = tap_cases("CKPTFS_CASES", TAP_SLOW ? 200 : 1000,
			       TAP_SLOW ? 2000 : 20000);
	unsigned hung = 0;

	for (uint64_t i = 0; i < n; i++)
		hung += !run_hostile(tap_random(&random));
	eq_u64(hung, 0);
}

int main(void)
{
	uint64_t seed = tap_seed(20265);

	test_whole();
	test_cut();
	test_fields();
	test_strangers();
	test_order();
	test_hostile(seed);
	ck_buf_fini(&buf);
	return tap_done();
}
