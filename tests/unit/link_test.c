/* SPDX-License-Identifier: MIT */
/*
 * An IPC channel with an honest worker process: lookups of names, moves of many threads, with
 * interrupts, and with too little memory for all of them. Then the worker process is killed or
 * stopped at random times.
 */
#include "dist/rpc/link_internal.h"
#include "link_case.h"

#include <poll.h>
#include <signal.h>

enum {
	IN_TIME = 3000,	  /* msec, longer than silence and timeout */
	WAIT_MSEC = 60000 /* limit of a wait */
};

/* --- lookups ------------------------------------------------------------------------------ */

static void look_by_hand(struct joined *j)
{
	const struct ck_str names[] = { CK_STR("f1"), CK_STR("none"),
					CK_STR("../f1"), CK_STR("f1") };
	struct ck_name_stat replies[4];
	int rc = ck_calls_stat(ck_link_calls(j->link), 0,
			       (struct ck_ids){ 0, 0 }, names, 4, replies);

	eq_err(rc, 0);
	ok(replies[0].seen && replies[3].seen &&
	   replies[0].number == replies[3].number);
	eq_u64(replies[0].info.size, FILE_BYTES);
	ok(!replies[1].seen || replies[1].info.err == ENODATA);
	ok(!replies[2].seen || replies[2].info.err == ENODATA);
	eq_err(ck_calls_stat(ck_link_calls(j->link), 0, (struct ck_ids){ 0, 0 },
			     names, 0, replies),
	       0);
}

/* Looks up more names than one request can have. long_one: a name that is too long, or 0. */
static int look_many(struct joined *j, size_t long_one)
{
	enum { MANY = 10 * CK_WIRE_STAT_MAX + 5 };

	static const char long_name[CK_WIRE_NAME_MAX + 1];
	struct ck_name_stat *replies = calloc(MANY, sizeof(*replies));
	struct ck_str *names = calloc(MANY, sizeof(*names));
	unsigned wrong = 0;
	int rc;

	for (unsigned i = 0; i < MANY; i++)
		names[i] = file_name(i * 7 / 3 % FILES);
	if (long_one)
		names[long_one] = (struct ck_str){ long_name,
						   sizeof(long_name) };
	rc = ck_calls_stat(ck_link_calls(j->link), 0, (struct ck_ids){ 0, 0 },
			   names, MANY, replies);
	for (unsigned i = 0; rc == 0 && i < MANY; i++)
		wrong += !replies[i].seen ||
			 replies[i].number !=
				 j->files[i * 7 / 3 % FILES].number;
	eq_u64(wrong, 0);
	free(replies);
	free(names);
	return rc;
}

/* A worker process that collects several STATs and answers the last one first.
 * All atomic. */
static struct {
	unsigned looks, most; /* received, and in flight at a time */
	unsigned fails; /* number of the first STAT that gets ENODATA, or 0 */
	unsigned least; /* replies are sent when this many wait */
} late;

