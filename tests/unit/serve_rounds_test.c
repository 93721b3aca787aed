/* SPDX-License-Identifier: MIT */
/*
 * serve: a rank with a worker process that runs rounds. The rank forwards messages between
 * this process and other ranks, and answers its READs. No act or failure of the process
 * affects the mount or other ranks that request bytes.
 */
#include "raw_ranks.h"

enum { A = 1, B = 2 }; /* the other ranks */

enum { SIZE = 16 << 20, MSEC = 1234, PLACE = 4096, RUN = 70000, LONG = 140000 };

static char filling[LONG];

struct scene {
	struct raw_ranks r;
	struct ck_frames *frames; /* the end of the worker process */
	uint8_t *memory;
};

static void begin(struct scene *s)
{
	raw_ranks_begin_with(&s->r,
			     (struct ck_serve_options){
				     .threads = 2,
				     .memory_most = 1 << 20,
				     .rounds = { .size = SIZE, .msec = MSEC },
				     .stop = -1 });
	s->frames = calloc(1, sizeof(*s->frames));
	s->memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			 s->r.serve.rounds.memory, 0);
	if (!s->frames || s->memory == MAP_FAILED)
		abort();
	s->frames->fd = s->r.rounds;
}

static void end(struct scene *s)
{
	eq_i64(raw_ranks_end(&s->r), 0);
	eq_u64(noted(&taken.now), 0);
	munmap(s->memory, SIZE);
	ck_frames_fini(s->frames);
	free(s->frames);
}

/* --- the worker process ----------------------------------------------------------------- */

/* The next frame that the worker process receives; false if its link is closed. */
static bool hear(struct scene *s, struct ck_framed *out)
{
	struct pollfd fd = { .fd = s->r.rounds, .events = POLLIN };

	for (;;) {
		if (ck_frames_next(s->frames, out) > 0)
			return true;
		if (poll(&fd, 1, 60000) <= 0)
			abort();
		if (ck_frames_read(s->frames))
			return false;
	}
}

static bool hears_job(struct scene *s)
{
	struct ck_framed f;

	return hear(s, &f) && f.frame.kind == CK_FRAME_JOB &&
	       f.frame.peer == 0 && f.frame.place == RAW_RANKS &&
	       f.frame.room == MSEC;
}

static bool hears_lost(struct scene *s, uint32_t rank)
{
	struct ck_framed f;

	return hear(s, &f) && f.frame.kind == CK_FRAME_LOST &&
	       f.frame.peer == rank;
}

static bool hears(struct scene *s, uint32_t rank, struct ck_str body)
{
	struct ck_framed f;

	return hear(s, &f) && f.frame.kind == CK_FRAME_MESSAGE &&
	       f.frame.peer == rank && f.head.type == CK_WIRE_ROUND &&
	       ck_str_eq(f.body, body);
}

static bool is_closed(struct scene *s)
{
	struct ck_framed f;

	while (hear(s, &f))
		;
	return true;
}

static void put(struct scene *s, const struct ck_frame *frame,
		const struct ck_wire_head *head, struct ck_str body)
{
	if (ck_frames_put(s->frames, frame, head, body))
		abort();
}

static void process_says(struct scene *s, uint32_t rank, struct ck_str body)
{
	const struct ck_frame frame = { .peer = rank,
					.kind = CK_FRAME_MESSAGE };
	const struct ck_wire_head head = { .type = CK_WIRE_ROUND,
					   .body = (uint32_t)body.len };

	put(s, &frame, &head, body);
}

/* A READ of file 0. */
static void ask(struct scene *s, uint64_t id, uint64_t place, uint64_t room)
{
	static uint8_t to[1];
	const struct ck_frame frame = { .kind = CK_FRAME_MESSAGE,
					.place = place,
					.room = room };
	struct ck_copy_desc m = { .fpos = 5, .run = RUN, .to = to };
	struct ck_reads reads;
	struct ck_query a;

	ck_reads_begin(&reads, &m, 1);
	if (!ck_reads_left(&reads) || ck_query_read(&reads, &a))
		abort();
	a.head.id = id;
	put(s, &frame, &a.head, (struct ck_str){ a.body.data, a.head.body });
	ck_query_fini(&a);
}

