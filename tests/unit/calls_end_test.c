/* SPDX-License-Identifier: MIT */
/*
 * Calls that are dropped, calls held for a peer that is down, connections that end, and
 * messages that are not valid replies.
 */
#include "calls_case.h"

/* --- drops ------------------------------------------------------------------------------------ */

/* Calls are dropped in flight, while queued, before they are sent, twice, and when complete. */
static void test_drops(void)
{
	struct one o[4];

	begin();
	ones_init(o, 4, 0, 700);
	ck_calls_drop(all, &o[0].call);
	eq_u64(line.wakes, 0);
	ones_send(o, 4);
	ck_calls_drop(all, &o[0].call);
	ck_calls_drop(all, &o[0].call);
	ck_calls_drop(all, &o[2].call);
	eq_u64(line.wakes, 2);
	eq_u64(ones_open(o, 4),
	       4); /* ck_calls_drop() does not complete calls */
	tick();
	eq_u64(ones_told(o, 1, -EINTR) + ones_told(o + 2, 1, -EINTR), 2);
	eq_u64(line.n, 2); /* the window has room again */
	answer(0, 700);	   /* its call was dropped */
	eq_u64(line.n, 2);
	answer(1, 700);
	eq_u64(line.n, 3);
	answer(2, 700);
	eq_u64(ones_told(o + 1, 1, 0) + ones_told(o + 3, 1, 0), 2);
	line.wakes = 0;
	ck_calls_drop(all, &o[1].call);
	ck_calls_drop(all, &o[2].call);
	tick();
	eq_u64(line.wakes, 0);
	eq_u64(ones_told(o + 1, 1, 0) + ones_told(o + 2, 1, -EINTR), 2);
	ones_fini(o, 4);
	end();
}

/* Dropping a call that has already failed does not change its error. */
static void test_drop_of_failed(void)
{
	struct one o[1];

	begin();
	ck_calls_lost(all, 0);
	one_init(o, 0, 10);
	ones_send(o, 1);
	ck_calls_drop(all, &o[0].call);
	eq_u64(line.wakes, 1);
	tick();
	eq_u64(ones_told(o, 1, -EIO), 1);
	ones_fini(o, 1);
	end();
}

/* A completion callback may send further calls, also calls that fail at once. */
static void test_chain(void)
{
	struct one o[4];

	begin();
	ones_init(o, 4, 0, 700);
	o[0].then = &o[1];
	o[1].then = &o[2];
	o[2].then = &o[3];
	ones_send(o, 1);
	answer(0, 700);
	eq_u64(line.n, 2);
	ck_calls_drop(all, &o[1].call);
	tick();
	eq_u64(line.n, 3);
	ck_calls_lost(all, 0);
	eq_u64(ones_told(o + 2, 2, -EIO), 2);
	ones_fini(o, 4);
	end();
}

/* --- held calls ---------------------------------------------------------------------------------- */

/* Sends two patient calls and one that is not patient to a peer that is down. */
static void three_to_a_lost_one(struct one *o)
{
	begin();
	ones_init(o, 3, 0, 100);
	o[0].call.keep_queued = o[1].call.keep_queued = true;
	ck_calls_lost(all, 0);
	ones_send(o, 3);
	tick();
	eq_u64(ones_told(o + 2, 1, -EIO), 1);
	eq_u64(ones_open(o, 2), 2);
	eq_u64(line.n, 0);
}

static void test_held(void)
{
	struct one o[3];

	three_to_a_lost_one(o);
	pass(HOLD - 250);
	eq_u64(ones_open(o, 2), 2);
	pass(250);
	eq_u64(ones_told(o, 2, -EIO), 2);
	ones_fini(o, 3);
	/* Calls sent after the hold time fail at once. */
	ones_init(o, 1, 0, 100);
	o[0].call.keep_queued = true;
	ones_send(o, 1);
	tick();
	eq_u64(ones_told(o, 1, -EIO), 1);
	ones_fini(o, 1);
	end();
}

/* A peer may have received the calls in flight when it went down: these fail. Queued calls are
 * held. */
