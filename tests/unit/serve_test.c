/* SPDX-License-Identifier: MIT */
/*
 * serve: a rank that serves a link. The test sends garbage over the link, requests more than
 * the memory limit, and ends the link in all ways.
 */
#include "serve_case.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

/* --- the other end of the link --------------------------------------------------------------- */

struct served {
	struct joined *j;
	int sock;
	struct ck_buf all; /* encoded frames to send */
};

static struct served served_start(unsigned threads, uint64_t memory_most)
{
	struct served s = { .j = joined_make() };

	s.j->serve.threads = threads;
	s.j->serve.memory_most = memory_most;
	joined_prepare(s.j);
	s.sock = s.j->options.sock;
	close(s.j->options.memory);
	taken.most = taken.payload = taken.waiting = 0;
	if (pthread_create(&s.j->thread, NULL, joined_run, s.j))
		abort();
	return s;
}

static int served_end(struct served *s)
{
	int rc;

	if (s->sock >= 0)
		close(s->sock);
	pthread_join(s->j->thread, NULL);
	rc = s->j->rc;
	free(s->j);
	ck_buf_fini(&s->all);
	return rc;
}

static void add(struct ck_buf *b, struct ck_query *a, uint64_t id,
		uint64_t room)
{
	uint8_t head[CK_WIRE_HEAD];

	a->head.id = id;
	ck_buf_u32(b, 0);
	ck_buf_u32(b, CK_FRAME_MESSAGE);
	ck_buf_u64(b, 0);
	ck_buf_u64(b, room);
	ck_wire_head_put(&a->head, head);
	ck_buf_add(b, head, sizeof(head));
	ck_buf_add(b, a->body.data, a->head.body);
	ck_query_fini(a);
}

/* A READ of the first file: `run` bytes, `turns` times. */
static void add_wide_read(struct ck_buf *b, uint64_t id, uint64_t run,
			  uint64_t turns)
{
	static uint8_t to[1];
	const struct ck_loop loop = { turns, run, 0 };
	struct ck_copy_desc m = {
		.fpos = 5, .run = run, .to = to, .nloops = 1, .loops = &loop
	};
	struct ck_reads reads;
	struct ck_query a;

	ck_reads_begin(&reads, &m, 1);
	if (!ck_reads_left(&reads) || ck_query_read(&reads, &a))
		abort();
	add(b, &a, id, ck_query_bytes(&a));
}

static void add_read(struct ck_buf *b, uint64_t id, uint64_t run)
{
	add_wide_read(b, id, run, 1);
}

static void add_list(struct ck_buf *b, uint64_t id)
{
	struct ck_query a;

	if (ck_query_list(&a, CK_STR(""), 0))
		abort();
	add(b, &a, id, 0);
}

static void add_look(struct ck_buf *b, uint64_t id)
{
	const struct ck_str names[] = { CK_STR("f0"), CK_STR("f1") };
	struct ck_query a;
	size_t n;

	if (ck_query_stat(&a, (struct ck_ids){ 0, 0 }, names, 2, &n))
		abort();
	add(b, &a, id, 0);
}

/* A STAT for many short names, so that the answer is far larger. */
static void add_wide_look(struct ck_buf *b, uint64_t id)
{
	static struct ck_str names[500];
	struct ck_query a;
	size_t n;

	for (unsigned i = 0; i < CK_ARRAY_SIZE(names); i++)
		names[i] = file_name(i % FILES);
	if (ck_query_stat(&a, (struct ck_ids){ 0, 0 }, names,
			  CK_ARRAY_SIZE(names), &n))
		abort();
	add(b, &a, id, 0);
}

static void add_ping(struct ck_buf *b, uint64_t id)
{
	struct ck_query a;

	if (ck_query_ping(&a))
		abort();
	add(b, &a, id, 0);
}

static void add_others(struct ck_buf *b)
{
	const struct ck_wire_run run = { 0, 3, 1000 };
	struct ck_query a;

	if (ck_query_list(&a, CK_STR(""), 0))
		abort();
	add(b, &a, 6, 0);
	if (ck_query_digest(&a, &run, 1))
		abort();
	add(b, &a, 7, 0);
}

