/* SPDX-License-Identifier: MIT */
/*
 * requester_copies: reads of files with several replicas. A failed read fails over to the
 * next replica within the remaining time. If all replicas fail, the first error is returned.
 */
#include "requester_case.h"

enum { TIME = 10000 }; /* msec, of a read */

/* File 2 is owner 2's file 0, then owner 1's file 1, then owner 3's file 2; file 3 is
 * owner 3's, then owner 1's. */
static const struct ck_other_place others[] = {
	{ 2, { 1, 1 } },
	{ 2, { 3, 2 } },
	{ 3, { 1, 0 } },
};

struct copied {
	struct ck_copy_batch batch;
	struct ck_copy_desc list[2];
	uint8_t to[2][8];
};

static void copied_begin(struct copied *c)
{
	begin();
	requester.routes.others = others;
	requester.routes.nothers = CK_ARRAY_SIZE(others);
	*c = (struct copied){ .batch = { .list = c->list, .n = 2 } };
	for (unsigned i = 0; i < 2; i++)
		c->list[i] = (struct ck_copy_desc){
			.file = 2 + i, .fpos = 100, .run = 8, .to = c->to[i]
		};
	eq_err(start(&c->batch), -EINPROGRESS);
	eq_u64(line.packets.n, 2);
}

static bool has(const struct copied *c, unsigned move, unsigned peer,
		unsigned file)
{
	return memcmp(c->to[move], owners.bytes[peer][file] + 100, 8) == 0;
}

/* Answers the last request, with `err` unless that is 0. */
static void answer_last(uint32_t err, uint64_t now)
{
	struct packet p = packets_take(&line.packets, line.packets.n - 1);
	struct ck_message m;

	packet_answer(&p, owners.owner[p.peer]);
	m = packet_open(&p);
	if (err) {
		m.head.err = err;
		m.head.body = 0;
		m.head.payload = 0;
		m.body.len = m.payload.len = 0;
	}
	eq_err(ck_calls_take(calls, p.peer, &m, now), 0);
	ck_buf_fini(&p.bytes);
}

static void tick_at(uint64_t now)
{
	ok(ck_calls_tick(calls, now) > 0);
}

/* Drops all messages in flight to a peer. */
static void lose(uint32_t peer)
{
	for (size_t i = line.packets.n; i > 0 && i--;)
		if (line.packets.list[i].peer == peer)
			packets_drop(&line.packets, i);
}

/* If a peer is lost, its reads fail over to the next replica. */
static void test_takes_over(void)
{
	struct copied c;

	copied_begin(&c);
	lose(2);
	ck_calls_lost(calls, 2);
	eq_u64(line.packets.n, 2);
	eq_u64(line.packets.list[1].peer, 1);
	eq_u64(ended, 0);
	answer_last(0, 1);
	eq_u64(ended, 0);
	answer_all();
	eq_u64(ended, 1);
	eq_err(c.list[0].rc, 0);
	eq_err(c.list[1].rc, 0);
	ok(has(&c, 0, 1, 1) && has(&c, 1, 3, 0));
	eq_u64(stats->copies, 1);
	eq_u64(stats->hosts[1].file_bytes, 8);
	eq_u64(stats->hosts[2].file_bytes, 0);
	eq_u64(stats->hosts[2].wire_bytes, 0);
	end();

	copied_begin(&c);
	answer_all();
	eq_u64(ended, 1);
	ok(has(&c, 0, 2, 0) && has(&c, 1, 3, 0));
	eq_u64(stats->copies, 0);
	eq_u64(stats->hosts[2].file_bytes, 8);
	/* header, number of read bytes, errno, payload */
	eq_u64(stats->hosts[2].wire_bytes, CK_WIRE_HEAD + 8 + 4 + 8);
	end();
}

/* The second replica fails as well; the third one delivers the bytes. */
static void test_third(void)
{
	struct copied c;

	copied_begin(&c);
	answer_last(0, 1); /* of file 3 */
	answer_last(ESTALE, 2);
	eq_u64(line.packets.n, 1);
	answer_last(EIO, 3);
	eq_u64(line.packets.n, 1);
	eq_u64(line.packets.list[0].peer, 3);
	eq_u64(ended, 0);
	answer_last(0, 4);
	eq_u64(ended, 1);
	eq_err(c.list[0].rc, 0);
	ok(has(&c, 0, 3, 2));
	eq_u64(stats->copies, 1);
	end();
}

/* If all replicas fail, the error of the first one is returned. */
static void test_first_error(void)
{
	struct copied c;

	copied_begin(&c);
	answer_last(0, 1);
	answer_last(ESTALE, 2);
	answer_last(EACCES, 3);
	answer_last(ENODATA, 4);
	eq_u64(ended, 1);
	eq_u64(line.packets.n, 0);
	eq_err(c.list[0].rc, -ESTALE);
	eq_err(c.list[1].rc, 0);
	end();

	/* All calls end. */
	copied_begin(&c);
	packets_fini(&line.packets);
	ck_calls_end(calls);
	eq_u64(ended, 1);
	eq_err(c.list[0].rc, -EIO);
	eq_err(c.list[1].rc, -EIO);
	end();
}

