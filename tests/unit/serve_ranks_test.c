/* SPDX-License-Identifier: MIT */
/*
 * serve: a rank with requests from several other ranks. A rank that sends many requests and
 * reads no answers delays only itself. A rank with more requests than permitted is dropped.
 * The memory for the answers to all ranks is bounded.
 */
#include "raw_ranks.h"

enum { DEAF = 1, GOOD = 2 }; /* ranks */

enum { RUN = 250000, TURNS = 33 }; /* almost the largest READ */

enum { WIDE = RUN * TURNS, BODY = 8 + 4 };

/* --- requests of one rank ---------------------------------------------------------------- */

static void look(struct raw_ranks *r)
{
	struct ck_buf b = { 0 };
	struct ck_wire_head head;

	raw_add_look(&b, 1);
	ok(raw_send(r->fds[GOOD], &b) && raw_read(r->fds[GOOD], &head) &&
	   head.id == 1 && head.err == 0);
	ck_buf_fini(&b);
}

/* Sends large READs one after the other. Returns their time in msec, or 0 if one failed. */
static uint64_t read_all(struct raw_ranks *r, unsigned n)
{
	uint64_t from = msec_now();
	struct ck_buf b = { 0 };
	struct ck_wire_head head;
	bool good = true;

	for (unsigned i = 0; i < n && good; i++) {
		raw_add_read(&b, 100 + i, RUN, TURNS);
		good = raw_send(r->fds[GOOD], &b) &&
		       raw_read(r->fds[GOOD], &head) && head.id == 100 + i &&
		       head.payload == WIDE;
	}
	ck_buf_fini(&b);
	return good ? msec_now() - from + 1 : 0;
}

/* --- memory ------------------------------------------------------------------------------ */

static void test_deaf(unsigned threads)
{
	enum { READS = 20, MUCH = 100 };
	struct ck_buf b = { 0 };
	struct raw_ranks r;
	uint64_t alone, beside;

	raw_ranks_begin(&r, threads, 1);
	look(&r);
	alone = read_all(&r, READS);
	for (unsigned i = 0; i < MUCH; i++)
		raw_add_read(&b, i, RUN, TURNS);
	ok(raw_send(r.fds[DEAF], &b));
	beside = read_all(&r, READS);
	printf("# %" PRIu64 " msec alone, %" PRIu64 " beside a deaf rank\n",
	       alone, beside);
	ok(alone && beside);
	ok(beside < 4 * alone + 500 || !tap_is_long());
	/* One answer to each rank. */
	ok(noted(&taken.most) <= 2 * (WIDE + BODY));
	ok(noted(&taken.most) > WIDE + BODY);
	eq_i64(raw_ranks_end(&r), 0);
	eq_u64(noted(&taken.now), 0);
	ck_buf_fini(&b);
}

/* With more memory, each rank has a third of it. */
static void test_shares(void)
{
	enum { SHARE = 4 * WIDE + (64 << 10), MUCH = 30 };
	struct ck_buf b = { 0 };
	struct raw_ranks r;

	raw_ranks_begin(&r, 4, 3UL * SHARE);
	look(&r);
	for (uint32_t rank = DEAF; rank <= GOOD; rank++) {
		for (unsigned i = 0; i < MUCH; i++)
			raw_add_read(&b, i, RUN, TURNS);
		ok(raw_send(r.fds[rank], &b));
	}
	for (unsigned i = 0; i < 12000 && noted(&taken.now) < 8UL * WIDE; i++)
		msec_sleep(5);
	msec_sleep(100);
	ok(noted(&taken.most) >= 8UL * WIDE);
	ok(noted(&taken.most) <= 8UL * (WIDE + BODY));
	eq_i64(raw_ranks_end(&r), 0);
	ck_buf_fini(&b);
}

/* --- order of requests ---------------------------------------------------------------------- */

static void hold(bool *what, bool held)
{
	__atomic_store_n(what, held, __ATOMIC_RELEASE);
}

static bool are_begun(unsigned n)
{
	uint64_t end = msec_now() + 60000;

	while (__atomic_load_n(&taken.n, __ATOMIC_ACQUIRE) < n &&
	       msec_now() < end)
		msec_sleep(2);
	return __atomic_load_n(&taken.n, __ATOMIC_ACQUIRE) >= n;
}

/* Waits until a rank has received all earlier messages: it replies to a PING behind them,
 * which needs no thread. */