/* --- other ranks ------------------------------------------------------------------------- */

static void rank_says(const struct scene *s, uint32_t rank, struct ck_str body)
{
	const struct ck_wire_head head = { .type = CK_WIRE_ROUND,
					   .body = (uint32_t)body.len };
	uint8_t bytes[CK_WIRE_HEAD];
	struct ck_buf b = { 0 };

	ck_wire_head_put(&head, bytes);
	ck_buf_add(&b, bytes, sizeof(bytes));
	ck_buf_str(&b, body);
	ok(raw_send(s->r.fds[rank], &b));
	ck_buf_fini(&b);
}

/* True if the next message to a rank is a ROUND of this length. */
static bool rank_hears(const struct scene *s, uint32_t rank, uint32_t len)
{
	struct ck_wire_head head;

	return raw_read(s->r.fds[rank], &head) && head.type == CK_WIRE_ROUND &&
	       !head.answer && head.body == len;
}

static bool serves(const struct scene *s, uint32_t rank)
{
	struct ck_buf b = { 0 };
	struct ck_wire_head head;
	bool good;

	raw_add_look(&b, 5);
	good = raw_send(s->r.fds[rank], &b) &&
	       raw_read(s->r.fds[rank], &head) && head.answer && head.id == 5;
	ck_buf_fini(&b);
	return good;
}

/* True if the mount gets an answer. */
static bool serves_mount(const struct scene *s)
{
	struct ck_frames *frames = calloc(1, sizeof(*frames));
	const struct ck_frame frame = { .kind = CK_FRAME_MESSAGE };
	struct pollfd fd = { .fd = s->r.link, .events = POLLIN };
	struct ck_framed f = { .head = { .id = 0 } };
	struct ck_query a;

	if (!frames || ck_query_ping(&a))
		abort();
	frames->fd = s->r.link;
	a.head.id = 77;
	if (ck_frames_put(frames, &frame, &a.head, CK_STR("")))
		abort();
	/* Frames about lost ranks may come first. */
	while ((ck_frames_next(frames, &f) > 0 && f.head.id != 77) ||
	       (f.head.id != 77 && poll(&fd, 1, 60000) > 0 &&
		ck_frames_read(frames) == 0))
		;
	ck_query_fini(&a);
	ck_frames_fini(frames);
	free(frames);
	return f.head.answer && f.head.id == 77;
}

/* --- forwarding and reading --------------------------------------------------------------- */

static void test_relay(void)
{
	static char long_text[LONG];
	struct scene s;

	memset(long_text, 'l', sizeof(long_text));
	begin(&s);
	ok(hears_job(&s));
	process_says(&s, A, CK_STR("to a"));
	process_says(&s, B, CK_STR("to rank b"));
	ok(rank_hears(&s, A, 4));
	ok(rank_hears(&s, B, 9));
	rank_says(&s, B, CK_STR("from b"));
	ok(hears(&s, B, CK_STR("from b")));
	rank_says(&s, A, (struct ck_str){ long_text, LONG });
	rank_says(&s, A, CK_STR("and again"));
	ok(hears(&s, A, (struct ck_str){ long_text, LONG }));
	ok(hears(&s, A, CK_STR("and again")));
	ok(serves(&s, A) && serves_mount(&s));
	end(&s);
}

static void test_read(void)
{
	struct ck_framed f;
	struct scene s;

	begin(&s);
	ok(hears_job(&s));
	ok(serves(&s, A)); /* the file gets its number */
	ask(&s, 9, PLACE, RUN);
	ok(hear(&s, &f) && f.frame.kind == CK_FRAME_MESSAGE &&
	   f.frame.peer == 0 && f.frame.place == PLACE && f.head.answer &&
	   f.head.type == CK_WIRE_READ && f.head.id == 9 && f.head.err == 0 &&
	   f.head.payload == RUN);
	ok(memcmp(s.memory + PLACE, content[0] + 5, RUN) == 0);
	ok(s.memory[PLACE - 1] == 0 && s.memory[PLACE + RUN] == 0);
	end(&s);
}