/* A read that failed with ENOMEM, or that was interrupted, does not fail over. */
static void test_not_again(void)
{
	struct copied c;

	copied_begin(&c);
	answer_last(0, 1);
	answer_last(ENOMEM, 2);
	eq_u64(ended, 1);
	eq_u64(line.packets.n, 0);
	eq_err(c.list[0].rc, -ENOMEM);
	end();

	copied_begin(&c);
	c.batch.cancelled = true;
	requester.backend.interrupt(&requester.backend, &c.batch);
	packets_fini(&line.packets);
	tick_at(1);
	eq_u64(ended, 1);
	eq_u64(line.packets.n, 0);
	eq_err(c.list[0].rc, -EINTR);
	end();

	/* The read is interrupted before the first replica fails. */
	copied_begin(&c);
	answer_last(0, 1);
	c.batch.cancelled = true;
	answer_last(EIO, 2);
	eq_u64(ended, 1);
	eq_u64(line.packets.n, 0);
	eq_err(c.list[0].rc, -EINTR);
	end();

	/* The read is interrupted while the second replica is read. */
	copied_begin(&c);
	answer_last(0, 1);
	answer_last(EIO, 2);
	eq_u64(line.packets.n, 1);
	c.batch.cancelled = true;
	requester.backend.interrupt(&requester.backend, &c.batch);
	packets_fini(&line.packets);
	tick_at(3);
	eq_u64(ended, 1);
	eq_err(c.list[0].rc, -EINTR);
	end();
}

/* A move beyond the largest file offset is not requested. */
static void test_wild(void)
{
	const struct ck_loop loop = { UINT64_MAX / 2, 8, 8 };
	struct copied c;

	begin();
	requester.routes.others = others;
	requester.routes.nothers = CK_ARRAY_SIZE(others);
	c = (struct copied){ .batch = { .list = c.list, .n = 2 } };
	for (unsigned i = 0; i < 2; i++)
		c.list[i] = (struct ck_copy_desc){ .file = 2,
						   .nloops = 1 - i,
						   .loops = &loop,
						   .fpos = 100,
						   .run = 8,
						   .to = c.to[i] };
	eq_err(start(&c.batch), -EINPROGRESS);
	answer_last(EIO, 1);
	answer_last(0, 2);
	eq_u64(ended, 1);
	eq_err(c.list[0].rc, -EIO);
	eq_err(c.list[1].rc, 0);
	ok(has(&c, 1, 1, 1));
	end();
}

/* Advances the time; all peers answer pings. */
static void pass(uint64_t from, uint64_t to)
{
	for (uint64_t now = from; now <= to; now += 250) {
		tick_at(now);
		for (size_t i = line.packets.n; i > 0 && i--;) {
			struct packet p;
			struct ck_message m;

			if (line.packets.list[i].head.type != CK_WIRE_PING)
				continue;
			p = packets_take(&line.packets, i);
			packet_answer(&p, owners.owner[p.peer]);
			m = packet_open(&p);
			eq_err(ck_calls_take(calls, p.peer, &m, now), 0);
			ck_buf_fini(&p.bytes);
		}
	}
}

/* The second replica has only the time that the first one has not used. */
static void test_deadline(void)
{
	enum { FIRST = 7000 };
	struct copied c;

	copied_begin(&c);
	answer_last(0, 0);
	pass(250, FIRST);
	eq_u64(line.packets.n, 1);
	answer_last(EIO, FIRST);
	eq_u64(line.packets.n,
	       1); /* request to the second, without an answer */
	pass(FIRST + 250, TIME - 250);
	eq_u64(ended, 0);
	pass(TIME, TIME);
	eq_u64(ended, 1);
	eq_err(c.list[0].rc, -EIO);
	lose(1);
	eq_u64(line.packets.n, 0); /* no time is left for the third */
	end();

	/* If the first replica uses all of the time, there is no failover. */
	copied_begin(&c);
	answer_last(0, 0);
	pass(250, TIME);
	eq_u64(ended, 1);
	eq_err(c.list[0].rc, -EIO);
	lose(2);
	eq_u64(line.packets.n, 0);
	end();
}

/* A replica that is down is skipped: the next one is requested at once. */
static void test_down(void)
{
	struct copied c;

	copied_begin(&c);
	ck_calls_lost(calls, 1);
	lose(2);
	ck_calls_lost(calls, 2);
	eq_u64(line.packets.n, 2);
	eq_u64(line.packets.list[1].peer, 3);
	answer_all();
	eq_u64(ended, 1);
	ok(has(&c, 0, 3, 2));
	end();
}

/* --- random replicas with random errors -------------------------------------------------- */

