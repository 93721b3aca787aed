/* SPDX-License-Identifier: MIT */
/*
 * peer_model: moves that a requester asks of real owners, over a line that delays
 * messages, changes their order, loses some, is renewed and carries what is left of the
 * line before; with peers that are silent, stuck, gone and back, files that become
 * others, moves that are interrupted, and a process that stops. All by a clock that is
 * the test's and a schedule that follows from a seed.
 *
 * Each move ends once: with exactly the bytes that it is of, or with an error for which
 * there was a reason, within the times that are promised.
 */
#include "peer_moves.h"

enum {
	PING = 1000, /* milliseconds */
	SILENCE = 5000,
	TIMEOUT = 10000,
	DELAY = 500, /* a message is on its way for so long at most */
	LATE = 100,  /* and a tick comes so late */
	OPS = 6,     /* in a schedule */
};

enum mode { FINE, SILENT, STUCK };

enum canary { NO_CANARY, FLIPPED, OTHERS, TWICE, WINDOW, CANARIES };

struct peer {
	enum mode mode;
	bool up;
	uint64_t heard, progress; /* of the present line */
	uint64_t fault;		  /* when a message was lost; 0: never */
	uint64_t out;		  /* bytes that it was asked for */
	bool replaced[OWNED];
};

struct op {
	struct move_set set; /* first */
	struct model *model;
	uint64_t begin;
	unsigned ended;
	bool started, interrupted;
	bool due;	       /* with the next tick */
	bool asked[OWNERS];    /* peers that it needs */
	bool was_down[OWNERS]; /* when it began, or since */
	bool was_replaced[SET_MOVES];
	uint8_t left[SET_ROOM]; /* what was there when it ended */
};

struct model {
	struct ck_line line; /* first */
	uint64_t random;
	struct owners *owners;
	uint32_t npeers;
	bool calm;   /* nothing gets lost: nothing may fail */
	bool steady; /* and nothing is interrupted: windows can be counted */
	enum canary canary;

	struct ck_calls *calls;
	struct ck_requester requester;
	struct ck_whereabouts files[SET_FILES];
	uint64_t window;
	struct packets packets;
	struct peer peers[OWNERS];
	struct op ops[OPS];
	unsigned nops, most;

	/* The clock of the line, what of it this process has run, and what the
	 * calls were told last. */
	uint64_t now, fair, told;
	uint64_t renewed, tick_due, full_until;
	uint32_t epoch;
	bool full, ended;
	bool back; /* nothing gets lost any more */
	bool sent_probe;
	unsigned wrong;
};

static struct tally {
	uint64_t schedules, ops, came, failed, interrupted, stale, renewed;
} tally;

/* Says what was wrong first. */
static void wrong(struct model *m, const char *what)
{
	if (m->wrong++ == 0 && !m->canary)
		printf("# %s, schedule %" PRIu64 ", at %" PRIu64 "\n", what,
		       tally.schedules, m->now);
}

static uint64_t below(struct model *m, uint64_t n)
{
	return boxes_below(&m->random, n);
}

static bool one_in(struct model *m, uint64_t n)
{
	return boxes_one_in(&m->random, n);
}

/* --- the line ---------------------------------------------------------------------------- */

/* The calls are told the time next: what was no time of this process is left out. */
static void tell_time(struct model *m)
{
	uint64_t gap = m->now - m->told;

	if (gap <= 2 * PING)
		m->fair += gap;
	m->told = m->now;
}

static void count_out(struct model *m, uint32_t peer, uint64_t bytes)
{
	struct peer *p = &m->peers[peer];

	if (m->steady && p->out && p->out + bytes > m->window)
		wrong(m, "more than the window");
	p->out += bytes;
}

static int line_send(struct ck_line *l, uint32_t peer, const struct ck_ask *a)
{
	struct model *m = (struct model *)l;
	struct packet *p;

	if (m->full)
		return -EAGAIN;
	if (a->head.epoch != m->epoch || m->ended)
		wrong(m, "sent on a line that is gone");
	if (a->head.type == CK_WIRE_READ) {
		count_out(m, peer, ck_ask_bytes(a));
		m->sent_probe = true;
	}
	p = packets_add(&m->packets);
	wire_add_ask(&p->bytes, a);
	p->head = a->head;
	p->peer = peer;
	p->due = m->now + 1 + below(m, DELAY);
	return 0;
}

