/* SPDX-License-Identifier: MIT */
/*
 * relay: a rank forwards requests of its mount to other ranks. A malicious rank sends answers
 * without a request. The mount then receives only the message that this rank is lost, and
 * the shared memory stays unchanged.
 */
#include "raw_ranks.h"

enum { LIAR = 1, OTHER = 2 }; /* ranks */

enum { PLACE = 4096, ROOM = 1000, FILLED = 0x5a, SAID = 0x33 };

struct scene {
	struct raw_ranks r;
	struct ck_frames *frames; /* the test's end of the link */
	uint8_t *memory;
};

static void scene_begin(struct scene *s)
{
	raw_ranks_begin(&s->r, 1, 1);
	s->frames = calloc(1, sizeof(*s->frames));
	s->memory = mmap(NULL, RAW_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED,
			 s->r.memory, 0);
	if (!s->frames || s->memory == MAP_FAILED)
		abort();
	s->frames->fd = s->r.link;
	memset(s->memory, FILLED, 1 << 20);
}

static void scene_end(struct scene *s, int rc)
{
	eq_i64(raw_ranks_end(&s->r), rc);
	munmap(s->memory, RAW_MEMORY);
	ck_frames_fini(s->frames);
	free(s->frames);
}

/* --- requests and answers ------------------------------------------------------------------- */

static void ask(struct scene *s, uint32_t rank, uint16_t type, uint64_t id)
{
	const struct ck_frame frame = { .peer = rank,
					.kind = CK_FRAME_MESSAGE,
					.place = PLACE,
					.room = type == CK_WIRE_READ ? ROOM
								     : 0 };
	const struct ck_wire_head head = { .type = type, .id = id, .epoch = 1 };

	if (ck_frames_put(s->frames, &frame, &head, CK_STR("")))
		abort();
}

/* True if the rank receives the request. */
static bool is_asked(struct scene *s, uint32_t rank, uint64_t id)
{
	struct ck_wire_head head;

	return raw_read(s->r.fds[rank], &head) && head.id == id && !head.answer;
}

static void answer(struct scene *s, uint32_t rank,
		   const struct ck_wire_head *head)
{
	static char payload[2 * ROOM];
	uint8_t bytes[CK_WIRE_HEAD];
	struct ck_buf b = { 0 };

	memset(payload, SAID, sizeof(payload));
	ck_wire_head_put(head, bytes);
	ck_buf_add(&b, bytes, sizeof(bytes));
	ck_buf_add(&b, payload, head->payload);
	ok(raw_send(s->r.fds[rank], &b));
	ck_buf_fini(&b);
}

/* The next frame that the mount receives; false if the link ends or after 60 s. */
static bool hear(struct scene *s, struct ck_framed *out)
{
	struct pollfd fd = { .fd = s->r.link, .events = POLLIN };

	for (;;) {
		if (ck_frames_next(s->frames, out) > 0)
			return true;
		if (poll(&fd, 1, 60000) <= 0 || ck_frames_read(s->frames))
			return false;
	}
}

static bool hears_answer(struct scene *s, uint32_t rank, uint64_t id)
{
	struct ck_framed f;

	return hear(s, &f) && f.frame.kind == CK_FRAME_MESSAGE &&
	       f.frame.peer == rank && f.head.id == id && f.head.answer;
}

static bool hears_lost(struct scene *s, uint32_t rank)
{
	struct ck_framed f;

	return hear(s, &f) && f.frame.kind == CK_FRAME_LOST &&
	       f.frame.peer == rank;
}

/* True if the shared memory is unchanged except for n bytes of an answer. */
static bool is_memory(const struct scene *s, uint64_t n)
{
	for (size_t i = 0; i < 1 << 20; i++) {
		bool sent = i >= PLACE && i < PLACE + n;

		if (s->memory[i] != (sent ? SAID : FILLED))
			return false;
	}
	return true;
}

/* --- invalid answers ---------------------------------------------------------------------------- */

struct lie {
	const char *name;
	struct ck_wire_head head;
	uint32_t rank;	/* sender */
	bool is_answer; /* the answer is valid */
};