enum { PLACES = 4, ANY_FILES = 5, ANY_MOVES = 4 };

struct any {
	struct copied set; /* only its moves are used */
	struct ck_copy_desc list[ANY_MOVES];
	uint8_t to[ANY_MOVES][8];
	struct ck_location at[ANY_FILES][PLACES];
	struct ck_other_place others[ANY_FILES * PLACES];
	uint32_t places[ANY_FILES];
	size_t nothers;
	uint32_t fate[OWNERS][OWNED]; /* errno in the answer, or 0 */
};

static void any_make(struct any *a, uint64_t *random)
{
	static const uint32_t errs[] = { 0,	  0,	  EIO,	 ESTALE,
					 ENODATA, ENOMEM, EACCES };

	*a = (struct any){ 0 };
	for (unsigned f = 0; f < ANY_FILES; f++) {
		a->places[f] = 1 + (uint32_t)boxes_below(random, PLACES);
		for (uint32_t k = 0; k < a->places[f]; k++) {
			a->at[f][k] = (struct ck_location){
				(uint32_t)boxes_below(random, OWNERS),
				(uint32_t)boxes_below(random, OWNED)
			};
			if (k)
				a->others[a->nothers++] =
					(struct ck_other_place){ f,
								 a->at[f][k] };
		}
	}
	for (unsigned i = 0; i < OWNERS * OWNED; i++)
		a->fate[i / OWNED][i % OWNED] =
			errs[boxes_below(random, CK_ARRAY_SIZE(errs))];
	a->set.batch.list = a->list;
	a->set.batch.n = 1 + boxes_below(random, ANY_MOVES);
	for (unsigned i = 0; i < a->set.batch.n; i++)
		a->list[i] = (struct ck_copy_desc){
			.file = (uint32_t)boxes_below(random, ANY_FILES),
			.fpos = 100,
			.run = 8,
			.to = a->to[i]
		};
}

/* Returns the expected result of a read; *at is the replica that delivers the bytes. */
static int any_model(const struct any *a, uint32_t file, struct ck_location *at)
{
	int first = 0;

	for (uint32_t k = 0; k < a->places[file]; k++) {
		int rc;

		*at = a->at[file][k];
		rc = -(int)a->fate[at->peer][at->number];
		if (rc == 0)
			return 0;
		first = first ? first : rc;
		if (rc == -ENOMEM)
			break;
	}
	return first;
}

/* Answers a random request in flight with the errno of each file. */
static bool any_answer(const struct any *a, uint64_t *random)
{
	enum { ROWS = CK_WIRE_HEAD + 8, ROW = 24 };

	struct packet p = packets_take(&line.packets,
				       boxes_below(random, line.packets.n));
	size_t n = (p.bytes.len - ROWS) / ROW;
	uint32_t numbers[ANY_MOVES];
	struct ck_message m;
	bool good;

	for (size_t i = 0; i < n; i++)
		memcpy(&numbers[i], p.bytes.data + ROWS + i * ROW, 4);
	packet_answer(&p, owners.owner[p.peer]);
	for (size_t i = 0; i < n; i++)
		memcpy(p.bytes.data + CK_WIRE_HEAD + 8 + 4 * i,
		       &a->fate[p.peer][numbers[i]], 4);
	m = packet_open(&p);
	good = ck_calls_take(calls, p.peer, &m, 1) == 0;
	ck_buf_fini(&p.bytes);
	return good;
}

static bool any_is_right(const struct any *a)
{
	for (unsigned i = 0; i < a->set.batch.n; i++) {
		struct ck_location at = { 0, 0 };
		int want = any_model(a, a->list[i].file, &at);

		if (a->list[i].rc != want ||
		    (want == 0 &&
		     memcmp(a->to[i], owners.bytes[at.peer][at.number] + 100,
			    8) != 0))
			return false;
	}
	return true;
}

static void test_any(void)
{
	enum { CASES = TAP_SLOW ? 300 : 3000 };

	uint64_t random = tap_seed(21) | 1, wrong = 0, again = 0;
	static struct any a;

	for (unsigned i = 0; i < CASES; i++) {
		unsigned asked = 0;

		any_make(&a, &random);
		begin();
		for (unsigned f = 0; f < ANY_FILES; f++)
			files[f] = a.at[f][0];
		requester.routes.others = a.others;
		requester.routes.nothers = a.nothers;
		wrong += start(&a.set.batch) != -EINPROGRESS;
		for (; line.packets.n; asked++)
			wrong += !any_answer(&a, &random);
		again += asked > OWNERS;
		wrong += ended != 1 || !any_is_right(&a);
		end();
	}
	eq_u64(wrong, 0);
	ok(again > 0);
}

int main(void)
{
	owners_begin(&owners);
	test_takes_over();
	test_third();
	test_first_error();
	test_not_again();
	test_wild();
	test_deadline();
	test_down();
	test_any();
	return owners_end(&owners) | tap_done();
}
