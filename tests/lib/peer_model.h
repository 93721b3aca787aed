/* SPDX-License-Identifier: MIT */
/*
 * peer_model: a remote client, file servers, and the line between them, on a
 * simulated clock. It defines the events that can happen and checks the results.
 * One test chooses the order of the events.
 */
#ifndef CK_PEER_MODEL_H
#define CK_PEER_MODEL_H

#include "peer_moves.h"

enum {
	PING = 1000, /* milliseconds */
	SILENCE = 5000,
	TIMEOUT = 10000,
	DELAY = 500, /* of a message in flight, at most */
	LATE = 100,  /* delay of a tick, at most */
	OPS = 6,     /* in a schedule */
};

enum mode { FINE, SILENT, STUCK };

enum canary { NO_CANARY, FLIPPED, OTHERS, TWICE, WINDOW, CANARIES };

struct peer {
	enum mode mode;
	bool up;
	uint64_t heard, progress; /* of the present line */
	uint64_t before;	  /* last id sent before it went down */
	uint64_t fault; /* time of the last lost message; 0: no loss */
	uint64_t out;	/* requested bytes in flight */
	bool replaced[OWNED];
};

struct op {
	struct move_set set; /* first */
	struct model *model;
	uint64_t begin;
	unsigned ended;
	bool started, interrupted;
	bool due;	       /* completes at the next tick */
	bool asked[OWNERS];    /* required peers */
	bool was_down[OWNERS]; /* at the start, or since */
	bool was_replaced[SET_MOVES];
	uint8_t left[SET_ROOM]; /* the destination when it ended */
};

struct model {
	struct ck_line line; /* first */
	uint64_t random;
	struct owners *owners;
	uint32_t npeers;
	bool calm;   /* no message is lost: no move may fail */
	bool steady; /* and no interrupts: windows can be counted */
	enum canary canary;

	struct ck_calls *calls;
	struct ck_remote_client requester;
	struct ck_location files[SET_FILES];
	uint64_t window;
	struct packets packets;
	struct peer peers[OWNERS];
	struct op ops[OPS];
	unsigned nops, most;

	/* Clock of the line; the part of it without stops of the process;
	 * the time that was passed to the calls last. */
	uint64_t now, fair, told;
	uint64_t renewed, tick_due, full_until;
	struct ck_calls_options options;
	uint64_t last_id; /* last sent on the present line */
	bool full, ended;
	bool back; /* no more losses */
	bool sent_probe;
	unsigned wrong;
};

static struct tally {
	uint64_t schedules, ops, came, failed, interrupted, stale, renewed;
} tally;

/* Counts an error and prints the first one. */
static inline void wrong(struct model *m, const char *error)
{
	if (m->wrong++ == 0 && !m->canary)
		printf("# %s, schedule %" PRIu64 ", at %" PRIu64 "\n", error,
		       tally.schedules, m->now);
}

static inline uint64_t below(struct model *m, uint64_t n)
{
	return boxes_below(&m->random, n);
}

static inline bool one_in(struct model *m, uint64_t n)
{
	return boxes_one_in(&m->random, n);
}

/* --- the line ---------------------------------------------------------------------------- */

/* Called before `now` is passed to the calls. A gap in which the process was stopped does
 * not count as fair time. */
static inline void tell_time(struct model *m)
{
	uint64_t gap = m->now - m->told;

	if (gap <= 2 * PING)
		m->fair += gap;
	m->told = m->now;
}

static inline void count_out(struct model *m, uint32_t peer, uint64_t bytes)
{
	struct peer *p = &m->peers[peer];

	if (m->steady && p->out && p->out + bytes > m->window)
		wrong(m, "more than the window");
	p->out += bytes;
}

static inline int line_send(struct ck_line *l, uint32_t peer,
			    const struct ck_query *a)
{
	struct model *m = (struct model *)l;
	struct packet *p;

	if (m->full)
		return -EAGAIN;
	if (a->head.epoch != m->options.epoch || m->ended)
		wrong(m, "sent on a line that is gone");
	if (a->head.type == CK_WIRE_READ) {
		count_out(m, peer, ck_query_bytes(a));
		m->sent_probe = true;
	}
	m->last_id = a->head.id;
	p = packets_add(&m->packets);
	wire_add_ask(&p->bytes, a);
	p->head = a->head;
	p->peer = peer;
	p->due = m->now + 1 + below(m, DELAY);
	return 0;
}