static void wait_until_received(int fd)
{
	struct ck_buf b = { 0 };
	struct ck_wire_head head;

	raw_add_ping(&b, 5000);
	ok(raw_send(fd, &b) && raw_read(fd, &head) && head.id == 5000);
	ck_buf_fini(&b);
}

/* The position of a request in the order in which requests were begun. */
static unsigned place_of(uint64_t id)
{
	unsigned i = 0;

	while (i < CK_ARRAY_SIZE(taken.ids) && noted(&taken.ids[i]) != id)
		i++;
	return i;
}

/* A single request does not wait for all earlier requests of another rank. */
static void test_turns(void)
{
	enum { MUCH = 200 };
	struct ck_buf b = { 0 };
	struct ck_wire_head head;
	struct raw_ranks r;

	raw_ranks_begin(&r, 1, 1);
	look(&r);
	hold(&taken.held, true);
	for (unsigned i = 0; i < MUCH; i++)
		raw_add_read(&b, 1000 + i, 10, 1);
	ok(raw_send(r.fds[DEAF], &b) && are_begun(2));
	raw_add_read(&b, 7, 10, 1);
	raw_add_read(&b, 8, 10, 1);
	ok(raw_send(r.fds[GOOD], &b));
	wait_until_received(r.fds[GOOD]);
	hold(&taken.held, false);
	ok(raw_read(r.fds[GOOD], &head) && head.id == 7);
	ok(raw_read(r.fds[GOOD], &head) && head.id == 8);
	/* 0 is the STAT, 1 was begun before; then the ranks alternate. */
	eq_u64(place_of(7), 2);
	eq_u64(place_of(8), 4);
	ok(are_begun(1 + MUCH + 2));
	eq_u64(place_of(1000 + MUCH - 1), 1 + MUCH + 1);
	eq_i64(raw_ranks_end(&r), 0);
	ck_buf_fini(&b);
}

/* One thread at a time answers STATs; the other threads answer READs
 * meanwhile. */
static void test_looks(void)
{
	struct ck_buf b = { 0 };
	struct ck_wire_head head;
	struct raw_ranks r;

	raw_ranks_begin(&r, 2, 1);
	look(&r);
	hold(&taken.looks_held, true);
	for (unsigned i = 0; i < 3; i++)
		raw_add_look(&b, 20 + i);
	ok(raw_send(r.fds[DEAF], &b) && are_begun(2));
	raw_add_look(&b, 30);
	raw_add_read(&b, 31, 10, 1);
	ok(raw_send(r.fds[GOOD], &b));
	ok(raw_read(r.fds[GOOD], &head) && head.id == 31);
	hold(&taken.looks_held, false);
	ok(raw_read(r.fds[GOOD], &head) && head.id == 30);
	for (unsigned i = 0; i < 3; i++)
		ok(raw_read(r.fds[DEAF], &head) && head.id == 20 + i);
	/* The earlier STAT, the one begun before, the READ; then they
	 * alternate. */
	eq_u64(place_of(31), 2);
	eq_u64(place_of(30), 3);
	eq_i64(raw_ranks_end(&r), 0);
	ck_buf_fini(&b);
}

/* A single thread alternates between STATs and READs. */
static void test_looks_and_reads(void)
{
	enum { MUCH = 50 };
	struct ck_buf b = { 0 };
	struct raw_ranks r;

	raw_ranks_begin(&r, 1, 1);
	look(&r);
	hold(&taken.held, true);
	for (unsigned i = 0; i < MUCH; i++)
		raw_add_look(&b, 1000 + i);
	ok(raw_send(r.fds[DEAF], &b) && are_begun(2));
	raw_add_read(&b, 7, 10, 1);
	ok(raw_send(r.fds[DEAF], &b));
	wait_until_received(r.fds[DEAF]);
	hold(&taken.held, false);
	ok(are_begun(1 + MUCH + 1));
	ok(place_of(7) <= 3);
	eq_i64(raw_ranks_end(&r), 0);
	ck_buf_fini(&b);
}

static void add_wide_look(struct ck_buf *b, uint64_t id)
{
	static struct ck_str names[CK_WIRE_STAT_MAX];
	struct ck_query a;
	size_t n;

	for (unsigned i = 0; i < CK_ARRAY_SIZE(names); i++)
		names[i] = file_name(i % FILES);
	if (ck_query_stat(&a, (struct ck_ids){ 0, 0 }, names,
			  CK_ARRAY_SIZE(names), &n))
		abort();
	raw_add(b, &a, id);
}

