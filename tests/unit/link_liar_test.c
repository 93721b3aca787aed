/* SPDX-License-Identifier: MIT */
/*
 * An IPC channel with a malicious worker process: malformed frames, replies without a request,
 * duplicates, replies that are too long, or no reply. Reads are right or fail, in time.
 */
#include "dist/rpc/link_internal.h"
#include "link_case.h"

#include <poll.h>

enum { NPEERS = 2 };

struct liar {
	struct joined *j;
	const struct lie *lie;
	struct ck_frames *frames;
	struct ck_file_server *owner;
	uint8_t *memory;
	uint64_t random;
};

/* A valid reply, which a lie changes before it is sent. */
struct said {
	struct ck_frame frame;
	struct ck_wire_head head;
	struct ck_str body;
};

enum expected {
	ALL,  /* all moves succeed */
	SOME, /* some succeed */
	NONE, /* no reply */
};

struct lie {
	const char *name;
	/* Changes the reply to a READ. Returns true if it is to be sent. */
	bool (*tell)(struct liar *l, struct said *s);
	enum expected expected;
	bool drops; /* the mount disconnects the peer */
};

static void send_said(struct liar *l, const struct said *s)
{
	bool message = s->frame.kind == CK_FRAME_MESSAGE;

	if (ck_frames_put(l->frames, &s->frame, message ? &s->head : NULL,
			  s->body))
		return; /* the next read reports the error */
}

static void send_bytes(struct liar *l, const void *bytes, size_t len)
{
	if (send(l->frames->fd, bytes, len, MSG_NOSIGNAL) < 0)
		return; /* the next read reports the error */
}

/* --- lies --------------------------------------------------------------------------------- */

static bool truth(struct liar *l, struct said *s)
{
	(void)l, (void)s;
	return true;
}

static bool nothing(struct liar *l, struct said *s)
{
	(void)l, (void)s;
	return false;
}

static bool garbage(struct liar *l, struct said *s)
{
	uint8_t bytes[200];

	(void)s;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(tap_random(&l->random) & 0xff);
	send_bytes(l, bytes, sizeof(bytes));
	return false;
}

static bool kind_zero(struct liar *l, struct said *s)
{
	(void)l;
	s->frame.kind = CK_FRAME_KINDS;
	return true;
}

static bool no_such_peer(struct liar *l, struct said *s)
{
	(void)l;
	s->frame.peer = NPEERS;
	return true;
}

static bool peer_of_ones(struct liar *l, struct said *s)
{
	(void)l;
	s->frame.peer = UINT32_MAX;
	return true;
}

static bool other_peer(struct liar *l, struct said *s)
{
	(void)l;
	s->frame.peer = 1;
	return true;
}

static bool lost_no_peer(struct liar *l, struct said *s)
{
	(void)l;
	s->frame = (struct ck_frame){ .peer = NPEERS, .kind = CK_FRAME_LOST };
	return true;
}

static bool dropped(struct liar *l, struct said *s)
{
	(void)l;
	s->frame.kind = CK_FRAME_DROP;
	return true;
}

static bool lost(struct liar *l, struct said *s)
{
	(void)l;
	s->frame.kind = CK_FRAME_LOST;
	return true;
}

static bool too_long(struct liar *l, struct said *s)
{
	(void)l;
	s->head.payload = CK_WIRE_READ_MAX;
	return true;
}

/* One byte too many still fits into the allocation, which consists of whole blocks. */
static bool one_more(struct liar *l, struct said *s)
{
	(void)l;
	s->head.payload++;
	return true;
}

static bool one_less(struct liar *l, struct said *s)
{
	(void)l;
	s->head.payload--;
	return true;
}

static bool no_payload(struct liar *l, struct said *s)
{
	(void)l;
	s->head.payload = 0;
	return true;
}

static bool no_body(struct liar *l, struct said *s)
{
	(void)l;
	s->head.body = 0;
	s->body.len = 0;
	return true;
}

static bool unknown_ids(struct liar *l, struct said *s)
{
	struct said other = *s;

	for (unsigned i = 0; i < 5; i++) {
		other.head.id = s->head.id + 1000 + tap_random(&l->random) / 2;
		other.head.payload = 0;
		send_said(l, &other);
	}
	return true;
}

/* A reply with a payload needs a request with memory for it. */
static bool unknown_payload(struct liar *l, struct said *s)
{
	(void)l;
	s->head.id += 1000;
	return true;
}

