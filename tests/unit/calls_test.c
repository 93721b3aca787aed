/* SPDX-License-Identifier: MIT */
/*
 * Calls in flight to peers, step by step: windows, silence, timeouts. Random sequences of the
 * same events are in peer_model_test.c.
 */
#include "calls_case.h"

/* --- windows ----------------------------------------------------------------------------- */

static void test_window(void)
{
	struct one o[5];

	begin();
	ones_init(o, 5, 1, 400);
	ones_send(o, 5);
	eq_u64(line.n, 2); /* 800 of 1000 bytes */
	ok(line.sent[0].peer == 1 &&
	   line.sent[0].head.id != line.sent[1].head.id);
	answer(1, 400);
	eq_u64(line.n, 3);
	eq_u64(ones_told(o + 1, 1, 0), 1);
	answer(0, 400);
	answer(2, 400);
	eq_u64(line.n, 5);
	answer(4, 400);
	answer(3, 400);
	eq_u64(ones_told(o, 5, 0), 5);
	eq_u64(line.wakes, 0);
	ones_fini(o, 5);
	end();
}

/* A call larger than the window is sent when no other call is in flight. Smaller calls queued
 * behind it wait, so that it cannot starve. */
static void test_large(void)
{
	struct one o[3];

	begin();
	one_init(&o[0], 0, 10);
	one_init(&o[1], 0, 3 * WINDOW);
	one_init(&o[2], 0, 10);
	ones_send(o, 3);
	eq_u64(line.n, 1);
	answer(0, 10);
	eq_u64(line.n, 2);
	answer(1, 3 * WINDOW);
	eq_u64(line.n, 3);
	answer(2, 10);
	eq_u64(ones_told(o, 3, 0), 3);
	ones_fini(o, 3);
	end();
}

/* Calls may fill the window exactly, and each peer has its own window. */
static void test_edges(void)
{
	struct one o[4];

	begin();
	ones_init(o, 3, 0, WINDOW / 2);
	one_init(&o[3], 2, WINDOW);
	ones_send(o, 4);
	eq_u64(line.n, 3);
	eq_u64(line.sent[2].peer, 2);
	for (unsigned i = 0; i < 3; i++)
		answer(i, i < 2 ? WINDOW / 2 : WINDOW);
	answer(3, WINDOW / 2);
	eq_u64(ones_told(o, 4, 0), 4);
	ones_fini(o, 4);
	end();
}

static void test_no_room(void)
{
	struct one o[3];

	begin();
	ones_init(o, 3, 0, 10);
	line.full = true;
	ones_send(o, 3);
	pass(500);
	eq_u64(line.n, 0);
	line.full = false;
	tick();
	eq_u64(line.n, 3);
	for (unsigned i = 0; i < 3; i++)
		answer(i, 10);
	eq_u64(ones_told(o, 3, 0), 3);
	ones_fini(o, 3);
	end();
}

/* If the connection has room for one message at a time, peers are served in turn. */
static void test_room_for_one(void)
{
	enum { EACH = 4 };
	struct one o[PEERS][EACH];
	unsigned sent[PEERS] = { 0 };

	begin();
	line.full = true;
	for (uint32_t i = 0; i < PEERS; i++) {
		ones_init(o[i], EACH, i, 10);
		ones_send(o[i], EACH);
	}
	for (unsigned turn = 0; turn < EACH * PEERS; turn++) {
		line.full = false;
		line.room = 1;
		tick();
		sent[line.sent[turn].peer]++;
		eq_u64(line.n, turn + 1);
		for (uint32_t i = 0; i < PEERS; i++)
			ok(sent[i] >= (turn + 1) / PEERS);
	}
	for (unsigned i = 0; i < EACH * PEERS; i++)
		answer(i, 10);
	for (uint32_t i = 0; i < PEERS; i++) {
		eq_u64(ones_told(o[i], EACH, 0), EACH);
		ones_fini(o[i], EACH);
	}
	end();
}

/* --- silence -------------------------------------------------------------------------------- */