static unsigned noted(const unsigned *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

struct look {
	struct ck_frame frame;
	struct ck_answer answer;
};

static void late_answer(struct ck_frames *f, struct look *all, unsigned n)
{
	if (n > noted(&late.most))
		__atomic_store_n(&late.most, n, __ATOMIC_RELAXED);
	while (n > 0 && n--) {
		struct ck_answer *a = &all[n].answer;
		struct ck_str body = { a->body.data, a->head.body };

		if (ck_frames_put(f, &all[n].frame, &a->head, body))
			abort();
		ck_answer_fini(a);
	}
}

static void late_keep(struct ck_file_server *o, const struct ck_framed *f,
		      struct look *look)
{
	const struct ck_message m = { .head = f->head, .body = f->body };

	look->frame = f->frame;
	if (ck_file_server_answer(o, &m, &look->answer))
		abort();
	count(&late.looks, f->head.type == CK_WIRE_STAT);
	if (noted(&late.fails) && noted(&late.looks) >= noted(&late.fails)) {
		ck_answer_fini(&look->answer);
		look->answer.head = f->head;
		look->answer.head.answer = true;
		look->answer.head.body = 0;
		look->answer.head.err = ENODATA;
	}
}

static void *late_run(void *arg)
{
	struct joined *j = arg;
	struct ck_file_server *owner = owner_make();
	struct ck_frames *f = calloc(1, sizeof(*f));
	struct pollfd fd = { .fd = j->serve.link, .events = POLLIN };
	struct ck_framed one;
	struct look looks[16];
	unsigned n = 0;

	f->fd = j->serve.link;
	for (;;) {
		if (poll(&fd, 1, 30) == 0) {
			if (n < noted(&late.least))
				continue;
			__atomic_store_n(&late.least, 0, __ATOMIC_RELAXED);
			late_answer(f, looks, n);
			n = 0;
			continue;
		}
		if (ck_frames_read(f))
			break;
		while (n < CK_ARRAY_SIZE(looks) && ck_frames_next(f, &one) > 0)
			late_keep(owner, &one, &looks[n++]);
	}
	late_answer(f, looks, n);
	ck_frames_fini(f);
	free(f);
	ck_file_server_free(owner);
	close(j->serve.link);
	close(j->serve.memory);
	return NULL;
}

/* Several STATs are in flight at a time, and an error ends all of them. */
static void test_looks(void)
{
	enum { WINDOW = 4 };
	struct joined *j = joined_make();

	j->options.calls.ping_msec = 30000;
	joined_start(j, false, late_run);
	eq_err(joined_look(j, 0), 0);
	__atomic_store_n(&late.least, WINDOW, __ATOMIC_RELAXED);
	eq_err(look_many(j, 0), 0);
	eq_u64(noted(&late.looks), 1 + 11);
	eq_u64(noted(&late.most), WINDOW);
	eq_err(look_many(j, CK_WIRE_STAT_MAX * 3 / 2), -ENAMETOOLONG);
	__atomic_store_n(&late.looks, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&late.fails, 3, __ATOMIC_RELAXED);
	eq_err(look_many(j, 0), -ENODATA);
	ok(noted(&late.looks) >= 3 && noted(&late.looks) < 3 + WINDOW);
	(void)joined_end(j);
}

static void test_by_hand(void)
{
	unsigned fds = proc_count("fd"), threads = proc_count("task");
	struct joined *j = joined_make();

	joined_start(j, true, joined_run);
	look_by_hand(j);
	eq_err(joined_look(j, 0), 0);
	eq_err(look_many(j, 0), 0);
	eq_i64(joined_end(j), 0);
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), threads);
}

/* --- many threads -------------------------------------------------------------------------- */

/* size: of the payload memory. */
static void many(uint64_t size, bool interrupts, bool forked)
{
	unsigned fds = proc_count("fd"), tasks = proc_count("task");
	struct joined *j = joined_make();
	struct movers m = { .j = j,
			    .interrupts = interrupts,
			    .trips = TAP_SLOW ? 40 : 250,
			    .random = tap_seed(1) };
	pthread_t threads[MOVERS];

	j->options.size = size;
	joined_start(j, forked, joined_run);
	eq_err(joined_look(j, 0), 0);
	movers_start(&m, threads);
	movers_join(threads);
	eq_u64(m.wrong, 0);
	ok(m.good > m.trips);
	ok(interrupts || m.failed == 0);
	eq_i64(joined_end(j), 0);
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
}

static void test_many(void)
{
	enum { LEAST = CK_WIRE_READ_MAX + 1 };

	many(72 << 20, false, true);
	many(72 << 20, true, false);
	many(LEAST, false, false);
	many(LEAST, true, true);
}

/* --- memory for one request ------------------------------------------------------------------ */

enum {
	LARGE = 250000,
	LARGE_TURNS = 20
}; /* two do not fit into the least memory */

/* Runs moves one after the other. Returns NULL if all bytes are right. */
static void *large_run(void *arg)
{
	const struct ck_loop loop = { LARGE_TURNS, LARGE, 0 };
	struct joined *j = arg;
	struct ck_backend *backend = &j->requester.backend;
	uint8_t *to = malloc((size_t)LARGE * LARGE_TURNS);
	struct ck_copy_desc move = {
		.run = LARGE, .nloops = 1, .loops = &loop, .to = to
	};
	struct trip *t = malloc(sizeof(*t));
	unsigned wrong = 0;

	trip_init(t);
	for (unsigned i = 0; i < 5; i++) {
		memset(to, FILL, (size_t)LARGE * LARGE_TURNS);
		move.file = i % FILES;
		t->batch = (struct ck_copy_batch){ .list = &move,
						   .n = 1,
						   .done = trip_done };
		if (backend->start(backend, &t->batch) == -EINPROGRESS)
			trip_wait(t);
		wrong += move.rc != 0;
		for (size_t k = 0; k < LARGE_TURNS; k++)
			wrong += memcmp(to + k * LARGE, content[move.file],
					LARGE) != 0;
	}
	sem_destroy(&t->done);
	free(t);
	free(to);
	return wrong ? j : NULL;
}

