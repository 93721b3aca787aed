/* SPDX-License-Identifier: MIT */
/*
 * requester_silent: reads of files with several replicas, the first of which are on silent
 * peers. A silent peer is down after half of the timeout of a read, so that time is left
 * for the next replica. A slow peer that answers pings has the whole timeout.
 */
#include "requester_case.h"

enum { STEP = 125 };

/* File 2 is owner 2's, then owner 1's, then owner 3's. */
static const struct ck_other_place others[] = {
	{ 2, { 1, 1 } },
	{ 2, { 3, 2 } },
};

struct silent {
	struct ck_copy_batch batch;
	struct ck_copy_desc move;
	uint8_t to[8];
	uint64_t now;
	bool is_silent[OWNERS]; /* sends nothing */
	bool is_slow[OWNERS];	/* answers pings only */
};

static void silent_begin(struct silent *c, uint32_t timeout)
{
	case_timeout = timeout;
	case_silence = timeout / 2;
	begin();
	requester.routes.others = others;
	requester.routes.nothers = CK_ARRAY_SIZE(others);
	*c = (struct silent){ .batch = { .list = &c->move, .n = 1 } };
	c->move = (struct ck_copy_desc){
		.file = 2, .fpos = 100, .run = 8, .to = c->to
	};
	eq_err(start(&c->batch), -EINPROGRESS);
}

static bool has(const struct silent *c, unsigned peer, unsigned file)
{
	return memcmp(c->to, owners.bytes[peer][file] + 100, 8) == 0;
}

static void answer(const struct silent *c, size_t i)
{
	struct packet p = packets_take(&line.packets, i);
	struct ck_message m;

	packet_answer(&p, owners.owner[p.peer]);
	m = packet_open(&p);
	eq_err(ck_calls_take(calls, p.peer, &m, c->now), 0);
	ck_buf_fini(&p.bytes);
}

/* Answers all requests that their peers answer. */
static void answer_those(const struct silent *c)
{
	for (size_t i = 0; i < line.packets.n;) {
		const struct packet *p = &line.packets.list[i];
		bool read = p->head.type == CK_WIRE_READ;

		if (c->is_silent[p->peer] || (read && c->is_slow[p->peer])) {
			i++;
			continue;
		}
		answer(c, i);
		i = 0; /* more may have been sent */
	}
}

static void pass(struct silent *c, uint64_t until)
{
	for (answer_those(c); c->now < until && !ended; answer_those(c)) {
		c->now += STEP;
		ok(ck_calls_tick(calls, c->now) > 0);
	}
}

/* With one silent peer, the read fails over in time for every timeout. */
static void test_silent(void)
{
	struct silent c;

	for (uint32_t seconds = 1; seconds <= 9; seconds++) {
		uint32_t timeout = 1000 * seconds;

		silent_begin(&c, timeout);
		c.is_silent[2] = true;
		pass(&c, timeout);
		eq_u64(ended, 1);
		eq_err(c.move.rc, 0);
		ok(has(&c, 1, 1));
		eq_u64(stats->copies, 1);
		ok(c.now >= timeout / 2 && c.now < timeout);
		end();
	}
}

/* With two silent peers, the third one still delivers in time. */
static void test_two_are_silent(void)
{
	struct silent c;

	for (uint32_t seconds = 1; seconds <= 6; seconds++) {
		silent_begin(&c, 1000 * seconds);
		c.is_silent[2] = c.is_silent[1] = true;
		pass(&c, 1000 * (uint64_t)seconds);
		eq_u64(ended, 1);
		eq_err(c.move.rc, 0);
		ok(has(&c, 3, 2));
		end();
	}
}

/* If all peers are silent, the read fails when they are down. */
static void test_all_are_silent(void)
{
	struct silent c;

	silent_begin(&c, 4000);
	c.is_silent[1] = c.is_silent[2] = c.is_silent[3] = true;
	pass(&c, 2000 - STEP);
	eq_u64(ended, 0);
	pass(&c, 2000);
	eq_u64(ended, 1);
	eq_err(c.move.rc, -EIO);
	end();
}

/* A read waits for a peer that answers pings. */
static void test_slow(void)
{
	struct silent c;

	for (uint32_t seconds = 1; seconds <= 9; seconds += 2) {
		silent_begin(&c, 1000 * seconds);
		c.is_slow[2] = true;
		pass(&c, 1000 * seconds - STEP);
		eq_u64(ended, 0);
		c.is_slow[2] = false;
		answer_those(&c);
		eq_u64(ended, 1);
		eq_err(c.move.rc, 0);
		ok(has(&c, 2, 0));
		eq_u64(stats->copies, 0);
		end();
	}
}

int main(void)
{
	owners_begin(&owners);
	test_silent();
	test_two_are_silent();
	test_all_are_silent();
	test_slow();
	return owners_end(&owners) | tap_done();
}