static void test_pings(void)
{
	begin();
	pass(PING - 250);
	eq_u64(line.n, 0);
	pass(250);
	eq_u64(line.n, PEERS);
	eq_u64(pings(0) + pings(1) + pings(2), PEERS);
	pass(PING - 250); /* no second ping yet */
	eq_u64(line.n, PEERS);
	answer(1, 0);
	pass(250);
	eq_u64(pings(0), 2);
	eq_u64(pings(1), 1);
	end();
}

/* A ping that found no room is sent when there is room. */
static void test_pings_no_room(void)
{
	begin();
	line.full = true;
	pass(PING + 500);
	line.full = false;
	tick();
	eq_u64(line.n, PEERS);
	end();
}

/* A peer that sends replies is not pinged. */
static void test_no_pings(void)
{
	struct one o[8];

	begin();
	ones_init(o, 8, 0, 10);
	for (unsigned i = 0; i < 8; i++) {
		pass(500);
		line_forget();
		ones_send(o + i, 1);
		answer(0, 10);
		eq_u64(pings(0), 0);
	}
	ones_fini(o, 8);
	end();
}

static void test_silence(void)
{
	struct one o[6];

	begin();
	ones_init(o, 4, 0, 400);
	one_init(&o[4], 1, 10);
	one_init(&o[5], 0, 10);
	ones_send(o, 5);
	pass_answering(SILENCE - 250, 6);
	eq_u64(ones_open(o, 5), 5);
	ok(ck_calls_is_up(all, 0));
	pass_answering(250, 6);
	ok(!ck_calls_is_up(all, 0));
	ok(ck_calls_is_up(all, 1) && ck_calls_is_up(all, 2));
	eq_u64(ones_told(o, 4, -EIO), 4);
	eq_u64(ones_open(o + 4, 1), 1);
	/* A call to a peer that is down fails at once. */
	line_forget();
	line.wakes = 0;
	ones_send(o + 5, 1);
	eq_u64(line.n, 0);
	eq_u64(line.wakes, 1);
	tick();
	eq_u64(ones_told(o + 5, 1, -EIO), 1);
	/* The peer is still pinged. */
	pass(PING);
	eq_u64(pings(0), 1);
	ones_fini(o, 6);
	end();
}

/* A peer is down until it answers a message that was sent after it went down. */
static void test_up_again(void)
{
	struct one o[2];

	begin();
	ones_init(o, 2, 0, 700);
	ones_send(o, 1);
	pass_answering(SILENCE, 6);
	ok(!ck_calls_is_up(all, 0));
	answer(0, 700); /* a late reply to an earlier message */
	ok(!ck_calls_is_up(all, 0));
	eq_u64(ones_told(o, 1, -EIO), 1);
	pass_answering(PING, 1);
	ok(ck_calls_is_up(all, 0));
	line_forget();
	ones_send(o + 1, 1); /* the failed call has left the window */
	eq_u64(line.n, 1);
	answer(0, 700);
	eq_u64(ones_told(o + 1, 1, 0), 1);
	ones_fini(o, 2);
	end();
}

/* Time during which this process was stopped does not count as silence of its peers. */
static void test_stopped(void)
{
	struct one o[3];
	struct ck_wire_head first;

	begin();
	ones_init(o, 3, 0, 700); /* the first is in flight */
	ones_send(o, 3);
	first = line.sent[0].head;
	pass_answering(TIMEOUT - 500, 7);
	now += 1000 * (uint64_t)TIMEOUT;
	tick();
	eq_u64(ones_open(o, 3), 3);
	for (uint32_t i = 0; i < PEERS; i++)
		ok(ck_calls_is_up(all, i));
	now += 1000 * (uint64_t)TIMEOUT;
	eq_err(take(0, first, 700), 0);
	tick();
	eq_u64(ones_told(o, 1, 0), 1);
	eq_u64(ones_open(o + 1, 2), 2);
	ck_calls_end(all);
	ones_fini(o, 3);
	end();
}

