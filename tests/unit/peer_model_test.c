/* SPDX-License-Identifier: MIT */
/*
 * peer_model: a remote client sends moves to real file servers over a simulated connection.
 * The connection delays, reorders and loses messages, and is replaced by another one that
 * carries the remaining messages. Peers are silent or hang, go down and come up. Files are
 * replaced, moves are interrupted, and the process stops. The test has its own clock, and
 * the schedule follows from a seed.
 *
 * Each move ends once and within its deadline: with exactly its bytes, or with an error that
 * a fault of the schedule explains.
 */
#include "peer_model.h"

/* --- deadlines --------------------------------------------------------------------------------------- */

static bool is_overdue(const struct op *op, uint32_t peer)
{
	const struct model *m = op->model;
	const struct peer *p = &m->peers[peer];
	uint64_t since = ck_max(op->begin, m->renewed);

	return !p->up || m->fair - ck_max(since, p->heard) >= SILENCE ||
	       m->fair - ck_max(since, p->progress) >= 2 * TIMEOUT + PING;
}

/* After a tick, every overdue move must have ended. */
static void check_times(struct model *m)
{
	for (unsigned i = 0; i < m->nops; i++) {
		struct op *op = &m->ops[i];
		bool overdue = true;

		if (!is_live(op))
			continue;
		if (op->due)
			wrong(m, "interrupted in vain");
		for (uint32_t p = 0; p < m->npeers; p++)
			if (op->asked[p] && !is_overdue(op, p))
				overdue = false;
		if (overdue)
			wrong(m, "later than promised");
	}
	for (uint32_t p = 0; p < m->npeers; p++)
		if (ck_calls_is_up(m->calls, p) != m->peers[p].up ||
		    (m->calm && !m->peers[p].up))
			wrong(m, "up, or down");
}

static void tick(struct model *m)
{
	uint32_t next;

	tell_time(m);
	for (uint32_t i = 0; i < m->npeers; i++) {
		const struct peer *p = &m->peers[i];

		if (p->up && m->fair - p->heard >= SILENCE)
			down(m, i);
	}
	m->tick_due = UINT64_MAX;
	next = ck_calls_tick(m->calls, m->now);
	if (next == 0 || next > PING)
		wrong(m, "ticks are too rare");
	m->tick_due = ck_min(m->tick_due, m->now + next + below(m, LATE));
	check_times(m);
}

/* Advances the clock to the next event: a message, the end of a full connection, or a tick. */
static void advance(struct model *m)
{
	uint64_t next = m->tick_due;
	size_t first = m->packets.n;

	for (size_t i = 0; i < m->packets.n; i++)
		if (m->packets.list[i].due <= next) {
			next = m->packets.list[i].due;
			first = i;
		}
	if (m->full && m->full_until < next) {
		m->now = ck_max(m->now, m->full_until);
		m->full = false;
		m->tick_due = m->now;
		return;
	}
	m->now = ck_max(m->now, next);
	if (first < m->packets.n)
		deliver(m, first);
	else
		tick(m);
}

/* --- a schedule -------------------------------------------------------------------------------------------- */

static void model_begin(struct model *m)
{
	m->options = (struct ck_calls_options){ .ping_msec = PING,
						.silence_msec = SILENCE,
						.timeout_msec = TIMEOUT };
	m->line = (struct ck_line){ line_send, line_wake };
	m->npeers = m->options.npeers = 1 + (uint32_t)below(m, OWNERS);
	m->window = m->options.window = 1 + below(m, one_in(m, 2) ? 200 : 4000);
	m->calm = one_in(m, 3);
	m->steady = m->calm && one_in(m, 2);
	m->most = 1 + (unsigned)below(m, OPS);
	m->now = m->told = m->fair = TIMEOUT + below(m, 1000000);
	m->renewed = m->fair;
	m->tick_due = m->now + below(m, 250);
	for (uint32_t i = 0; i < m->npeers; i++)
		m->peers[i] = (struct peer){ .up = true,
					     .heard = m->fair,
					     .progress = m->fair };
	whereabouts_fill(m->files, m->npeers);
	m->calls = ck_calls_make(&m->options, &m->line, m->now);
	if (!m->calls)
		abort();
	ck_remote_client_init(&m->requester,
			      &(struct ck_routes){ .calls = m->calls,
						   .files = m->files,
						   .n = SET_FILES });
}