static const struct lie lies[] = {
	{ "a valid answer",
	  { CK_WIRE_READ, true, 0, 7, ROOM, 0, 1 },
	  LIAR,
	  true },
	{ "less, which is for the mount to judge",
	  { CK_WIRE_READ, true, 0, 7, 1, 0, 1 },
	  LIAR,
	  true },
	{ "an error", { CK_WIRE_READ, true, EIO, 7, 0, 0, 1 }, LIAR, true },
	{ "no such request, with a payload",
	  { CK_WIRE_READ, true, 0, 8, ROOM, 0, 1 },
	  LIAR,
	  false },
	{ "no such request",
	  { CK_WIRE_PING, true, 0, 8, 0, 0, 1 },
	  LIAR,
	  false },
	{ "an error, and no such request",
	  { CK_WIRE_READ, true, EIO, 8, 0, 0, 1 },
	  LIAR,
	  false },
	{ "the request of another rank",
	  { CK_WIRE_READ, true, 0, 7, ROOM, 0, 1 },
	  OTHER,
	  false },
	{ "another type",
	  { CK_WIRE_DIGEST, true, 0, 7, 0, 0, 1 },
	  LIAR,
	  false },
	{ "another epoch", { CK_WIRE_READ, true, 0, 7, 0, 0, 2 }, LIAR, false },
	{ "a byte too many",
	  { CK_WIRE_READ, true, 0, 7, ROOM + 1, 0, 1 },
	  LIAR,
	  false },
};

static void test_lie(const struct lie *lie)
{
	struct scene s;
	uint64_t bytes = lie->is_answer ? lie->head.payload : 0;

	scene_begin(&s);
	ask(&s, LIAR, CK_WIRE_READ, 7);
	ok(is_asked(&s, LIAR, 7));
	answer(&s, lie->rank, &lie->head);
	tap_result(lie->is_answer ? hears_answer(&s, LIAR, 7)
				  : hears_lost(&s, lie->rank),
		   __FILE__, __LINE__, lie->name);
	ok(is_memory(&s, bytes));
	/* The other rank still receives requests. */
	ask(&s, LIAR + OTHER - lie->rank, CK_WIRE_PING, 9);
	if (lie->rank == OTHER)
		ok(is_asked(&s, LIAR, 9));
	else
		ok(is_asked(&s, OTHER, 9));
	scene_end(&s, 0);
}

/* A second answer to the same request is refused. */
static void test_twice(uint64_t payload)
{
	const struct ck_wire_head head = { CK_WIRE_READ, true, 0, 7,
					   payload,	 0,    1 };
	struct scene s;

	scene_begin(&s);
	ask(&s, LIAR, CK_WIRE_READ, 7);
	ok(is_asked(&s, LIAR, 7));
	answer(&s, LIAR, &head);
	ok(hears_answer(&s, LIAR, 7));
	memset(s.memory, FILLED,
	       1 << 20); /* the slot may have another use now */
	answer(&s, LIAR, &head);
	ok(hears_lost(&s, LIAR));
	ok(is_memory(&s, 0));
	scene_end(&s, 0);
}

/* --- the table ----------------------------------------------------------------------------------- */

/* Two requests with different ids are both answered. An id is free after its answer. */
static void test_again(void)
{
	struct ck_wire_head head = { CK_WIRE_READ, true, 0, 7, ROOM, 0, 1 };
	struct scene s;

	scene_begin(&s);
	ask(&s, LIAR, CK_WIRE_READ, 7);
	ask(&s, LIAR, CK_WIRE_READ, 8);
	ok(is_asked(&s, LIAR, 7) && is_asked(&s, LIAR, 8));
	head.id = 8;
	answer(&s, LIAR, &head);
	ok(hears_answer(&s, LIAR, 8));
	head.id = 7;
	answer(&s, LIAR, &head);
	ok(hears_answer(&s, LIAR, 7));
	ask(&s, LIAR, CK_WIRE_READ, 7);
	ok(is_asked(&s, LIAR, 7));
	answer(&s, LIAR, &head);
	ok(hears_answer(&s, LIAR, 7));
	scene_end(&s, 0);
}