static bool old_epoch(struct liar *l, struct said *s)
{
	(void)l;
	s->head.epoch++;
	return true;
}

static bool other_type(struct liar *l, struct said *s)
{
	(void)l;
	s->head.type = CK_WIRE_DIGEST;
	s->head.payload = 0;
	return true;
}

static bool a_request(struct liar *l, struct said *s)
{
	(void)l;
	s->head.answer = false;
	s->head.payload = 0;
	return true;
}

static bool an_error(struct liar *l, struct said *s)
{
	(void)l;
	s->head.err = EINTR;
	s->head.payload = s->head.body = 0;
	s->body.len = 0;
	return true;
}

static bool other_place(struct liar *l, struct said *s)
{
	(void)l;
	s->frame.place = UINT64_MAX;
	s->frame.room = UINT64_MAX;
	return true;
}

static bool twice(struct liar *l, struct said *s)
{
	send_said(l, s);
	return true;
}

static bool one_error(struct liar *l, struct said *s)
{
	(void)l;
	memset((char *)(uintptr_t)s->body.p + 8, 0xff, 4);
	return true;
}

static bool half_a_frame(struct liar *l, struct said *s)
{
	send_bytes(l, &s->frame, 10);
	return false;
}

static bool gone(struct liar *l, struct said *s)
{
	(void)s;
	shutdown(l->frames->fd, SHUT_RDWR);
	return false;
}

static bool half_and_gone(struct liar *l, struct said *s)
{
	(void)half_a_frame(l, s);
	return gone(l, s);
}

static const struct lie lies[] = {
	{ "the truth", truth, ALL, false },
	{ "answers to ids that there are not", unknown_ids, ALL, false },
	{ "another place than requested", other_place, ALL, false },
	{ "the same answer twice", twice, SOME, true },
	{ "one move has an error of all ones", one_error, NONE, true },
	{ "no answer", nothing, NONE, false },
	{ "garbage", garbage, NONE, false },
	{ "a frame of no kind", kind_zero, NONE, false },
	{ "a peer that there is not", no_such_peer, NONE, false },
	{ "a peer of all ones", peer_of_ones, NONE, false },
	{ "another peer", other_peer, NONE, true },
	{ "a peer is lost that there is not", lost_no_peer, NONE, false },
	{ "the peer is lost", lost, NONE, false },
	{ "the mount is to drop a peer", dropped, NONE, false },
	{ "a payload that is far too long", too_long, NONE, true },
	{ "a payload of a byte more", one_more, NONE, true },
	{ "a payload of a byte less", one_less, NONE, true },
	{ "no payload", no_payload, NONE, true },
	{ "no body", no_body, NONE, true },
	{ "a payload for an id that there is not", unknown_payload, NONE,
	  true },
	{ "another epoch", old_epoch, NONE, false },
	{ "another type", other_type, NONE, true },
	{ "a request", a_request, NONE, true },
	{ "an error that means something else here", an_error, NONE, false },
	{ "half a frame, and then others", half_a_frame, NONE, false },
	{ "half a frame, and the end", half_and_gone, NONE, false },
	{ "the end", gone, NONE, false },
};

/* --- the malicious worker process ------------------------------------------------------------ */

enum { HONEST = 4 }; /* moves before the first lie */

static unsigned drops_seen; /* atomic */
static bool lying;	    /* atomic */

static void liar_answer(struct liar *l, const struct ck_framed *f)
{
	const struct ck_message m = { .head = f->head, .body = f->body };
	struct said s = { .frame = f->frame };
	struct ck_answer a;

	if (ck_file_server_answer(l->owner, &m, &a))
		abort();
	s.head = a.head;
	s.body = (struct ck_str){ a.body.data, a.body.len };
	if (a.payload)
		memcpy(l->memory + f->frame.place, a.payload, a.head.payload);
	if (f->head.type != CK_WIRE_READ ||
	    !__atomic_load_n(&lying, __ATOMIC_ACQUIRE) || l->lie->tell(l, &s))
		send_said(l, &s);
	ck_answer_fini(&a);
}

static int liar_turn(struct liar *l)
{
	struct pollfd fd = { .fd = l->frames->fd, .events = POLLIN };
	struct ck_framed f;
	int rc;

	if (ck_frames_waiting(l->frames))
		fd.events |= POLLOUT;
	if (poll(&fd, 1, -1) < 0)
		return -errno;
	rc = ck_frames_flush(l->frames);
	if (rc == 0)
		rc = ck_frames_read(l->frames);
	while (ck_frames_next(l->frames, &f) > 0)
		if (f.frame.kind == CK_FRAME_DROP)
			count(&drops_seen, 1);
		else
			liar_answer(l, &f);
	return rc;
}