/* The process is notified of ranks that are lost, and of ranks that take no part in rounds. The
 * latter are still served. */
static void test_lost(void)
{
	struct scene s;

	begin(&s);
	ok(hears_job(&s));
	rank_says(&s, A, CK_STR(""));
	ok(hears_lost(&s, A));
	ok(serves(&s, A));
	close(s.r.fds[B]);
	s.r.fds[B] = -1;
	ok(hears_lost(&s, B));
	process_says(&s, B, CK_STR("not received"));
	process_says(&s, A, CK_STR("is received"));
	ok(rank_hears(&s, A, 11));
	ok(serves_mount(&s));
	end(&s);
}

/* The reason why a rank does not take part arrives before its refusal. */
static void test_why_not(void)
{
	static const char why[] = "\0\0no such library";
	const struct ck_str sent = { why, sizeof(why) - 1 };
	struct scene s;

	begin(&s);
	ok(hears_job(&s));
	rank_says(&s, B, sent);
	ok(hears(&s, B, sent));
	ok(hears_lost(&s, B));
	/* From this rank to the others. */
	process_says(&s, 0, sent);
	ck_fd_cleanup(&s.r.rounds);
	ok(rank_hears(&s, A, (uint32_t)sent.len));
	ok(rank_hears(&s, B, (uint32_t)sent.len));
	ok(serves(&s, A) && serves_mount(&s));
	end(&s);
}

/* The reason is cut to one line, and is sent only once. */
static void test_why_not_twice(void)
{
	static const char why[1000] = { 0, 0, 'n' };
	struct scene s;

	begin(&s);
	ok(hears_job(&s));
	process_says(&s, 0, (struct ck_str){ why, sizeof(why) });
	process_says(&s, 0, (struct ck_str){ why, sizeof(why) });
	ok(is_closed(&s));
	ok(rank_hears(&s, A, 2 + 255) && rank_hears(&s, B, 2 + 255));
	ok(serves(&s, A) && serves_mount(&s));
	end(&s);
}

/* --- no worker process --------------------------------------------------------------------- */

/* All ranks are notified that there is no process. Their earlier messages are no fault. */
static void none_is_there(struct scene *s)
{
	ok(rank_hears(s, A, 0) && rank_hears(s, B, 0));
	rank_says(s, A, CK_STR("before it was known"));
	rank_says(s, A, CK_STR(""));
	rank_says(s, B, CK_STR(""));
	/* The next message is not an answer to these ROUNDs. */
	ok(serves(s, A) && serves(s, B) && serves_mount(s));
}

static void test_gone(void)
{
	struct scene s;

	begin(&s);
	ok(hears_job(&s));
	ask(&s, 9, PLACE, RUN);
	ck_fd_cleanup(&s.r.rounds);
	none_is_there(&s);
	end(&s);
}

static void test_none(void)
{
	struct scene s = { .memory = NULL };

	raw_ranks_begin_with(
		&s.r, (struct ck_serve_options){ .threads = 2,
						 .memory_most = 1 << 20,
						 .rounds = { .used = true },
						 .stop = -1 });
	none_is_there(&s);
	eq_i64(raw_ranks_end(&s.r), 0);
}

/* In a job without rounds, the rank sends no ROUND, and closes the connection to a rank that
 * sends one. */
static void test_not_used(void)
{
	struct scene s = { .memory = NULL };
	struct ck_wire_head head;

	raw_ranks_begin(&s.r, 2, 1 << 20);
	ok(serves(&s, A) && serves(&s, B)); /* their first message */
	rank_says(&s, A, CK_STR("unexpected"));
	ok(!raw_read(s.r.fds[A], &head));
	rank_says(&s, B, CK_STR(""));
	ok(!raw_read(s.r.fds[B], &head));
	ok(serves_mount(&s));
	eq_i64(raw_ranks_end(&s.r), 0);
}