/* A request that needs more memory than is free is not overtaken forever by small ones. */
static void test_not_overtaken(void)
{
	enum { SMALL = 20 };
	struct ck_buf b = { 0 };
	struct raw_ranks r;

	raw_ranks_begin(&r, 1, 1);
	look(&r);
	hold(&taken.held, true);
	raw_add_read(&b, 6, RUN, TURNS);
	add_wide_look(&b, 7);
	for (unsigned i = 0; i < SMALL; i++)
		raw_add_read(&b, 1000 + i, 10, 1);
	ok(raw_send(r.fds[GOOD], &b) && are_begun(2));
	wait_until_received(r.fds[GOOD]);
	hold(&taken.held, false);
	for (unsigned i = 0; i < 2 + SMALL; i++) {
		struct ck_wire_head head;

		ok(raw_read(r.fds[GOOD], &head));
	}
	eq_u64(place_of(7), 2);
	eq_i64(raw_ranks_end(&r), 0);
	ck_buf_fini(&b);
}

/* --- limits on requests ------------------------------------------------------------------------- */

/* CK_WIRE_OPEN_MAX requests at a time are answered. */
static void test_many(void)
{
	struct ck_buf b = { 0 };
	struct ck_wire_head head;
	struct raw_ranks r;
	unsigned n = 0;

	raw_ranks_begin(&r, 2, 1);
	look(&r);
	for (unsigned i = 0; i < CK_WIRE_OPEN_MAX; i++)
		raw_add_read(&b, i, 10, 1);
	ok(raw_send(r.fds[GOOD], &b));
	while (n < CK_WIRE_OPEN_MAX && raw_read(r.fds[GOOD], &head) &&
	       head.err == 0)
		n++;
	eq_u64(n, CK_WIRE_OPEN_MAX);
	eq_i64(raw_ranks_end(&r), 0);
	ck_buf_fini(&b);
}

/* Sends the same message until the connection is closed; false if it stays open. */
static bool is_dropped(int fd, const struct ck_buf *one, unsigned most)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	for (unsigned i = 0; i < most; i++)
		if (send(fd, one->data, one->len, MSG_NOSIGNAL) !=
		    (ssize_t)one->len)
			return true;
	return poll(&p, 1, 60000) > 0 && p.revents & (POLLHUP | POLLRDHUP);
}

static void dropped_with(const char *name, const struct ck_buf *one,
			 unsigned most, bool held)
{
	struct raw_ranks r;

	raw_ranks_begin(&r, 2, 1);
	look(&r);
	hold(&taken.held, held);
	tap_result(is_dropped(r.fds[DEAF], one, most), __FILE__, __LINE__,
		   name);
	hold(&taken.held, false);
	ok(read_all(&r, 2) > 0);
	eq_i64(raw_ranks_end(&r), 0);
	eq_u64(noted(&taken.now), 0);
	/* Most of its queued requests were not executed. */
	ok(__atomic_load_n(&taken.n, __ATOMIC_RELAXED) < 20);
}

static void test_dropped(void)
{
	static const char name[4000];
	static struct ck_str names[250];
	struct ck_buf b = { 0 };
	struct ck_query a;
	size_t taken_names;

	raw_add_ping(&b, 1);
	dropped_with("pings, and nothing is read", &b, 100000, false);
	b.len = 0;
	raw_add_read(&b, 1, 10, 1);
	dropped_with("requests", &b, 2 * CK_WIRE_OPEN_MAX + 10, true);
	b.len = 0;
	for (unsigned i = 0; i < CK_ARRAY_SIZE(names); i++)
		names[i] = (struct ck_str){ name, sizeof(name) };
	if (ck_query_stat(&a, (struct ck_ids){ 0, 0 }, names,
			  CK_ARRAY_SIZE(names), &taken_names))
		abort();
	raw_add(&b, &a, 1);
	dropped_with("long requests", &b, 12, true);
	ck_buf_fini(&b);
}

int main(void)
{
	unsigned fds, tasks;

	dir_make();
	fds = proc_count("fd");
	tasks = proc_count("task");
	test_deaf(1);
	test_deaf(4);
	test_shares();
	test_turns();
	test_looks();
	test_looks_and_reads();
	test_not_overtaken();
	test_many();
	test_dropped();
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
	dir_remove();
	return tap_done();
}