static void test_held_on_way(void)
{
	struct one o[2];

	begin();
	ones_init(o, 2, 0, 700); /* one waits for room */
	o[0].call.keep_queued = o[1].call.keep_queued = true;
	ones_send(o, 2);
	ck_calls_lost(all, 0);
	eq_u64(ones_told(o, 1, -EIO), 1);
	eq_u64(ones_open(o + 1, 1), 1);
	ck_calls_drop(all, &o[1].call);
	tick();
	eq_u64(ones_told(o + 1, 1, -EINTR), 1);
	ones_fini(o, 2);
	end();
}

/* A late reply to a call sent before the peer went down does not mark the peer as up: new
 * calls may still be lost. */
static void test_held_while_late(void)
{
	struct one o[2];

	begin();
	ones_init(o, 2, 0, 100);
	o[1].call.keep_queued = true;
	ones_send(o, 1);
	pass(SILENCE);
	eq_u64(ones_told(o, 1, -EIO), 1);
	ones_send(o + 1, 1);
	answer(0, 100);
	eq_u64(ones_open(o + 1, 1), 1);
	pass(HOLD - SILENCE);
	eq_u64(ones_told(o + 1, 1, -EIO), 1);
	ones_fini(o, 2);
	end();
}

static void test_released(void)
{
	struct one o[3];

	three_to_a_lost_one(o);
	line.wakes = 0;
	ck_calls_release(all);
	eq_u64(line.wakes, 1);
	tick();
	eq_u64(ones_told(o, 2, -EIO), 2);
	ones_fini(o, 3);
	end();
}

/* The peer is up again, on the same connection. */
static void test_held_until_up(void)
{
	struct one o[3];

	three_to_a_lost_one(o);
	pass(PING);
	for (unsigned i = 0, n = line.n; i < n; i++)
		answer(i, 0);
	tick();
	for (unsigned i = 0, n = line.n; i < n; i++)
		if (line.sent[i].head.type == CK_WIRE_READ)
			answer(i, 100);
	eq_u64(ones_told(o, 2, 0), 2);
	ones_fini(o, 3);
	end();
}

/* The connection ends: patient calls are held for its replacement, or fail on release. */
static void test_held_at_end(void)
{
	struct one o[3];

	begin();
	ones_init(o, 3, 0, 100);
	o[0].call.keep_queued = o[1].call.keep_queued = true;
	ck_calls_end(all);
	ones_send(o, 3);
	tick();
	eq_u64(ones_told(o + 2, 1, -EIO), 1);
	pass(HOLD / 2);
	eq_u64(ones_open(o, 2), 2);
	ck_calls_release(all);
	ck_calls_end(all);
	eq_u64(ones_told(o, 2, -EIO), 2);
	eq_u64(line.n, 0);
	ones_fini(o, 3);
	end();
}

/* --- the end --------------------------------------------------------------------------------------- */

static void test_lost(void)
{
	struct one o[4];

	begin();
	ones_init(o, 3, 0, 700);
	one_init(&o[3], 1, 10);
	ones_send(o, 4);
	ck_calls_lost(all, 0);
	eq_u64(ones_told(o, 3, -EIO), 3);
	ok(!ck_calls_is_up(all, 0) && ck_calls_is_up(all, 1));
	ck_calls_lost(all, 0);
	answer(1, 10);
	eq_u64(ones_told(o + 3, 1, 0), 1);
	ones_fini(o, 4);
	end();
}

static void test_end(void)
{
	struct one o[3];

	begin();
	ones_init(o, 3, 0, 700);
	ones_send(o, 2);
	ck_calls_end(all);
	eq_u64(ones_told(o, 2, -EIO), 2);
	line_forget();
	ones_send(o + 2, 1);
	eq_u64(line.wakes, 1);
	tick();
	eq_u64(ones_told(o + 2, 1, -EIO), 1);
	ok(!ck_calls_is_up(all, 0));
	pass(2 * SILENCE);
	eq_u64(line.n, 0);
	ones_fini(o, 3);
	end();
}

/* --- invalid messages -------------------------------------------------------------------------------- */

