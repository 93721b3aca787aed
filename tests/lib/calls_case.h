/* SPDX-License-Identifier: MIT */
/*
 * calls_case: requests to three peers. The test controls the line and the clock.
 */
#ifndef CK_CALLS_CASE_H
#define CK_CALLS_CASE_H

#include "dist/rpc/calls.h"
#include "tap.h"

#include <errno.h>

enum {
	PEERS = 3,
	PING = 1000, /* milliseconds */
	SILENCE = 5000,
	TIMEOUT = 20000,
	WINDOW = 1000, /* bytes */
	HOLD = 8000,   /* milliseconds */
	SENT_MOST = 64,
};

/* --- a line -------------------------------------------------------------------------- */

struct line {
	struct ck_line line; /* first */
	bool full;
	unsigned room; /* messages until it is full; 0: no limit */
	unsigned wakes;
	unsigned n; /* messages sent since line_forget() */

	struct {
		uint32_t peer;
		struct ck_wire_head head;
	} sent[SENT_MOST];
};

static inline int line_send(struct ck_line *l, uint32_t peer,
			    const struct ck_query *a)
{
	struct line *line = (struct line *)l;

	if (line->full)
		return -EAGAIN;
	if (line->n == SENT_MOST)
		abort();
	line->sent[line->n].peer = peer;
	line->sent[line->n++].head = a->head;
	line->full = line->room && --line->room == 0;
	return 0;
}

static inline void line_wake(struct ck_line *l)
{
	((struct line *)l)->wakes++;
}

/* --- one line, one clock, calls --------------------------------------------------------- */

static struct line line;
static struct ck_calls *all;
static uint64_t now;

/* A call and its result. */
struct one {
	struct ck_call call; /* first */
	unsigned completions;
	int rc;
	bool answered;
	int says;	  /* result of came() */
	struct one *then; /* sent when this one completes */
};

static inline int one_came(struct ck_call *c, const struct ck_message *m,
			   int rc)
{
	struct one *o = (struct one *)c;

	o->completions++;
	o->rc = rc;
	o->answered = m != NULL;
	if (o->then)
		ck_calls_send(all, &o->then->call);
	return o->says;
}

/* bytes: length of the reply. */
static inline void one_init(struct one *o, uint32_t peer, uint64_t bytes)
{
	static uint8_t to[4 * WINDOW];
	static struct ck_copy_desc move;
	struct ck_reads r;

	*o = (struct one){ .call.peer = peer, .call.done = one_came };
	if (bytes == 0) {
		ok(ck_query_ping(&o->call.query) == 0);
		return;
	}
	move = (struct ck_copy_desc){ .run = bytes, .to = to };
	ck_reads_begin(&r, &move, 1);
	if (!ck_reads_left(&r) || ck_query_read(&r, &o->call.query))
		abort();
}

static inline void ones_init(struct one *o, unsigned n, uint32_t peer,
			     uint64_t bytes)
{
	for (unsigned i = 0; i < n; i++)
		one_init(&o[i], peer, bytes);
}

static inline void ones_send(struct one *o, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_calls_send(all, &o[i].call);
}

/* The number of calls that completed exactly once, with rc. */
static inline unsigned ones_told(const struct one *o, unsigned n, int rc)
{
	unsigned completed = 0;

	for (unsigned i = 0; i < n; i++)
		completed += o[i].completions == 1 && o[i].rc == rc &&
			     o[i].answered == (rc == 0);
	return completed;
}

static inline unsigned ones_open(const struct one *o, unsigned n)
{
	unsigned open = 0;

	for (unsigned i = 0; i < n; i++)
		open += o[i].completions == 0;
	return open;
}

static inline void ones_fini(struct one *o, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_query_fini(&o[i].call.query);
}

static inline void begin(void)
{
	static const struct ck_calls_options options = {
		.npeers = PEERS,
		.ping_msec = PING,
		.silence_msec = SILENCE,
		.timeout_msec = TIMEOUT,
		.window = WINDOW,
		.hold_msec = HOLD,
	};

	line = (struct line){ .line = { line_send, line_wake } };
	now = 1000000;
	all = ck_calls_make(&options, &line.line, now);
	if (!all)
		abort();
}

static inline void end(void)
{
	ck_calls_free(all);
	all = NULL;
}

static inline void tick(void)
{
	uint32_t next = ck_calls_tick(all, now);

	if (next == 0 || next > PING) /* too rarely */
		ok(false);
}

/* Advances the clock by msec, in the steps of a line. */
static inline void pass(uint64_t msec)
{
	for (uint64_t step; msec; msec -= step) {
		step = msec < 250 ? msec : 250;
		now += step;
		tick();
	}
}

static inline int take(uint32_t peer, struct ck_wire_head head,
		       uint64_t payload)
{
	static uint8_t bytes[8 * WINDOW];
	struct ck_message m = { .head = head };

	m.head.answer = true;
	m.head.payload = payload;
	m.head.body = head.type == CK_WIRE_READ ? 12 : 0;
	m.body = (struct ck_str){ (const char *)bytes, m.head.body };
	m.payload = (struct ck_str){ (const char *)bytes, payload };
	return ck_calls_take(all, peer, &m, now);
}

/* Replies correctly to sent message i. */
static inline void answer(unsigned i, uint64_t bytes)
{
	eq_err(take(line.sent[i].peer, line.sent[i].head, bytes), 0);
}

/* The number of recorded pings to a peer. */
static inline unsigned pings(uint32_t peer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < line.n; i++)
		n += line.sent[i].peer == peer &&
		     line.sent[i].head.type == CK_WIRE_PING;
	return n;
}

static inline unsigned reads(uint32_t peer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < line.n; i++)
		n += line.sent[i].peer == peer &&
		     line.sent[i].head.type == CK_WIRE_READ;
	return n;
}

static inline void line_forget(void)
{
	line.n = 0;
}

/* Advances the clock; the peers in the bit mask `peers` reply to pings. */
static inline void pass_answering(uint64_t msec, unsigned peers)
{
	for (; msec; msec -= 250) {
		unsigned n = line.n;

		pass(250);
		for (unsigned i = n; i < line.n; i++)
			if (peers >> line.sent[i].peer & 1 &&
			    line.sent[i].head.type == CK_WIRE_PING)
				answer(i, 0);
		line.n = n;
	}
}

#endif