/* Requests wait for memory, and all complete. */
static void test_scarce(void)
{
	struct joined *j = joined_make();
	pthread_t threads[MOVERS];
	void *wrong;

	j->options.size = CK_WIRE_READ_MAX + 1;
	j->options.calls.window = 4UL * LARGE * LARGE_TURNS;
	joined_start(j, true, joined_run);
	eq_err(joined_look(j, 0), 0);
	for (unsigned i = 0; i < MOVERS; i++)
		if (pthread_create(&threads[i], NULL, large_run, j))
			abort();
	for (unsigned i = 0; i < MOVERS; i++) {
		pthread_join(threads[i], &wrong);
		ok(!wrong);
	}
	eq_i64(joined_end(j), 0);
}

/* Canary: the expected bytes of a file are changed. */
static void test_canary(void)
{
	struct joined *j = joined_make();
	struct movers m = { .j = j, .trips = 40, .random = 8 };

	joined_start(j, true, joined_run);
	eq_err(joined_look(j, 0), 0);
	for (unsigned i = 0; i < FILES; i++)
		for (size_t k = 0; k < FILE_BYTES; k += 5000)
			content[i][k] ^= 1;
	mover_run(&m);
	for (unsigned i = 0; i < FILES; i++)
		for (size_t k = 0; k < FILE_BYTES; k += 5000)
			content[i][k] ^= 1;
	ok(m.wrong > 0);
	eq_i64(joined_end(j), 0);
}

/* --- a worker process that ends or stops ------------------------------------------------------ */

/* True if the counter exceeds `from` in time. */
static bool grows(const unsigned *counter, unsigned from)
{
	uint64_t end = msec_now() + WAIT_MSEC;

	while (__atomic_load_n(counter, __ATOMIC_RELAXED) <= from &&
	       msec_now() < end)
		msec_sleep(5);
	return __atomic_load_n(counter, __ATOMIC_RELAXED) > from;
}

/* good: some moves must complete before the kill. Moves fail after it. */
static void killed_after(uint64_t usec, bool good, struct movers *m)
{
	pthread_t threads[MOVERS];
	unsigned came = m->good, failed;
	int status;

	m->j = joined_make();
	joined_start(m->j, true, joined_run);
	if (joined_look(m->j, 0))
		abort();
	movers_start(m, threads);
	ok(!good || grows(&m->good, came));
	usleep((useconds_t)usec);
	kill(m->j->child, SIGKILL);
	failed = __atomic_load_n(&m->failed, __ATOMIC_RELAXED);
	/* Moves that start after the kill fail at once. */
	ok(grows(&m->failed, failed + MOVERS));
	__atomic_store_n(&m->ending, true, __ATOMIC_RELAXED);
	movers_join(threads);
	ok(is_up_within(m->j->link, 0, false, WAIT_MSEC));
	status = joined_end(m->j);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	__atomic_store_n(&m->ending, false, __ATOMIC_RELAXED);
}

static void test_killed(void)
{
	struct movers m = { .may_fail = true, .random = tap_seed(2) };
	unsigned fds = proc_count("fd"), tasks = proc_count("task");
	uint64_t r = m.random;

	for (unsigned i = 0; i < 12; i++)
		killed_after(tap_random(&r) % 15000, i % 2, &m);
	eq_u64(m.wrong, 0);
	ok(m.longest < IN_TIME || !tap_is_long());
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
}

/* A stopped worker process continues with replies pending in almost full memory. */
static void test_stopped(void)
{
	struct joined *j = joined_make();
	struct movers m = { .j = j, .may_fail = true, .random = tap_seed(3) };
	pthread_t threads[MOVERS];
	unsigned failed = 0, good = 0;

	j->options.size = CK_WIRE_READ_MAX + 1;
	j->options.calls.silence_msec = 300;
	j->options.calls.timeout_msec = 600;
	joined_start(j, true, joined_run);
	joined_look_until(j, 0);
	movers_start(&m, threads);
	for (unsigned i = 0; i < 3; i++) {
		msec_sleep(60 + i * 7);
		kill(j->child, SIGSTOP);
		ok(is_up_within(j->link, 0, false, WAIT_MSEC));
		msec_sleep(100 * i);
		ok(grows(&m.failed, failed));
		kill(j->child, SIGCONT);
		ok(is_up_within(j->link, 0, true, WAIT_MSEC));
		failed = __atomic_load_n(&m.failed, __ATOMIC_RELAXED);
		ok(grows(&m.good, good));
		good = __atomic_load_n(&m.good, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&m.ending, true, __ATOMIC_RELAXED);
	movers_join(threads);
	eq_u64(m.wrong, 0);
	ok(m.longest < IN_TIME || !tap_is_long());
	eq_i64(joined_end(j), 0);
}

int main(void)
{
	dir_make();
	test_by_hand();
	test_looks();
	test_many();
	test_scarce();
	test_canary();
	test_killed();
	test_stopped();
	dir_remove();
	return tap_done();
}