static void test_strange(void)
{
	struct one o[2];
	struct ck_message m = { .head = { .type = CK_WIRE_PING } };
	struct ck_wire_head head;

	begin();
	ones_init(o, 2, 0, 700);
	ones_send(o, 2);
	head = line.sent[0].head;
	eq_err(ck_calls_take(all, 0, &m, now), -EPROTO); /* not a reply */
	eq_err(take(PEERS, head, 700), -EPROTO);
	eq_err(take(UINT32_MAX, head, 700), -EPROTO);
	eq_err(take(1, head, 700), 0); /* from another peer */
	head.id += 1000;	       /* an unknown id */
	eq_err(take(0, head, 700), 0);
	head.id -= 1000 - 256; /* unknown, in the same bucket */
	eq_err(take(0, head, 700), 0);
	head = line.sent[0].head;
	head.epoch += 1;
	eq_err(take(0, head, 700), 0);
	eq_u64(ones_open(o, 2), 2);
	/* A reply of the wrong size completes its call with -EIO. */
	head = line.sent[0].head;
	eq_err(take(0, head, 699), -EPROTO);
	eq_u64(ones_told(o, 1, -EIO), 1);
	eq_err(take(0, head, 700), 0);
	eq_u64(ones_told(o, 1, -EIO), 1);
	head = line.sent[1].head;
	head.type = CK_WIRE_DIGEST;
	eq_err(take(0, head, 0), -EPROTO);
	eq_u64(ones_told(o + 1, 1, -EIO), 1);
	ones_fini(o, 2);
	end();
}

/* A reply is validated by the callback of its call. Its error is returned to the receiver of
 * the message. */
static void test_judged(void)
{
	struct one o[3];

	begin();
	ones_init(o, 3, 0, 300);
	o[1].says = -EPROTO;
	ones_send(o, 3);
	eq_err(take(0, line.sent[0].head, 300), 0);
	eq_err(take(0, line.sent[1].head, 300), -EPROTO);
	eq_u64(ones_told(o, 2, 0), 2);
	/* The callback of a failed call has no reply to validate. */
	o[2].says = -EPROTO;
	ck_calls_lost(all, 0);
	eq_u64(ones_told(o + 2, 1, -EIO), 1);
	ones_fini(o, 3);
	end();
}

/* A reply with an error completes its call, and a second reply is ignored. */
static void test_errors_and_twice(void)
{
	struct one o[2];
	struct ck_message m = { .body = { "", 0 } };

	begin();
	ones_init(o, 2, 0, 700);
	ones_send(o, 2);
	m.head = line.sent[0].head;
	m.head.body = 0;
	m.head.answer = true;
	m.head.err = ENOMEM;
	eq_err(ck_calls_take(all, 0, &m, now), 0);
	eq_u64(ones_told(o, 1, 0), 1);
	eq_u64(line.n, 2);
	answer(1, 700);
	answer(1, 700);
	eq_u64(ones_told(o + 1, 1, 0), 1);
	ones_fini(o, 2);
	end();
}

/* More calls in flight than hash buckets, answered out of order. */
static void test_many(void)
{
	enum { MANY = 1000 };
	static struct one o[MANY];
	struct ck_wire_head head;
	uint64_t first = 0;

	begin();
	ones_init(o, MANY, 0, 0);
	for (unsigned i = 0; i < MANY; i++) {
		ones_send(o + i, 1);
		head = line.sent[0].head;
		line_forget();
		first = i ? first : head.id;
		eq_u64(head.id, first + i);
	}
	for (unsigned i = 0; i < MANY; i++) {
		head.id = first + i * 7 % MANY;
		eq_err(take(0, head, 0), 0);
		if (!ones_told(o + i * 7 % MANY, 1, 0))
			ok(false);
	}
	eq_u64(ones_told(o, MANY, 0), MANY);
	ones_fini(o, MANY);
	end();
}

/* The counters used above detect a wrong state. */
static void test_canaries(void)
{
	struct one o[1];

	begin();
	one_init(o, 0, 700);
	ones_send(o, 1);
	ok(ones_open(o, 1) == 1 && ones_told(o, 1, 0) == 0);
	answer(0, 700);
	ok(ones_told(o, 1, -EIO) == 0);
	one_came(&o->call, NULL, -EIO);
	ok(ones_told(o, 1, 0) + ones_told(o, 1, -EIO) == 0);
	ones_fini(o, 1);
	end();
}

int main(void)
{
	test_drops();
	test_drop_of_failed();
	test_chain();
	test_held();
	test_held_on_way();
	test_held_while_late();
	test_released();
	test_held_until_up();
	test_held_at_end();
	test_lost();
	test_end();
	test_strange();
	test_judged();
	test_errors_and_twice();
	test_many();
	test_canaries();
	return tap_done();
}
