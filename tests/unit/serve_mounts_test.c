/* SPDX-License-Identifier: MIT */
/* serve: a rank of a job with several mounts. The test checks when the rank ends, and the
 * messages UNMOUNTED and OVER between the ranks. */
#include "raw_ranks.h"

enum { A = 1, B = 2 }; /* the other ranks */

static void begin(struct raw_ranks *r, const bool mounts[RAW_RANKS],
		  enum ck_serve_until until, int stop)
{
	raw_ranks_begin_with(r,
			     (struct ck_serve_options){ .threads = 2,
							.memory_most = 8 << 20,
							.mounts = mounts,
							.until = until,
							.stop = stop });
}

/* The type of the next message from the rank under test to another one; 0 if it has ended. */
static unsigned received(const struct raw_ranks *r, uint32_t rank)
{
	struct ck_wire_head head;

	return raw_read(r->fds[rank], &head) && !head.answer ? head.type : 0;
}

static void send_head(const struct raw_ranks *r, uint32_t rank,
		      const struct ck_wire_head *head)
{
	uint8_t bytes[CK_WIRE_HEAD];

	ck_wire_head_put(head, bytes);
	if (write(r->fds[rank], bytes, sizeof(bytes)) != sizeof(bytes))
		abort();
}

static void notify(const struct raw_ranks *r, uint32_t rank,
		   enum ck_wire_type what)
{
	const struct ck_wire_head head = { .type = (uint16_t)what };

	send_head(r, rank, &head);
}

/* Answers a request with EIO. */
static void answer(const struct raw_ranks *r, uint32_t rank,
		   const struct ck_wire_head *asked)
{
	const struct ck_wire_head head = { .type = asked->type,
					   .answer = true,
					   .err = EIO,
					   .id = asked->id,
					   .epoch = asked->epoch };

	send_head(r, rank, &head);
}

/* The mount sends a STAT to a rank. */
static void mount_looks(const struct raw_ranks *r, uint32_t rank)
{
	const struct ck_frame frame = { .peer = rank,
					.kind = CK_FRAME_MESSAGE };
	struct ck_frames *frames = calloc(1, sizeof(*frames));
	struct ck_str name = file_name(0);
	struct ck_query a;
	size_t n;

	if (!frames || ck_query_stat(&a, (struct ck_ids){ 0, 0 }, &name, 1, &n))
		abort();
	frames->fd = r->link;
	a.head.id = 9;
	ok(ck_frames_put(frames, &frame, &a.head,
			 (struct ck_str){ a.body.data, a.head.body }) == 0);
	ck_query_fini(&a);
	ck_frames_fini(frames);
	free(frames);
}

static bool serves(const struct raw_ranks *r, uint32_t rank)
{
	struct ck_buf b = { 0 };
	struct ck_wire_head head;
	bool good;

	raw_add_look(&b, 5);
	good = raw_send(r->fds[rank], &b) && raw_read(r->fds[rank], &head) &&
	       head.answer && head.id == 5;
	ck_buf_fini(&b);
	return good;
}

static void lose(struct raw_ranks *r, uint32_t rank)
{
	close(r->fds[rank]);
	r->fds[rank] = -1;
}

/* The rank ends with the last mount of the job. */
static void test_last(void)
{
	const bool mounts[] = { true, false, true };
	struct raw_ranks r;

	begin(&r, mounts, CK_UNTIL_TOLD, -1);
	shutdown(r.link, SHUT_RDWR);
	eq_u64(received(&r, A), CK_WIRE_UNMOUNTED);
	eq_u64(received(&r, B), CK_WIRE_UNMOUNTED);
	ok(serves(&r, A));
	notify(&r, A, CK_WIRE_UNMOUNTED); /* A had no mount */
	ok(serves(&r, B));
	notify(&r, B, CK_WIRE_UNMOUNTED);
	eq_u64(received(&r, A), 0);
	eq_i64(raw_ranks_end(&r), 0);
}

/* Answers to requests of a mount that has ended are dropped. */
static void test_left(void)
{
	const bool mounts[] = { true, true, false };
	struct ck_wire_head head;
	struct raw_ranks r;

	begin(&r, mounts, CK_UNTIL_TOLD, -1);
	__atomic_store_n(&taken.held, true, __ATOMIC_RELEASE);
	mount_looks(&r, 0);
	mount_looks(&r, B);
	ok(raw_read(r.fds[B], &head) && head.type == CK_WIRE_STAT);
	shutdown(r.link, SHUT_RDWR);
	eq_u64(received(&r, A), CK_WIRE_UNMOUNTED);
	__atomic_store_n(&taken.held, false, __ATOMIC_RELEASE);
	eq_u64(received(&r, B), CK_WIRE_UNMOUNTED);
	answer(&r, B, &head);
	ok(serves(&r, B));
	lose(&r, A);
	eq_i64(raw_ranks_end(&r), 0);
}

static void test_lost(void)
{
	const bool mounts[] = { true, true, false };
	struct raw_ranks r;

	begin(&r, mounts, CK_UNTIL_TOLD, -1);
	lose(&r, A);
	ok(serves(&r, B));
	notify(&r, B, CK_WIRE_OVER);
	eq_u64(received(&r, B), 0);
	eq_i64(raw_ranks_end(&r), 0);

	begin(&r, mounts, CK_UNTIL_LOST, -1);
	lose(&r, B);
	eq_u64(received(&r, A), 0);
	eq_i64(raw_ranks_end(&r), 0);
}

/* With CK_UNTIL_UNMOUNTED, OVER does not end the rank, but the loss of the last mount does. */
static void test_not_told(void)
{
	const bool mounts[] = { false, true, false };
	struct raw_ranks r;

	begin(&r, mounts, CK_UNTIL_UNMOUNTED, -1);
	notify(&r, B, CK_WIRE_OVER);
	ok(serves(&r, B));
	lose(&r, B);
	ok(serves(&r, A));
	lose(&r, A);
	eq_i64(raw_ranks_end(&r), 0);
}

static void test_stop(void)
{
	const bool mounts[] = { true, true, true };
	struct raw_ranks r;
	int ends[2];

	if (pipe(ends))
		abort();
	begin(&r, mounts, CK_UNTIL_LOST, ends[0]);
	ok(serves(&r, A));
	close(ends[1]);
	eq_u64(received(&r, A), CK_WIRE_OVER);
	eq_u64(received(&r, B), CK_WIRE_OVER);
	eq_u64(received(&r, B), 0);
	eq_i64(raw_ranks_end(&r), 0);
	close(ends[0]);
}

int main(void)
{
	unsigned fds, tasks;

	dir_make();
	fds = proc_count("fd");
	tasks = proc_count("task");
	test_last();
	test_left();
	test_lost();
	test_not_told();
	test_stop();
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
	dir_remove();
	return tap_done();
}