static void line_wake(struct ck_line *l)
{
	struct model *m = (struct model *)l;

	m->tick_due = ck_min(m->tick_due, m->now + below(m, 5));
}

static void lose(struct model *m, struct packet *p)
{
	if (p->head.epoch == m->epoch)
		m->peers[p->peer].fault = m->fair;
	ck_buf_fini(&p->bytes);
}

static bool is_lost(struct model *m, const struct packet *p)
{
	const struct peer *peer = &m->peers[p->peer];

	return peer->mode == SILENT ||
	       (peer->mode == STUCK && p->head.type == CK_WIRE_READ) ||
	       (!m->calm && !m->back && one_in(m, 60));
}

static void request_came(struct model *m, struct packet *p)
{
	uint32_t owner = p->peer;

	if (m->canary == OTHERS)
		owner = (owner + 1) % OWNERS;
	packet_answer(p, m->owners->owner[owner]);
	p->due = m->now + 1 + below(m, DELAY);
	*packets_add(&m->packets) = *p;
}

static void hear(struct model *m, const struct packet *p)
{
	struct peer *peer = &m->peers[p->peer];

	if (p->head.epoch != m->epoch)
		return;
	peer->up = true;
	peer->heard = m->fair;
	if (p->head.type != CK_WIRE_READ)
		return;
	peer->progress = m->fair;
	peer->out -= p->head.payload;
}

static void answer_came(struct model *m, struct packet *p)
{
	struct ck_message message = packet_open(p);

	if (m->canary == FLIPPED && p->head.payload)
		p->bytes.data[p->bytes.len - 1] ^= 0x10;
	tell_time(m);
	hear(m, p);
	if (ck_calls_take(m->calls, p->peer, &message, m->now))
		wrong(m, "an answer is none");
	/* The same once more, which is nobody's. */
	if (!m->steady && one_in(m, 20) &&
	    ck_calls_take(m->calls, p->peer, &message, m->now))
		wrong(m, "an answer is none any more");
	ck_buf_fini(&p->bytes);
}

static void deliver(struct model *m, size_t i)
{
	struct packet p = packets_take(&m->packets, i);

	if (is_lost(m, &p))
		lose(m, &p);
	else if (p.head.answer)
		answer_came(m, &p);
	else
		request_came(m, &p);
}

/* --- what may become of a move -------------------------------------------------------------- */

static struct ck_whereabouts where(const struct op *op, size_t i)
{
	return op->model->files[op->set.list[i].file];
}

static bool needs_peer(const struct op *op, size_t i)
{
	return op->set.kind[i] != NONE && op->set.kind[i] != WILD;
}

/* Whether there was a reason why nothing came: its peer was down, or something was
 * lost for so long. */
static bool may_fail(const struct op *op, uint32_t peer)
{
	const struct model *m = op->model;
	const struct peer *p = &m->peers[peer];

	if (op->was_down[peer] || m->ended)
		return true;
	return !m->calm && p->fault && p->fault + TIMEOUT >= op->begin &&
	       m->fair - ck_max(op->begin, m->renewed) >= TIMEOUT;
}

static int rc_of_kind(enum move_kind kind)
{
	switch (kind) {
	case PLAIN: return 0;
	case OUTSIDE:
	case WILD: return -EIO;
	case UNKNOWN:
	case NONE: break;
	}
	return -ENODATA;
}

static bool is_right_rc(const struct op *op, size_t i)
{
	enum move_kind kind = op->set.kind[i];
	int rc = op->set.list[i].rc;
	struct ck_whereabouts at;

	if (!needs_peer(op, i))
		return rc == rc_of_kind(kind);
	at = where(op, i);
	if (rc == -ESTALE)
		return kind != UNKNOWN &&
		       op->model->peers[at.peer].replaced[at.number];
	if (rc == -EINTR)
		return op->interrupted;
	if (rc == -EIO && may_fail(op, at.peer))
		return true;
	return rc == rc_of_kind(kind) && !op->was_replaced[i];
}

static void count_move(int rc)
{
	tally.came += rc == 0;
	tally.interrupted += rc == -EINTR;
	tally.stale += rc == -ESTALE;
	tally.failed += rc && rc != -EINTR && rc != -ESTALE;
}