/* Each request to a lost rank is answered by another LOST frame. */
static void test_lost(void)
{
	struct scene s;
	unsigned n = 0;

	scene_begin(&s);
	ask(&s, LIAR, CK_WIRE_READ, 7);
	ok(is_asked(&s, LIAR, 7));
	close(s.r.fds[LIAR]);
	s.r.fds[LIAR] = -1;
	ok(hears_lost(&s, LIAR));
	do
		ask(&s, LIAR, CK_WIRE_PING, 10);
	while (hears_lost(&s, LIAR) && ++n < 3 * CK_WIRE_OPEN_MAX);
	eq_u64(n, 3 * CK_WIRE_OPEN_MAX);
	scene_end(&s, 0);
}

/* CK_WIRE_OPEN_MAX requests to each rank are forwarded, twice. If `one_more`, one request
 * above the limit ends the link. */
static void test_most(bool one_more)
{
	struct ck_wire_head head = { CK_WIRE_PING, true, 0, 0, 0, 0, 1 };
	struct scene s;
	unsigned wrong = 0;

	scene_begin(&s);
	for (unsigned turn = 0; turn < 2; turn++) {
		for (head.id = 0; head.id < CK_WIRE_OPEN_MAX; head.id++) {
			ask(&s, LIAR, CK_WIRE_PING, head.id);
			ask(&s, OTHER, CK_WIRE_PING, head.id);
			wrong += !is_asked(&s, LIAR, head.id) ||
				 !is_asked(&s, OTHER, head.id);
		}
		for (uint64_t i = head.id; turn == 0 && i > 0 && i--;) {
			struct ck_buf b = { 0 };
			uint8_t bytes[CK_WIRE_HEAD];

			head.id = i;
			ck_wire_head_put(&head, bytes);
			for (uint32_t rank = LIAR; rank <= OTHER; rank++) {
				ck_buf_add(&b, bytes, sizeof(bytes));
				wrong += !raw_send(s.r.fds[rank], &b) ||
					 !hears_answer(&s, rank, i);
			}
			ck_buf_fini(&b);
		}
	}
	eq_u64(wrong, 0);
	if (one_more)
		ask(&s, LIAR, CK_WIRE_PING, CK_WIRE_OPEN_MAX);
	scene_end(&s, one_more ? -EPROTO : 0);
}

/* Reusing the id of a request without an answer ends the link. */
static void test_same_id(void)
{
	struct scene s;

	scene_begin(&s);
	ask(&s, LIAR, CK_WIRE_PING, 7);
	ask(&s, OTHER, CK_WIRE_PING, 7);
	ok(is_asked(&s, LIAR, 7) && is_asked(&s, OTHER, 7));
	ask(&s, LIAR, CK_WIRE_READ, 7);
	scene_end(&s, -EPROTO);
}

/* --- the mount drops a rank ----------------------------------------------------------------------- */

static void send_drop(struct scene *s, uint32_t rank)
{
	const struct ck_frame frame = { .peer = rank, .kind = CK_FRAME_DROP };

	if (ck_frames_put(s->frames, &frame, NULL, CK_STR("")))
		abort();
}

static void test_drop(void)
{
	struct ck_wire_head head;
	struct scene s;

	scene_begin(&s);
	send_drop(&s, LIAR);
	ok(hears_lost(&s, LIAR));
	ok(!raw_read(s.r.fds[LIAR], &head));
	send_drop(&s, LIAR);
	ask(&s, OTHER, CK_WIRE_PING, 7);
	ok(is_asked(&s, OTHER, 7));
	scene_end(&s, 0);
}

/* Dropping rank 0 itself, or a rank out of range, ends the link. */
static void test_drop_of_none(uint32_t rank)
{
	struct scene s;

	scene_begin(&s);
	send_drop(&s, rank);
	scene_end(&s, -EPROTO);
}

int main(void)
{
	unsigned fds, tasks;

	dir_make();
	fds = proc_count("fd");
	tasks = proc_count("task");
	for (size_t i = 0; i < CK_ARRAY_SIZE(lies); i++)
		test_lie(&lies[i]);
	test_twice(ROOM);
	test_twice(0);
	test_again();
	test_lost();
	test_most(false);
	test_most(true);
	test_same_id();
	test_drop();
	test_drop_of_none(0);
	test_drop_of_none(RAW_RANKS);
	test_drop_of_none(UINT32_MAX);
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
	dir_remove();
	return tap_done();
}