static const struct lie *lie_now;

static void *liar_run(void *arg)
{
	struct joined *j = arg;
	struct liar l = { .j = j,
			  .lie = lie_now,
			  .frames = calloc(1, sizeof(*l.frames)),
			  .owner = owner_make(),
			  .random = 6 };

	l.memory = mmap(NULL, j->serve.size, PROT_READ | PROT_WRITE, MAP_SHARED,
			j->serve.memory, 0);
	if (l.memory == MAP_FAILED || !l.frames)
		abort();
	l.frames->fd = j->serve.link;
	while (liar_turn(&l) == 0)
		;
	munmap(l.memory, j->serve.size);
	ck_frames_fini(l.frames);
	free(l.frames);
	ck_file_server_free(l.owner);
	close(j->serve.link);
	close(j->serve.memory);
	return NULL;
}

/* --- results of each lie ---------------------------------------------------------------------- */

static struct joined *liar_join(const struct lie *lie)
{
	struct joined *j = joined_make();

	j->options.calls.npeers = NPEERS;
	/* Short limits, if requests are expected to expire. */
	if (lie->expected == NONE) {
		j->options.calls.silence_msec = 400;
		j->options.calls.timeout_msec = 500;
	}
	__atomic_store_n(&lying, false, __ATOMIC_RELEASE);
	__atomic_store_n(&drops_seen, 0, __ATOMIC_RELAXED);
	lie_now = lie;
	joined_start(j, false, liar_run);
	joined_look_until(j, 0);
	return j;
}

static bool has_dropped(void)
{
	return __atomic_load_n(&drops_seen, __ATOMIC_RELAXED) > 0;
}

/* Runs moves of one READ each; the first ones are repeated if limits have expired before. */
static void liar_move(struct movers *m, const struct lie *lie)
{
	uint64_t end = msec_now() + 60000;

	m->trips = HONEST;
	do
		mover_run(m);
	while (m->good < HONEST && msec_now() < end);
	ok(m->good >= HONEST);
	m->good = m->failed = 0;
	__atomic_store_n(&lying, true, __ATOMIC_RELEASE);
	m->trips = lie->expected == NONE && !tap_is_long() ? 2 : 6;
	m->random = 5;
	do {
		mover_run(m);
		msec_sleep(1);
	} while (lie->drops && !has_dropped() && msec_now() < end);
}

static void test_lie(const struct lie *lie)
{
	struct movers m = { .j = liar_join(lie), .may_fail = true };

	liar_move(&m, lie);
	tap_result(m.wrong == 0 && (m.longest < 3000 || !tap_is_long()),
		   __FILE__, __LINE__, lie->name);
	ok(lie->expected != ALL || m.failed == 0);
	ok(lie->expected != SOME || m.good > 0);
	ok(lie->expected != NONE || m.failed > 0);
	(void)joined_end(m.j);
	ok(has_dropped() == lie->drops);
}

/* Canary: wrong bytes in a valid reply, which only the comparison with the file detects. */
static bool wrong_bytes(struct liar *l, struct said *s)
{
	l->memory[s->frame.place + s->head.payload - 1] ^= 1;
	return true;
}

static void test_canary(void)
{
	static const struct lie wrong = { "wrong bytes", wrong_bytes, ALL,
					  false };
	struct movers m = { .j = liar_join(&wrong), .trips = 3 };

	__atomic_store_n(&lying, true, __ATOMIC_RELEASE);
	mover_run(&m);
	ok(m.wrong == 3);
	(void)joined_end(m.j);
}

/* --- a worker process that does not read -------------------------------------------------------- */

static void *deaf_run(void *arg)
{
	struct joined *j = arg;
	char end;

	/* Wait until the link is freed, without reading. */
	while (recv(j->serve.link, &end, 1, MSG_PEEK | MSG_DONTWAIT) != 0) {
		struct pollfd fd = { .fd = j->serve.link, .events = POLLRDHUP };

		(void)poll(&fd, 1, 100);
		if (fd.revents & (POLLHUP | POLLRDHUP))
			break;
	}
	close(j->serve.link);
	close(j->serve.memory);
	return NULL;
}

static int take_nothing(const struct ck_query *a, const struct ck_message *m,
			void *arg)
{
	(void)a, (void)m, (void)arg;
	return 0;
}