static void op_check(struct op *op)
{
	struct model *m = op->model;

	for (size_t i = 0; i < op->set.moves.n; i++) {
		if (!is_right_rc(op, i))
			wrong(m, "a move has no such error");
		count_move(op->set.list[i].rc);
	}
	if (!move_set_is_right(&op->set, m->owners, m->files))
		wrong(m, "other bytes");
	memcpy(op->left, op->set.to, sizeof(op->left));
}

static void op_start(struct model *m);

static void op_done(struct ck_moves *moves)
{
	struct op *op = (struct op *)moves;
	struct model *m = op->model;

	if (op->ended++)
		wrong(m, "done twice");
	op_check(op);
	/* Whoever reads on asks for more here. */
	if (one_in(m, 4) && m->nops < m->most)
		op_start(m);
}

/* --- what is done --------------------------------------------------------------------------------- */

/* What it needs, and how that is now. Whether any peer is needed. */
static bool op_look(struct op *op)
{
	struct model *m = op->model;
	bool any = false;

	for (size_t i = 0; i < op->set.moves.n; i++) {
		struct ck_whereabouts at;

		if (!needs_peer(op, i))
			continue;
		any = true;
		at = where(op, i);
		op->asked[at.peer] = true;
		op->was_down[at.peer] = !m->peers[at.peer].up;
		op->was_replaced[i] = op->set.kind[i] != UNKNOWN &&
				      m->peers[at.peer].replaced[at.number];
	}
	return any;
}

static void op_begin(struct model *m, struct op *op)
{
	struct ck_mover *mover = &m->requester.mover;
	bool any;
	int rc;

	op->model = m;
	op->set.moves.done = op_done;
	op->begin = m->fair;
	any = op_look(op);
	op->started = true;
	tally.ops++;
	rc = mover->start(mover, &op->set.moves);
	if (rc != (any ? -EINPROGRESS : 0))
		wrong(m, "started to something else");
	if (rc)
		return;
	op->ended++;
	op_check(op);
}

static void op_start(struct model *m)
{
	struct op *op = &m->ops[m->nops++];

	*op = (struct op){ 0 };
	move_set_random(&op->set, &m->random);
	if (!m->steady && one_in(m, 20))
		op->set.moves.unwanted = op->interrupted = op->due = true;
	op_begin(m, op);
}

static bool is_live(const struct op *op)
{
	return op->started && !op->ended;
}

static bool any_live(const struct model *m)
{
	for (unsigned i = 0; i < m->nops; i++)
		if (is_live(&m->ops[i]))
			return true;
	return false;
}

static void interrupt(struct model *m)
{
	struct op *op = &m->ops[below(m, OPS)];
	struct ck_mover *mover = &m->requester.mover;

	if (m->steady || !is_live(op))
		return;
	op->interrupted = op->due = true;
	op->set.moves.unwanted = true;
	mover->interrupt(mover, &op->set.moves);
}

static void down(struct model *m, uint32_t peer)
{
	m->peers[peer].up = false;
	for (unsigned i = 0; i < m->nops; i++)
		if (is_live(&m->ops[i]))
			m->ops[i].was_down[peer] = true;
}

/* What the old line carries may come on the new one. */
static void renew(struct model *m)
{
	for (size_t i = m->packets.n; i-- > 0;)
		if (one_in(m, 2))
			packets_drop(&m->packets, i);
	m->epoch++;
	tell_time(m);
	m->renewed = m->fair;
	tally.renewed++;
	for (uint32_t i = 0; i < m->npeers; i++) {
		struct peer *p = &m->peers[i];

		p->up = true;
		p->heard = p->progress = m->fair;
		p->out = 0;
	}
	ck_calls_renew(m->calls, m->now);
}

static void replace(struct model *m)
{
	uint32_t peer = (uint32_t)below(m, m->npeers);
	uint32_t file = (uint32_t)below(m, OWNED);

	if (m->peers[peer].replaced[file] || !one_in(m, 8))
		return;
	owned_replace(m->owners, peer, file);
	m->peers[peer].replaced[file] = true;
}

static void change_peer(struct model *m)
{
	uint32_t peer = (uint32_t)below(m, m->npeers);

	if (m->calm)
		return;
	if (one_in(m, 3)) {
		down(m, peer);
		ck_calls_lost(m->calls, peer);
	} else {
		m->peers[peer].mode = one_in(m, 2) ? FINE
						   : (enum mode)below(m, 3);
	}
}

/* For a time, and not so soon again: it has room most of the time. */
static void fill(struct model *m)
{
	if (m->full || m->now < m->full_until + PING)
		return;
	m->full = true;
	m->full_until = m->now + 1 + below(m, DELAY);
}

