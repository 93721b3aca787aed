/* SPDX-License-Identifier: MIT */
/*
 * requester_renew: the job is replaced by a new one while moves are in flight. Only requests
 * without an answer are sent to the new job, with its file numbers. Each move ends once,
 * with the right bytes.
 */
#include "requester_case.h"

enum { SETS = 6, JOBS_MOST = 8 };

static struct ck_calls *jobs[JOBS_MOST]; /* including ended jobs */
static unsigned njobs;
static struct ck_location tables[JOBS_MOST][SET_FILES];

/* The file servers of a later job use other file numbers. */
static uint32_t renumbered(uint32_t number, unsigned job)
{
	return (number + job) % OWNED;
}

static uint32_t numbered(uint32_t number, unsigned job)
{
	return (number + OWNED - job % OWNED) % OWNED;
}

static struct ck_calls *job_make(void)
{
	static const struct ck_calls_options options = {
		.npeers = OWNERS,
		.ping_msec = 1000,
		.silence_msec = 5000,
		.timeout_msec = 10000,
		.window = CK_WIRE_READ_MAX,
		.hold_msec = 9000,
	};
	struct ck_calls *c = ck_calls_make(&options, &line.line, 0);

	if (!c || njobs == JOBS_MOST)
		abort();
	for (uint32_t i = 0; i < SET_FILES; i++) {
		struct ck_location at = files[i];

		if (i < OWNED_ALL)
			at.number = renumbered(at.number, njobs);
		tables[njobs][i] = at;
	}
	jobs[njobs++] = c;
	return c;
}

static void jobs_begin(void)
{
	line.line = (struct ck_line){ line_send, line_wake };
	line.reads = ended = njobs = 0;
	whereabouts_fill(files, OWNERS);
	ck_remote_client_init(&requester,
			      &(struct ck_routes){ .calls = job_make(),
						   .files = tables[0],
						   .n = SET_FILES });
}

static void jobs_end(void)
{
	ck_remote_client_fini(&requester);
	for (unsigned i = 0; i < njobs; i++)
		ck_calls_free(jobs[i]);
	packets_fini(&line.packets);
}

/* Drops all messages in flight of a job. */
static void lose_all(void)
{
	while (line.packets.n)
		packets_drop(&line.packets, line.packets.n - 1);
}

static void renew(void)
{
	struct ck_calls *old = jobs[njobs - 1], *c = job_make();

	ck_remote_client_renew(&requester,
			       &(struct ck_routes){ .calls = c,
						    .files = tables[njobs - 1],
						    .n = SET_FILES });
	lose_all();
	ck_calls_release(old);
	ck_calls_end(old);
}

/* Answers one packet. The file numbers of its job are first mapped to those of the file
 * servers. */
static void answer_one(uint64_t *random)
{
	struct packet p = packets_take(&line.packets,
				       boxes_below(random, line.packets.n));
	uint8_t *row = (uint8_t *)p.bytes.data + CK_WIRE_HEAD + 8;
	struct ck_message m;
	uint32_t n, number;

	if (p.head.type == CK_WIRE_READ) {
		memcpy(&n, row - 8, sizeof(n));
		for (uint32_t i = 0; i < n; i++) {
			uint32_t loops;

			memcpy(&number, row, sizeof(number));
			memcpy(&loops, row + 4, sizeof(loops));
			if (number < OWNED)
				number = numbered(number, njobs - 1);
			memcpy(row, &number, sizeof(number));
			row += 24 + 16UL * loops;
		}
	}
	packet_answer(&p, owners.owner[p.peer]);
	m = packet_open(&p);
	if (ck_calls_take(jobs[njobs - 1], p.peer, &m, 1))
		abort();
	ck_buf_fini(&p.bytes);
}

static bool is_right(const struct move_set *s)
{
	for (size_t i = 0; i < s->batch.n; i++) {
		int rc = s->list[i].rc, want = 0;

		switch (s->kind[i]) {
		case PLAIN: break;
		case OUTSIDE:
		case WILD: want = -EIO; break;
		case UNKNOWN: want = -ENODATA; break;
		case NONE: want = move_none_rc(&s->list[i]); break;
		}
		if (rc != want)
			return false;
	}
	return move_set_is_right(s, &owners, files);
}