/* Sends requests of 1 MiB, more than the socket and the link can buffer. */
static void *ask_much(void *arg)
{
	struct joined *j = arg;
	static const char name[4000];
	struct ck_str names[200];
	struct ck_query a;
	size_t taken;
	int rc = 0;

	for (unsigned i = 0; i < 200; i++)
		names[i] = (struct ck_str){ name, sizeof(name) };
	if (ck_query_stat(&a, (struct ck_ids){ 0, 0 }, names, 200, &taken))
		abort();
	for (unsigned i = 0; i < 4 && (rc == 0 || rc == -EIO); i++)
		rc = ck_calls_wait(ck_link_calls(j->link), 0, &a, take_nothing,
				   NULL);
	ck_query_fini(&a);
	return rc == -EIO ? NULL : j;
}

static void test_deaf(void)
{
	enum { ASKING = 12 };
	struct joined *j = joined_make();
	pthread_t threads[ASKING];
	uint64_t from = msec_now();
	void *wrong;

	j->options.calls.silence_msec = tap_is_long() ? 10000 : 1000;
	j->options.calls.timeout_msec = tap_is_long() ? 20000 : 2000;
	joined_start(j, false, deaf_run);
	for (unsigned i = 0; i < ASKING; i++)
		if (pthread_create(&threads[i], NULL, ask_much, j))
			abort();
	for (unsigned i = 0; i < ASKING; i++) {
		pthread_join(threads[i], &wrong);
		ok(!wrong);
	}
	/* The test ends: no request waits for ever. Each fails, so no limit is too short. */
	ok(msec_now() - from < 60000 || !tap_is_long());
	(void)joined_end(j);
}

/* --- a worker process that does not reply --------------------------------------------------------- */

static unsigned frames_seen; /* atomic */

static unsigned frames_counted(void)
{
	return __atomic_load_n(&frames_seen, __ATOMIC_RELAXED);
}

static void *silent_run(void *arg)
{
	struct joined *j = arg;
	struct ck_frames *f = calloc(1, sizeof(*f));
	struct pollfd fd = { .fd = j->serve.link, .events = POLLIN };
	struct ck_framed out;

	f->fd = j->serve.link;
	while (poll(&fd, 1, -1) >= 0 && ck_frames_read(f) == 0)
		while (ck_frames_next(f, &out) > 0)
			count(&frames_seen, 1);
	ck_frames_fini(f);
	free(f);
	close(j->serve.link);
	close(j->serve.memory);
	return NULL;
}

static int came_to_nothing(struct ck_call *c, const struct ck_message *m,
			   int rc)
{
	(void)c;
	if (m || (rc != -EIO && rc != -EINTR))
		abort();
	return 0;
}

static void ask_lists(struct joined *j, struct ck_call *calls, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		calls[i] = (struct ck_call){ .done = came_to_nothing };
		if (ck_query_list(&calls[i].query, CK_STR(""), 0))
			abort();
		ck_calls_send(ck_link_calls(j->link), &calls[i]);
	}
}

/* A dropped request stays open at the worker process. Open requests, with dropped ones, do not
 * exceed CK_WIRE_OPEN_MAX. */
static void test_open(void)
{
	enum { MUCH = CK_WIRE_OPEN_MAX + 300 };
	struct ck_call *calls = calloc(2 * MUCH, sizeof(*calls));
	struct joined *j = joined_make();

	joined_start(j, false, silent_run);
	ask_lists(j, calls, MUCH);
	for (unsigned i = 0; i < MUCH; i++)
		ck_calls_drop(ck_link_calls(j->link), &calls[i]);
	ask_lists(j, calls + MUCH, MUCH);
	for (uint64_t end = msec_now() + 60000;
	     frames_counted() < CK_WIRE_OPEN_MAX && msec_now() < end;)
		msec_sleep(5);
	msec_sleep(200);
	eq_u64(frames_counted(), CK_WIRE_OPEN_MAX);
	(void)joined_end(j);
	for (unsigned i = 0; i < 2 * MUCH; i++)
		ck_query_fini(&calls[i].query);
	free(calls);
}

int main(void)
{
	unsigned fds, tasks;

	dir_make();
	fds = proc_count("fd");
	tasks = proc_count("task");
	for (size_t i = 0; i < CK_ARRAY_SIZE(lies); i++)
		test_lie(&lies[i]);
	test_canary();
	test_deaf();
	test_open();
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
	dir_remove();
	return tap_done();
}