static void act(struct model *m)
{
	switch (below(m, 16)) {
	case 0:
	case 1: interrupt(m); break;
	case 2: renew(m); break;
	case 3: replace(m); break;
	case 4:
	case 5: change_peer(m); break;
	case 6: fill(m); break;
	case 7:
		if (one_in(m, 3)) /* it stops */
			m->now += 2 * PING + 1 + below(m, 10 * TIMEOUT);
		break;
	default:
		if (m->nops < m->most)
			op_start(m);
		break;
	}
}

/* --- what is promised -------------------------------------------------------------------------------- */

static bool is_overdue(const struct op *op, uint32_t peer)
{
	const struct model *m = op->model;
	const struct peer *p = &m->peers[peer];
	uint64_t since = ck_max(op->begin, m->renewed);

	return !p->up || m->fair - ck_max(since, p->heard) >= SILENCE ||
	       m->fair - ck_max(since, p->progress) >= 2 * TIMEOUT + PING;
}

/* After a tick: what should have ended has. */
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

/* What comes next: a message, room, or a tick. */
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
	struct ck_calls_options options = { .ping_msec = PING,
					    .silence_msec = SILENCE,
					    .timeout_msec = TIMEOUT };

	m->line = (struct ck_line){ line_send, line_wake };
	m->npeers = options.npeers = 1 + (uint32_t)below(m, OWNERS);
	m->window = options.window = 1 + below(m, one_in(m, 2) ? 200 : 4000);
	m->calm = one_in(m, 3);
	m->steady = m->calm && one_in(m, 2);
	m->most = 1 + (unsigned)below(m, OPS);
	m->epoch = 1;
	m->now = m->told = m->fair = TIMEOUT + below(m, 1000000);
	m->renewed = m->fair;
	m->tick_due = m->now + below(m, 250);
	for (uint32_t i = 0; i < m->npeers; i++)
		m->peers[i] = (struct peer){ .up = true,
					     .heard = m->fair,
					     .progress = m->fair };
	whereabouts_fill(m->files, m->npeers);
	m->calls = ck_calls_make(&options, &m->line, m->now);
	if (!m->calls)
		abort();
	ck_requester_init(&m->requester, m->calls, m->files, SET_FILES);
}

/* All that was lost is back, and nothing is done any more; all comes to its end. */
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

/* Whether all have said something since. */
static bool all_heard(const struct model *m, uint64_t since)
{
	for (uint32_t i = 0; i < m->npeers; i++)
		if (!m->peers[i].up || m->peers[i].heard <= since)
			return false;
	return true;
}

/* A call that takes the window of peer 0 and is never answered. */
static void phantom_came(struct ck_call *c, const struct ck_message *message,
			 int rc)
{
	(void)c, (void)message, (void)rc;
}

static void phantom_send(struct model *m, struct ck_call *c,
			 struct ck_move *move)
{
	static uint8_t to[8];
	struct ck_reads r;

	*move = (struct ck_move){ .run = sizeof(to), .to = to };
	*c = (struct ck_call){ .came = phantom_came };
	ck_reads_begin(&r, move, 1);
	if (!ck_reads_left(&r) || ck_ask_read(&r, &c->ask))
		abort();
	ck_calls_send(m->calls, c);
	m->packets.list[m->packets.n - 1].due = UINT64_MAX;
}

/* One that takes all of the window of a peer goes at once, and comes. */
static void probe(struct model *m, uint32_t peer)
{
	struct op *op = &m->ops[0];
	struct ck_move *move = op->set.list;

	*op = (struct op){ 0 };
	op->set.moves = (struct ck_moves){ .list = move, .n = 1 };
	op->set.loops[0][0] = (struct ck_loop){ 1 + m->window / 8, 0, 0 };
	*move = (struct ck_move){ .file = peer,
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
	struct ck_move move;

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
	ck_ask_fini(&phantom.ask);
}

/* Nobody is asked any more: what is on its way fails, and what comes then. */
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
	ck_requester_fini(&m->requester);
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

/* How many things were wrong in it. */
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
		op_done(&m.ops[0].set.moves);
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
	const char *text = getenv("CKPTFS_CASES");
	uint64_t n = text ? strtoull(text, NULL, 0) : TAP_SLOW ? 2000 : 8000;
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

/* What no schedule may do is seen. */
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