/* Starts no more moves and runs until all moves have ended. About half of the peers work again. */
static void run_out(struct model *m)
{
	enum { STEPS = 20000 };

	unsigned steps;

	for (uint32_t i = 0; i < m->npeers; i++)
		if (one_in(m, 2))
			m->peers[i].mode = FINE;
	for (steps = 0; any_live(m) && steps < STEPS; steps++)
		advance(m);
	if (steps == STEPS)
		wrong(m, "no end");
}

/* True if each peer is up and has sent a message after `since`. */
static bool all_heard(const struct model *m, uint64_t since)
{
	for (uint32_t i = 0; i < m->npeers; i++)
		if (!m->peers[i].up || m->peers[i].heard <= since)
			return false;
	return true;
}

/* A call that takes the window of peer 0 and is never answered. */
static int phantom_came(struct ck_call *c, const struct ck_message *message,
			int rc)
{
	(void)c, (void)message, (void)rc;
	return 0;
}

static void phantom_send(struct model *m, struct ck_call *c,
			 struct ck_copy_desc *move)
{
	static uint8_t to[8];
	struct ck_reads r;

	*move = (struct ck_copy_desc){ .run = sizeof(to), .to = to };
	*c = (struct ck_call){ .done = phantom_came };
	ck_reads_begin(&r, move, 1);
	if (!ck_reads_left(&r) || ck_query_read(&r, &c->query))
		abort();
	ck_calls_send(m->calls, c);
	m->packets.list[m->packets.n - 1].due = UINT64_MAX;
}

/* A move that takes the whole window of a peer is sent at once, and succeeds. */
static void probe(struct model *m, uint32_t peer)
{
	struct op *op = &m->ops[0];
	struct ck_copy_desc *move = op->set.list;

	*op = (struct op){ 0 };
	op->set.batch = (struct ck_copy_batch){ .list = move, .n = 1 };
	op->set.loops[0][0] = (struct ck_loop){ 1 + m->window / 8, 0, 0 };
	*move = (struct ck_copy_desc){ .file = peer,
				       .nloops = 1,
				       .loops = op->set.loops[0],
				       .run = 8,
				       .to = op->set.to };
	memset(op->set.to, SENTINEL, sizeof(op->set.to));
	m->nops = 1;
	m->sent_probe = false;
	op_begin(m, op);
	if (!m->sent_probe)
		wrong(m, "the window was not given back");
	for (unsigned i = 0; i < 20000 && is_live(op); i++)
		advance(m);
	if (is_live(op))
		wrong(m, "nothing came");
	if (move->rc && !m->peers[peer].replaced[0])
		wrong(m, "what should come failed");
}

static void check_afterwards(struct model *m)
{
	struct ck_call phantom = { 0 };
	struct ck_copy_desc move;

	uint64_t since = m->fair;

	m->steady = false;
	m->most = 0;
	m->back = true;
	for (uint32_t i = 0; i < m->npeers; i++)
		m->peers[i].mode = FINE;
	for (unsigned i = 0; i < 1000 && (m->full || !all_heard(m, since)); i++)
		advance(m);
	m->calm = true;
	if (!all_heard(m, since))
		wrong(m, "not up again");
	if (m->canary == WINDOW)
		phantom_send(m, &phantom, &move);
	for (uint32_t i = 0; i < m->npeers; i++)
		probe(m, i);
	if (m->canary == WINDOW)
		ck_calls_drop(m->calls, &phantom);
	tick(m);
	ck_query_fini(&phantom.query);
}