static void test_stopped_before_answers(void)
{
	struct one o[2];
	struct ck_wire_head first;

	begin();
	ones_init(o, 2, 0, 700);
	ones_send(o, 2);
	first = line.sent[0].head;
	pass_answering(SILENCE - 500, 6);
	now += 1000 * TIMEOUT;
	eq_err(take(0, first, 700), 0);
	tick();
	eq_u64(ones_told(o, 1, 0), 1);
	ok(ck_calls_is_up(all, 0) && ck_calls_is_up(all, 1));
	line_forget();
	pass_answering(SILENCE - 250,
		       6); /* silence counts from the last reply */
	ok(ck_calls_is_up(all, 0));
	pass_answering(250, 6);
	ok(!ck_calls_is_up(all, 0));
	eq_u64(ones_told(o + 1, 1, -EIO), 1);
	ones_fini(o, 2);
	end();
}

/* A peer that was down stays down if this process is stopped. */
static void test_stopped_while_down(void)
{
	begin();
	pass_answering(SILENCE, 6);
	now += 1000 * (uint64_t)TIMEOUT;
	tick();
	ok(!ck_calls_is_up(all, 0));
	ok(ck_calls_is_up(all, 1));
	end();
}

/* --- no progress ----------------------------------------------------------------------------- */

/* The peer answers pings, but no calls: the call in flight fails with EIO, and the next one is
 * sent. */
static void test_timeout(void)
{
	struct one o[4];

	begin();
	ones_init(o, 4, 0, 700);
	ones_send(o, 1);
	pass_answering(2000, 7);
	ones_send(o + 1, 2);
	pass_answering(TIMEOUT - 2250, 7);
	eq_u64(ones_open(o, 3), 3);
	line_forget();
	pass(250);
	eq_u64(ones_told(o, 1, -EIO), 1);
	eq_u64(ones_open(o + 1, 2), 2);
	eq_u64(reads(0), 1);
	ok(ck_calls_is_up(all, 0));
	/* The third call has had the full timeout. */
	pass_answering(2000, 7);
	eq_u64(ones_told(o + 2, 1, -EIO), 1);
	pass_answering(TIMEOUT - 2250, 7);
	eq_u64(ones_open(o + 1, 1), 1);
	pass_answering(250, 7);
	eq_u64(ones_told(o + 1, 1, -EIO), 1);
	line_forget();
	ones_send(o + 3, 1);
	eq_u64(line.n, 1); /* the window has room again */
	answer(0, 700);
	eq_u64(ones_told(o + 3, 1, 0), 1);
	ones_fini(o, 4);
	end();
}

/* While the peer answers other calls, queued calls do not time out. */
static void test_slow(void)
{
	struct one o[10];

	begin();
	ones_init(o, 10, 0, 700);
	ones_send(o, 10);
	for (unsigned i = 0; i < 10; i++) {
		unsigned sent = line.n - 1;

		pass_answering(TIMEOUT - 250, 7);
		eq_u64(ones_open(o, 10), 10 - i);
		answer(sent, 700);
		line.sent[0] = line.sent[line.n - 1];
		line.n = 1;
	}
	eq_u64(ones_told(o, 10, 0), 10);
	ones_fini(o, 10);
	end();
}

/* The connection never has room for a call, though the peer answers pings: the call fails. */
static void test_no_room_for_ever(void)
{
	struct one o[3];
	struct ck_wire_head ping;

	begin();
	one_init(&o[0], 0, 0);
	ones_init(o + 1, 2, 0, 10);
	ones_send(o, 1);
	ping = line.sent[0].head;
	line.full = true;
	ones_send(o + 1, 2);
	for (unsigned left = TIMEOUT / 250; left; left--) {
		eq_u64(ones_open(o, 3), left == TIMEOUT / 250 ? 3 : 2);
		eq_err(take(0, ping, 0), 0);
		pass(250);
	}
	eq_u64(ones_told(o + 1, 2, -EIO), 2);
	ones_fini(o, 3);
	end();
}

int main(void)
{
	test_window();
	test_large();
	test_edges();
	test_no_room();
	test_room_for_one();
	test_pings();
	test_pings_no_room();
	test_no_pings();
	test_silence();
	test_up_again();
	test_stopped();
	test_stopped_before_answers();
	test_stopped_while_down();
	test_timeout();
	test_slow();
	test_no_room_for_ever();
	return tap_done();
}