static inline void line_wake(struct ck_line *l)
{
	struct model *m = (struct model *)l;

	m->tick_due = ck_min(m->tick_due, m->now + below(m, 5));
}

static inline void lose(struct model *m, struct packet *p)
{
	if (p->head.epoch == m->options.epoch)
		m->peers[p->peer].fault = m->fair;
	ck_buf_fini(&p->bytes);
}

static inline bool is_lost(struct model *m, const struct packet *p)
{
	const struct peer *peer = &m->peers[p->peer];

	return peer->mode == SILENT ||
	       (peer->mode == STUCK && p->head.type == CK_WIRE_READ) ||
	       (!m->calm && !m->back && one_in(m, 60));
}

static inline void request_came(struct model *m, struct packet *p)
{
	uint32_t owner = p->peer;

	if (m->canary == OTHERS)
		owner = (owner + 1) % OWNERS;
	packet_answer(p, m->owners->owner[owner]);
	p->due = m->now + 1 + below(m, DELAY);
	*packets_add(&m->packets) = *p;
}

static inline void receive(struct model *m, const struct packet *p)
{
	struct peer *peer = &m->peers[p->peer];

	if (p->head.epoch != m->options.epoch)
		return;
	if (peer->up || p->head.id > peer->before) {
		peer->up = true;
		peer->heard = m->fair;
	}
	if (p->head.type != CK_WIRE_READ)
		return;
	peer->progress = m->fair;
	peer->out -= p->head.payload;
}

static inline void answer_came(struct model *m, struct packet *p)
{
	struct ck_message message = packet_open(p);

	if (m->canary == FLIPPED && p->head.payload)
		p->bytes.data[p->bytes.len - 1] ^= 0x10;
	tell_time(m);
	receive(m, p);
	if (ck_calls_take(m->calls, p->peer, &message, m->now))
		wrong(m, "a reply is refused");
	/* A duplicate reply is ignored. */
	if (!m->steady && one_in(m, 20) &&
	    ck_calls_take(m->calls, p->peer, &message, m->now))
		wrong(m, "a duplicate reply is refused");
	ck_buf_fini(&p->bytes);
}

static inline void deliver(struct model *m, size_t i)
{
	struct packet p = packets_take(&m->packets, i);

	if (is_lost(m, &p))
		lose(m, &p);
	else if (p.head.answer)
		answer_came(m, &p);
	else
		request_came(m, &p);
}

/* --- possible results of a move ------------------------------------------------------------- */

static inline struct ck_location where(const struct op *op, size_t i)
{
	return op->model->files[op->set.list[i].file];
}

static inline bool needs_peer(const struct op *op, size_t i)
{
	return op->set.kind[i] != NONE && op->set.kind[i] != WILD;
}

/* True if a move may fail: its peer was down, or a message was lost and the timeout has
 * passed. */
static inline bool may_fail(const struct op *op, uint32_t peer)
{
	const struct model *m = op->model;
	const struct peer *p = &m->peers[peer];

	if (op->was_down[peer] || m->ended)
		return true;
	return !m->calm && p->fault && p->fault + TIMEOUT >= op->begin &&
	       m->fair - ck_max(op->begin, m->renewed) >= TIMEOUT;
}

static inline int rc_of_kind(enum move_kind kind)
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