/* Sends all bytes and discards received ones. False if the other end is closed. */
static bool send_and_read(int sock, const char *bytes, size_t len)
{
	static char away[1 << 16];
	size_t done = 0;

	while (done < len) {
		struct pollfd fd = { sock, POLLIN | POLLOUT, 0 };
		ssize_t n;

		(void)poll(&fd, 1, -1);
		while ((n = recv(sock, away, sizeof(away), MSG_DONTWAIT)) > 0)
			;
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		n = send(sock, bytes + done, len - done,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Counts answers until there are `want`, or there is no other one for 60 s. */
static unsigned answers_count(int sock, unsigned want)
{
	struct ck_frames *f = calloc(1, sizeof(*f));
	struct pollfd fd = { sock, POLLIN, 0 };
	struct ck_framed out;
	unsigned n = 0;

	f->fd = sock;
	while (n < want && poll(&fd, 1, 60000) > 0 && ck_frames_read(f) == 0)
		while (ck_frames_next(f, &out) > 0)
			n += out.head.answer;
	ck_frames_fini(f);
	free(f);
	return n;
}

/* --- garbage ----------------------------------------------------------------------------------- */

static void frames_of_all_kinds(struct ck_buf *b)
{
	add_look(b, 1);
	add_read(b, 2, 1000);
	add_list(b, 3);
	add_ping(b, 4);
	add_others(b);
	add_read(b, 8, 70000);
}

/* Changes, removes and repeats some bytes. */
static void mutate(struct ck_buf *b, uint64_t *r)
{
	unsigned n = (unsigned)(tap_random(r) % 4);
	size_t at;

	for (unsigned i = 0; i < n; i++) {
		at = tap_random(r) % b->len;
		b->data[at] ^= (char)(tap_random(r) % 3 ? tap_random(r) & 0x7f
							: 1);
	}
	at = tap_random(r) % b->len;
	if (tap_random(r) % 4 == 0)
		b->len = at;
	if (tap_random(r) % 8 == 0 && b->len > at + 8)
		memmove(b->data + at, b->data + at + 8, b->len - at - 8);
}

/* Returns the result of ck_serve_run(). */
static int garbage(uint64_t *r, bool random)
{
	struct served s = served_start(2, 1 << 20);
	bool there = true;
	int rc;

	for (unsigned i = 0; i < 6 && there; i++) {
		struct ck_buf b = { 0 };

		frames_of_all_kinds(&b);
		for (size_t k = 0; k < b.len && random; k++)
			b.data[k] = (char)(tap_random(r) & 0xff);
		if (tap_random(r) % 3 == 0)
			mutate(&b, r);
		there = send_and_read(s.sock, b.data, b.len);
		ck_buf_fini(&b);
	}
	rc = served_end(&s);
	return rc;
}

static void test_garbage(void)
{
	uint64_t r = tap_seed(11);
	unsigned ended = 0, went_on = 0, wrong = 0;
	unsigned fds = proc_count("fd"), tasks = proc_count("task");
	uint64_t n = tap_cases("CKPTFS_CASES", 80, TAP_SLOW ? 500 : 10000);

	for (uint64_t i = 0; i < n; i++) {
		int rc = garbage(&r, i % 10 == 0);

		ended += rc == -EPROTO;
		went_on += rc == 0;
		wrong += rc != 0 && rc != -EPROTO;
	}
	eq_u64(wrong, 0);
	ok(ended > 20 && went_on > 5);
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
}

/* Sends a READ with one changed byte. An invalid request ends the link; others are answered. */
static void one_frame(const char *name, size_t at, uint8_t byte, bool ends)
{
	struct served s = served_start(1, 1 << 20);
	int rc;

	add_look(&s.all, 1);
	answers_count(s.sock, 0);
	send_and_read(s.sock, s.all.data, s.all.len);
	eq_u64(answers_count(s.sock, 1), 1);
	s.all.len = 0;
	add_read(&s.all, 2, 1000);
	s.all.data[at] = (char)byte;
	send_and_read(s.sock, s.all.data, s.all.len);
	eq_u64(answers_count(s.sock, 1), !ends);
	rc = served_end(&s);
	tap_eq_i64(rc, ends ? -EPROTO : 0, __FILE__, __LINE__, name);
}

static void test_frames(void)
{
	one_frame("as it should be", 0, 0, false);
	one_frame("a rank that there is not", 0, 1, true);
	one_frame("a loss", 4, CK_FRAME_LOST, true);
	one_frame("a place behind the memory", 8 + 7, 1, true);
	one_frame("a place that wraps", 8 + 7, 0xff, true);
	one_frame("a room behind the memory", 16 + 7, 0x10, true);
	one_frame("a room that is too small", 16, 1, true);
	one_frame("an answer", CK_FRAME + 8, 1, true);
	one_frame("an invalid body", CK_FRAME + CK_WIRE_HEAD, 9, true);
	one_frame("a file that there is not", CK_FRAME + CK_WIRE_HEAD + 8, 200,
		  false);
}

/* --- memory ------------------------------------------------------------------------------------- */

enum {
	LARGE = 250000,
	MANY = 64,
	TURNS = 33
}; /* 33: almost the largest READ */

/* Requests that exceed the memory limit together are answered one after the other. */
static void test_memory(uint64_t most, uint64_t turns, unsigned many,
			uint64_t expected)
{
	struct served s = served_start(4, most);

	add_look(&s.all, 1);
	send_and_read(s.sock, s.all.data, s.all.len);
	s.all.len = 0;
	for (unsigned i = 0; i < many; i++)
		add_wide_read(&s.all, 2 + i, LARGE, turns);
	if (write(s.sock, s.all.data, s.all.len) != (ssize_t)s.all.len)
		abort();
	/* The answer to the STAT was discarded before, or is counted. */
	ok(answers_count(s.sock, many) >= many);
	eq_u64(noted(&taken.payload), LARGE * turns);
	ok(noted(&taken.most) <= expected);
	eq_i64(served_end(&s), 0);
	eq_u64(noted(&taken.now), 0);
}

/* The link can end while many requests wait for memory. */
static void test_end_with_waiting(void)
{
	struct served s = served_start(1, 1);

	add_look(&s.all, 1);
	for (unsigned i = 0; i < MANY; i++)
		add_read(&s.all, 2 + i, LARGE);
	if (write(s.sock, s.all.data, s.all.len) != (ssize_t)s.all.len)
		abort();
	ok(answers_count(s.sock, 1) >= 1);
	eq_i64(served_end(&s), 0);
	eq_u64(noted(&taken.now), 0);
}

/* Sends requests without reading, until more than `waits` bytes of answers are queued and the
 * rank has stopped reading. Returns the number of sent bytes. */
static size_t ask_and_not_read(int sock, const struct ck_buf *b, size_t most,
			       uint64_t waits)
{
	struct pollfd fd = { sock, POLLOUT, 0 };
	uint64_t end = msec_now() + 60000;
	size_t sent = 0;

	while (sent < most &&
	       (poll(&fd, 1, 1000) > 0 ||
		(noted(&taken.waiting) <= waits && msec_now() < end))) {
		size_t at = sent % b->len;
		ssize_t n = send(sock, b->data + at, b->len - at,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			abort();
		sent += n > 0 ? (size_t)n : 0;
	}
	return sent;
}

/* The rank stops reading from a peer that reads no answers. When the peer reads, it receives
 * all answers. */
static void test_flood(void)
{
	enum { MOST = CK_WIRE_READ_MAX, ASKED = 12 << 20, ANSWER = 27000 };
	struct served s = served_start(2, 1);
	size_t sent;
	unsigned n;

	for (unsigned i = 0; i < 100; i++)
		add_wide_look(&s.all, i);
	sent = ask_and_not_read(s.sock, &s.all, ASKED, MOST - 20 * ANSWER);
	ok(sent < ASKED);
	/* No request is begun if its answer might exceed the limit. */
	ok(noted(&taken.waiting) > MOST - 20 * ANSWER);
	ok(noted(&taken.waiting) <= MOST + ANSWER);
	ok(noted(&taken.most) <= MOST + ANSWER);
	n = (unsigned)(sent / (s.all.len / 100));
	printf("# %u requests, %" PRIu64 " bytes waited\n", n,
	       noted(&taken.waiting));
	eq_u64(answers_count(s.sock, n), n);
	eq_i64(served_end(&s), 0);
}

/* --- ends ------------------------------------------------------------------------------------------ */

static void test_stop(void)
{
	struct joined *j = joined_make();
	int stop = eventfd(0, EFD_CLOEXEC);

	joined_prepare(j);
	j->serve.stop = stop;
	if (pthread_create(&j->thread, NULL, joined_run, j))
		abort();
	msec_sleep(20);
	if (eventfd_write(stop, 1))
		abort();
	pthread_join(j->thread, NULL);
	eq_err(j->rc, 0);
	close(stop);
	close(j->options.sock);
	close(j->options.memory);
	free(j);
}

static void *no_owner_run(void *arg)
{
	struct joined *j = arg;

	j->rc = ck_serve_run(&j->serve);
	close(j->serve.link);
	close(j->serve.memory);
	return NULL;
}

/* A rank without a file server is up, and has no files. */
static void test_no_owner(void)
{
	struct joined *j = joined_make();

	joined_start(j, false, no_owner_run);
	eq_err(joined_look(j, 0), -ENODATA);
	msec_sleep(400);
	ok(ck_calls_is_up(ck_link_calls(j->link), 0) || !tap_is_long());
	eq_i64(joined_end(j), 0);
}

/* A rank that reads from a slow disk for long is up meanwhile. */
static void test_busy(void)
{
	struct served s = served_start(1, 1);
	unsigned n;

	__atomic_store_n(&taken.held, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 10; i++)
		add_look(&s.all, i);
	add_ping(&s.all, 99);
	send_and_read(s.sock, s.all.data, s.all.len);
	n = answers_count(s.sock, 1);
	eq_u64(n, 1);
	__atomic_store_n(&taken.held, false, __ATOMIC_RELEASE);
	eq_u64(answers_count(s.sock, 10), 10);
	eq_i64(served_end(&s), 0);
}

static void no_serve(const char *name, struct ck_serve_options o, int rc)
{
	tap_eq_i64(ck_serve_run(&o), rc, __FILE__, __LINE__, name);
}

static void no_link(const char *name, struct ck_link_options o, int rc)
{
	struct ck_link *link;

	tap_eq_i64(ck_link_make(&o, &link), rc, __FILE__, __LINE__, name);
}

/* Both ends of a link refuse invalid shared memory. */
static void no_memory(const char *name, int memory, uint64_t size, int rc)
{
	no_serve(name,
		 (struct ck_serve_options){ .link = 0,
					    .memory = memory,
					    .size = size,
					    .rounds = { .link = -1 },
					    .threads = 1,
					    .stop = -1 },
		 rc);
	no_link(name,
		(struct ck_link_options){
			.sock = -1,
			.memory = memory,
			.size = size,
			.calls = { .npeers = 1, .ping_msec = 1 } },
		rc);
}

static void test_no_memory(void)
{
	enum { SIZE = CK_WIRE_READ_MAX + 4096 };

	unsigned fds = proc_count("fd");
	int good = memory_make(SIZE), bad = memfd_create("bad", MFD_CLOEXEC);
	int ends[2];

	if (ftruncate(bad, SIZE) || pipe(ends))
		abort();
	no_memory("no descriptor", -1, SIZE, -EBADF);
	no_memory("smaller than its stated size", good, SIZE + 1, -EINVAL);
	no_memory("far less", good, UINT64_MAX, -EINVAL);
	no_memory("less than an answer", good, CK_WIRE_READ_MAX, -EINVAL);
	no_memory("nothing", good, 0, -EINVAL);
	no_memory("memory that can shrink", bad, SIZE, -EINVAL);
	no_memory("a pipe", ends[0], SIZE, -EINVAL);
	no_memory("a directory", dirfd_all, SIZE, -EINVAL);
	close(good);
	close(bad);
	close(ends[0]);
	close(ends[1]);
	ck_link_free(NULL);
	eq_u64(proc_count("fd"), fds);
}

static void test_no_options(void)
{
	enum { SIZE = CK_WIRE_READ_MAX + 4096 };

	int memory = memory_make(SIZE);
	const struct ck_link_options o = { .sock = -1,
					   .memory = memory,
					   .size = SIZE };
	struct ck_link_options link = o;

	link.calls.ping_msec = 1;
	no_link("no peers", link, -EINVAL);
	link = o;
	link.calls.npeers = 1;
	no_link("no time until it asks", link, -EINVAL);
	no_serve("no threads",
		 (struct ck_serve_options){
			 .link = -1, .rounds = { .link = -1 }, .stop = -1 },
		 -EINVAL);
	close(memory);
}

int main(void)
{
	unsigned fds, tasks;

	dir_make();
	fds = proc_count("fd");
	tasks = proc_count("task");
	test_frames();
	test_garbage();
	test_memory(1, 1, MANY, CK_WIRE_READ_MAX);
	test_memory(1, TURNS, 12, TURNS * LARGE + 8 + 4);
	/* Canary: with a higher limit, more memory is used. */
	test_memory(32 << 20, TURNS, 24, 32 << 20);
	ok(noted(&taken.most) > TURNS * LARGE + 8 + 4);
	test_end_with_waiting();
	test_flood();
	test_busy();
	test_stop();
	test_no_owner();
	test_no_memory();
	test_no_options();
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
	dir_remove();
	return tap_done();
}