/* If rounds are allowed but not used, only a rank that sends a ROUND is notified, once. */
static void test_allowed(void)
{
	struct scene s = { .memory = NULL };

	raw_ranks_begin_with(
		&s.r, (struct ck_serve_options){ .threads = 2,
						 .memory_most = 1 << 20,
						 .rounds = { .allowed = true },
						 .stop = -1 });
	ok(serves(&s, A) && serves(&s, B));
	rank_says(&s, B, CK_STR(""));
	ok(serves(&s, B));
	rank_says(&s, A, CK_STR("who takes part?"));
	rank_says(&s, A, CK_STR("and who else?"));
	ok(rank_hears(&s, A, 0));
	ok(serves(&s, A) && serves(&s, B) && serves_mount(&s));
	eq_i64(raw_ranks_end(&s.r), 0);
}

/* --- forbidden messages of the process ------------------------------------------------------- */

struct wrong {
	const char *name;
	struct ck_frame frame;
	struct ck_wire_head head;
};

static const struct wrong wrongs[] = {
	{ "a round for a rank out of range",
	  { RAW_RANKS, 1, 0, 0 },
	  { .type = CK_WIRE_ROUND, .body = 4 } },
	{ "a round for itself",
	  { 0, 1, 0, 0 },
	  { .type = CK_WIRE_ROUND, .body = 4 } },
	{ "that it takes no part", { A, 1, 0, 0 }, { .type = CK_WIRE_ROUND } },
	{ "a read of another rank",
	  { A, 1, 0, RUN },
	  { .type = CK_WIRE_READ, .body = 4 } },
	{ "a read behind the memory",
	  { 0, 1, SIZE, 1 },
	  { .type = CK_WIRE_READ, .body = 4 } },
	{ "a read whose place wraps",
	  { 0, 1, UINT64_MAX, 2 },
	  { .type = CK_WIRE_READ, .body = 4 } },
	{ "a look", { 0, 1, 0, 0 }, { .type = CK_WIRE_STAT, .body = 4 } },
	{ "a ping", { 0, 1, 0, 0 }, { .type = CK_WIRE_PING } },
	{ "an answer",
	  { A, 1, 0, 0 },
	  { .type = CK_WIRE_READ, .answer = true } },
	{ "that all is over", { A, 1, 0, 0 }, { .type = CK_WIRE_OVER } },
	{ "a loss", { A, CK_FRAME_LOST, 0, 0 }, { 0 } },
	{ "that a rank is not wanted", { A, CK_FRAME_DROP, 0, 0 }, { 0 } },
	{ "a job", { 0, CK_FRAME_JOB, 1, 0 }, { 0 } },
	{ "no frame", { A, CK_FRAME_KINDS, 0, 0 }, { 0 } },
};

static void test_wrong(const struct wrong *w)
{
	struct scene s;

	begin(&s);
	ok(hears_job(&s));
	put(&s, &w->frame, w->head.type ? &w->head : NULL,
	    (struct ck_str){ "body", w->head.body });
	tap_result(is_closed(&s), __FILE__, __LINE__, w->name);
	none_is_there(&s);
	end(&s);
}

static void test_garbage(void)
{
	uint64_t random = tap_seed(3);

	for (unsigned i = 0; i < (TAP_SLOW ? 5 : 30); i++) {
		struct scene s;
		uint8_t bytes[2048];

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)(tap_random(&random) >> 24 & 0xff);
		begin(&s);
		ok(hears_job(&s));
		ok(send(s.r.rounds, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0);
		ok(is_closed(&s));
		none_is_there(&s);
		end(&s);
	}
}

/* --- invalid READs of the process -------------------------------------------------------------- */

/* The answer is EIO, no byte is written, and the next READ succeeds. */
static void is_refused(struct scene *s, uint64_t id)
{
	struct ck_framed f;

	ok(hear(s, &f) && f.frame.kind == CK_FRAME_MESSAGE &&
	   f.frame.peer == 0 && f.head.answer && f.head.type == CK_WIRE_READ &&
	   f.head.id == id && f.head.err == EIO && f.head.payload == 0);
	for (unsigned i = 0; i < RUN; i++)
		if (s->memory[PLACE + i]) {
			ok(false);
			break;
		}
	ask(s, id + 1, PLACE, RUN);
	ok(hear(s, &f) && f.head.answer && f.head.id == id + 1 &&
	   f.head.err == 0 && f.head.payload == RUN &&
	   memcmp(s->memory + PLACE, content[0] + 5, RUN) == 0);
	ok(serves(s, A) && serves_mount(s));
}