/* Starts sets of moves, answers some requests, and replaces the job, in random order. */
static bool run(uint64_t seed)
{
	static struct move_set sets[SETS];
	uint64_t random = seed | 1;
	unsigned started = 0;
	bool good = true;

	jobs_begin();
	for (unsigned i = 0; i < SETS; i++) {
		move_set_random(&sets[i], &random);
		started += start(&sets[i].batch) == -EINPROGRESS;
		while (line.packets.n && !boxes_one_in(&random, 4))
			answer_one(&random);
		if (njobs < JOBS_MOST && boxes_one_in(&random, 2))
			renew();
	}
	while (line.packets.n)
		answer_one(&random);
	good = ended == started;
	for (unsigned i = 0; i < SETS; i++)
		good &= is_right(&sets[i]);
	jobs_end();
	return good;
}

/* --- moves between two jobs ---------------------------------------------------------------- */

/* The job has ended and there is no new one yet: moves wait for it. */
static void test_waits(void)
{
	uint8_t to[8];
	struct ck_copy_desc list[1] = { { .file = 0, .run = 8, .to = to } };
	struct ck_copy_batch one = { .list = list, .n = 1 };
	uint64_t random = 3;

	jobs_begin();
	eq_err(start(&one), -EINPROGRESS);
	ck_calls_end(jobs[0]);
	lose_all();
	(void)!ck_calls_tick(jobs[0], 1000);
	eq_u64(ended, 0);
	renew();
	eq_u64(ended, 0);
	while (line.packets.n)
		answer_one(&random);
	eq_u64(ended, 1);
	eq_err(list[0].rc, 0);
	jobs_end();
}

/* No new job comes before the deadline, or the move is interrupted. */
static void test_waits_in_vain(bool interrupted)
{
	uint8_t to[8];
	struct ck_copy_desc list[1] = { { .file = 0, .run = 8, .to = to } };
	struct ck_copy_batch one = { .list = list, .n = 1 };

	jobs_begin();
	ck_calls_end(jobs[0]);
	eq_err(start(&one), -EINPROGRESS);
	for (uint64_t msec = 0; msec <= 8750; msec += 250)
		(void)!ck_calls_tick(jobs[0], msec);
	eq_u64(ended, 0);
	if (interrupted) {
		__atomic_store_n(&one.cancelled, true, __ATOMIC_RELEASE);
		requester.backend.interrupt(&requester.backend, &one);
		(void)!ck_calls_tick(jobs[0], 8750);
	} else {
		(void)!ck_calls_tick(jobs[0], 9000);
	}
	eq_u64(ended, 1);
	eq_err(list[0].rc, interrupted ? -EINTR : -EIO);
	jobs_end();
}

/* Canary: file numbers of the previous job are detected. */
static void test_canary(void)
{
	unsigned bad = 0;

	for (uint64_t i = 0; i < 40; i++) {
		struct ck_copy_desc list[1];
		uint8_t to[8], want[8];
		struct ck_copy_batch one = { .list = list, .n = 1 };
		uint64_t random = 3;

		list[0] = (struct ck_copy_desc){
			.file = (uint32_t)i % OWNED_ALL, .run = 8, .to = to
		};
		jobs_begin();
		tables[0][list[0].file].number =
			renumbered(tables[0][list[0].file].number, 1);
		eq_err(start(&one), -EINPROGRESS);
		while (line.packets.n)
			answer_one(&random);
		memcpy(want,
		       owners.bytes[files[list[0].file].peer]
				   [files[list[0].file].number],
		       8);
		bad += memcmp(to, want, 8) != 0;
		jobs_end();
	}
	ok(bad > 0);
}

int main(void)
{
	uint64_t seed = tap_seed(17), wrong = 0;
	uint64_t n = tap_cases("CKPTFS_CASES", TAP_SLOW ? 300 : 1500,
			       TAP_SLOW ? 3000 : 100000);

	owners_begin(&owners);
	for (uint64_t i = 0; i < n; i++)
		wrong += !run(seed + i);
	eq_u64(wrong, 0);
	test_waits();
	test_waits_in_vain(false);
	test_waits_in_vain(true);
	test_canary();
	return owners_end(&owners) | tap_done();
}