/* After ck_calls_end(), the moves in flight and later moves fail. */
static void model_end(struct model *m)
{
	struct op *op = &m->ops[0];

	m->ended = true;
	m->most = 0;
	ck_calls_end(m->calls);
	if (any_live(m))
		wrong(m, "left over at the end");
	*op = (struct op){ 0 };
	move_set_random(&op->set, &m->random);
	op_begin(m, op);
	if (ck_calls_tick(m->calls, m->now) == 0 || is_live(op))
		wrong(m, "left over after the end");
	ck_remote_client_fini(&m->requester);
	ck_calls_free(m->calls);
	packets_fini(&m->packets);
}

static void check_left(struct model *m)
{
	for (unsigned i = 0; i < m->nops; i++) {
		const struct op *op = &m->ops[i];

		if (op->ended && memcmp(op->left, op->set.to, SET_ROOM) != 0)
			wrong(m, "written when it was done");
		if (op->ended > 1)
			wrong(m, "ended twice");
	}
}

static void restore(struct model *m)
{
	for (uint32_t i = 0; i < m->npeers; i++)
		for (unsigned f = 0; f < OWNED; f++)
			if (m->peers[i].replaced[f]) {
				owned_restore(m->owners, i);
				break;
			}
}

/* Runs one schedule and returns the number of its faults. */
static unsigned schedule(struct owners *owners, uint64_t seed,
			 enum canary canary)
{
	static struct model m;

	m = (struct model){ .random = seed,
			    .owners = owners,
			    .canary = canary };
	tap_random(&m.random);
	model_begin(&m);
	for (uint64_t steps = 20 + below(&m, 120); steps; steps--) {
		if (one_in(&m, 3))
			act(&m);
		else
			advance(&m);
	}
	if (canary == TWICE && m.nops && m.ops[0].ended)
		op_done(&m.ops[0].set.batch);
	if (!one_in(&m, 5)) {
		run_out(&m);
		check_left(&m);
		check_afterwards(&m);
	}
	model_end(&m);
	check_left(&m);
	restore(&m);
	tally.schedules++;
	return m.wrong;
}

static void test_schedules(struct owners *o)
{
	uint64_t n = tap_cases("CKPTFS_CASES", TAP_SLOW ? 500 : 2000,
			       TAP_SLOW ? 5000 : 80000);
	uint64_t random = tap_seed(4711) | 1, bad = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t seed = tap_random(&random) | 1;

		if (schedule(o, seed, NO_CANARY) && bad++ == 0)
			printf("# the first wrong one: %#" PRIx64 "\n", seed);
	}
	eq_u64(bad, 0);
	printf("# %" PRIu64 " moves of %" PRIu64 " came, %" PRIu64
	       " failed, %" PRIu64 " interrupted, %" PRIu64 " stale; %" PRIu64
	       " renewals\n",
	       tally.came, tally.ops, tally.failed, tally.interrupted,
	       tally.stale, tally.renewed);
	ok(tally.came > n && tally.failed > n / 4 && tally.interrupted > n / 8);
}

/* Each fault that the test injects is detected in some of its schedules. */
static void test_canaries(struct owners *o)
{
	enum { EACH = 60 };

	for (enum canary c = FLIPPED; c < CANARIES; c++) {
		uint64_t random = 99;
		unsigned seen = 0;

		for (unsigned i = 0; i < EACH; i++)
			seen += schedule(o, tap_random(&random) | 1, c) > 0;
		printf("# canary %d: seen in %u of %d schedules\n", (int)c,
		       seen, (int)EACH);
		ok(seen > EACH / 4);
	}
}

int main(void)
{
	static struct owners owners;
	const char *one = getenv("CKPTFS_ONE");

	owners_begin(&owners);
	if (one) {
		eq_u64(schedule(&owners, strtoull(one, NULL, 0), NO_CANARY), 0);
	} else {
		test_schedules(&owners);
		test_canaries(&owners);
	}
	return owners_end(&owners) | tap_done();
}