static void test_read_is_none(void)
{
	const struct ck_frame frame = { .kind = CK_FRAME_MESSAGE,
					.place = PLACE,
					.room = RUN };
	const struct ck_wire_head head = { .type = CK_WIRE_READ,
					   .id = 9,
					   .body = 4 };
	struct scene s;

	begin(&s);
	ok(hears_job(&s));
	ok(serves(&s, A));
	put(&s, &frame, &head, CK_STR("body"));
	is_refused(&s, 9);
	end(&s);
}

/* The slot is smaller than the requested bytes. */
static void test_small_room(void)
{
	struct scene s;

	begin(&s);
	ok(hears_job(&s));
	ok(serves(&s, A));
	ask(&s, 9, PLACE, RUN - 1);
	is_refused(&s, 9);
	end(&s);
}

/* --- full queues ------------------------------------------------------------------------------ */

/* If the process does not read, its link is closed when the queue is full. The mount does not
 * wait. */
static void test_deaf(void)
{
	enum { MANY = (24 << 20) / LONG };
	struct scene s;

	begin(&s);
	for (unsigned i = 0; i < MANY; i++) {
		rank_says(&s, A, (struct ck_str){ filling, LONG });
		if (i % 16 == 0)
			ok(serves_mount(&s));
	}
	none_is_there(&s);
	ok(noted(&taken.waiting) <= (8 << 20) + 2 * LONG);
	ok(is_closed(&s));
	end(&s);
}

/* The process sends much to a rank that does not read. Only the process waits for that rank. */
static void test_deaf_rank(void)
{
	enum { MANY = (24 << 20) / LONG };
	struct scene s;
	unsigned n = 0;

	begin(&s);
	ok(hears_job(&s));
	for (unsigned i = 0; i < MANY; i++)
		process_says(&s, A, (struct ck_str){ filling, LONG });
	msec_sleep(100);
	/* The rank under test has stopped reading from the process. */
	ok(ck_frames_flush(s.frames) == 0 &&
	   ck_frames_waiting(s.frames) > 8 << 20);
	ok(serves(&s, B) && serves_mount(&s));
	while (n < MANY && rank_hears(&s, A, LONG) &&
	       ck_frames_flush(s.frames) == 0)
		n++;
	eq_u64(n, MANY);
	ok(serves(&s, A));
	end(&s);
}

/* While the process has as many READs as permitted, other requests are answered first. */
static void test_reads_wait(void)
{
	enum { MANY = 200 };
	struct ck_framed f;
	struct scene s;
	unsigned n = 0;

	begin(&s);
	ok(hears_job(&s));
	ok(serves(&s, A));
	__atomic_store_n(&taken.held, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < MANY; i++)
		ask(&s, i, PLACE, RUN);
	ok(serves_mount(&s));
	__atomic_store_n(&taken.held, false, __ATOMIC_RELEASE);
	ok(serves(&s, B));
	while (n < MANY && hear(&s, &f) && f.head.answer && f.head.err == 0)
		n++;
	eq_u64(n, MANY);
	end(&s);
}

int main(void)
{
	unsigned fds, tasks;

	dir_make();
	memset(filling, 'f', sizeof(filling));
	fds = proc_count("fd");
	tasks = proc_count("task");
	test_relay();
	test_read();
	test_lost();
	test_why_not();
	test_why_not_twice();
	test_gone();
	test_none();
	test_not_used();
	test_allowed();
	for (size_t i = 0; i < CK_ARRAY_SIZE(wrongs); i++)
		test_wrong(&wrongs[i]);
	test_garbage();
	test_read_is_none();
	test_small_room();
	test_deaf();
	test_deaf_rank();
	test_reads_wait();
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
	dir_remove();
	return tap_done();
}