static inline bool is_right_rc(const struct op *op, size_t i)
{
	enum move_kind kind = op->set.kind[i];
	int rc = op->set.list[i].rc;
	struct ck_location at;

	if (rc == -EINTR && kind == WILD)
		return op->interrupted; /* other moves of it are resent */
	if (!needs_peer(op, i))
		return rc == (kind == NONE ? move_none_rc(&op->set.list[i])
					   : rc_of_kind(kind));
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

static inline void count_move(int rc)
{
	tally.came += rc == 0;
	tally.interrupted += rc == -EINTR;
	tally.stale += rc == -ESTALE;
	tally.failed += rc && rc != -EINTR && rc != -ESTALE;
}

static inline void op_check(struct op *op)
{
	struct model *m = op->model;

	for (size_t i = 0; i < op->set.batch.n; i++) {
		if (!is_right_rc(op, i))
			wrong(m, "a move has a wrong error");
		count_move(op->set.list[i].rc);
	}
	if (!move_set_is_right(&op->set, m->owners, m->files))
		wrong(m, "other bytes");
	memcpy(op->left, op->set.to, sizeof(op->left));
}

static inline void op_start(struct model *m);

static inline void op_done(struct ck_copy_batch *batch)
{
	struct op *op = (struct op *)batch;
	struct model *m = op->model;

	if (op->ended++)
		wrong(m, "done twice");
	op_check(op);
	/* A sequential reader starts the next read here. */
	if (one_in(m, 4) && m->nops < m->most)
		op_start(m);
}

/* --- events --------------------------------------------------------------------------------------- */

/* Records the required peers and their state. True if any peer is required. */
static inline bool op_look(struct op *op)
{
	struct model *m = op->model;
	bool any = false;

	for (size_t i = 0; i < op->set.batch.n; i++) {
		struct ck_location at;

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

static inline void op_begin(struct model *m, struct op *op)
{
	struct ck_backend *backend = &m->requester.backend;
	bool any;
	int rc;

	op->model = m;
	op->set.batch.done = op_done;
	op->begin = m->fair;
	any = op_look(op);
	op->started = true;
	tally.ops++;
	rc = backend->start(backend, &op->set.batch);
	if (rc != (any ? -EINPROGRESS : 0))
		wrong(m, "started to something else");
	if (rc)
		return;
	op->ended++;
	op_check(op);
}

static inline void op_start(struct model *m)
{
	struct op *op = &m->ops[m->nops++];

	*op = (struct op){ 0 };
	move_set_random(&op->set, &m->random);
	if (!m->steady && one_in(m, 20))
		op->set.batch.cancelled = op->interrupted = op->due = true;
	op_begin(m, op);
}

static inline bool is_live(const struct op *op)
{
	return op->started && !op->ended;
}

static inline bool any_live(const struct model *m)
{
	for (unsigned i = 0; i < m->nops; i++)
		if (is_live(&m->ops[i]))
			return true;
	return false;
}

static inline void interrupt(struct model *m)
{
	struct op *op = &m->ops[below(m, OPS)];
	struct ck_backend *backend = &m->requester.backend;

	if (m->steady || !is_live(op))
		return;
	op->interrupted = op->due = true;
	op->set.batch.cancelled = true;
	backend->interrupt(backend, &op->set.batch);
}

static inline void down(struct model *m, uint32_t peer)
{
	if (m->peers[peer].up)
		m->peers[peer].before = m->last_id;
	m->peers[peer].up = false;
	for (unsigned i = 0; i < m->nops; i++)
		if (is_live(&m->ops[i]))
			m->ops[i].was_down[peer] = true;
}

/* Replaces the line. Messages of the old line may arrive on the new one and must be
 * ignored. */
static inline void renew(struct model *m)
{
	struct ck_calls *old = m->calls;
	struct ck_routes ways = m->requester.routes;

	for (size_t i = m->packets.n; i > 0 && i--;)
		if (one_in(m, 2))
			packets_drop(&m->packets, i);
	m->options.epoch++;
	m->last_id = 0;
	tell_time(m);
	m->renewed = m->fair;
	tally.renewed++;
	for (uint32_t i = 0; i < m->npeers; i++) {
		struct peer *p = &m->peers[i];

		p->up = true;
		p->heard = p->progress = m->fair;
		p->out = p->before = 0;
	}
	m->calls = ck_calls_make(&m->options, &m->line, m->now);
	if (!m->calls)
		abort();
	ways.calls = m->calls;
	ck_remote_client_renew(&m->requester, &ways);
	ck_calls_end(old);
	ck_calls_free(old);
}

static inline void replace(struct model *m)
{
	uint32_t peer = (uint32_t)below(m, m->npeers);
	uint32_t file = (uint32_t)below(m, OWNED);

	if (m->peers[peer].replaced[file] || !one_in(m, 8))
		return;
	owned_replace(m->owners, peer, file);
	m->peers[peer].replaced[file] = true;
}

static inline void change_peer(struct model *m)
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

/* Fills the line for a while, rarely: it has room most of the time. */
static inline void fill(struct model *m)
{
	if (m->full || m->now < m->full_until + PING)
		return;
	m->full = true;
	m->full_until = m->now + 1 + below(m, DELAY);
}

static inline void act(struct model *m)
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
		if (one_in(m, 3)) /* the process stops */
			m->now += 2 * PING + 1 + below(m, 10 * TIMEOUT);
		break;
	default:
		if (m->nops < m->most)
			op_start(m);
		break;
	}
}

#endif
