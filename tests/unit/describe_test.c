/* SPDX-License-Identifier: MIT */
/*
 * Descriptions of transfers: moves are encoded as READ requests for the same bytes, from the
 * right rank, to the same offset. A move that cannot be encoded is refused.
 */
#include "boxes.h"
#include "tap.h"

#include "dist/client/remote_client.h"
#include "dist/proto/transfer_list.h"

enum { PEERS = 4, FILES = 6, SIZE = 100000, MOVES = 8, SET = 7 };

static const struct ck_location files[FILES] = {
	{ 1, 40 },	   { 2, 41 },	      { 3, 0 }, { 1, 7 },
	{ UINT32_MAX, 0 }, { 2, UINT32_MAX }, /* replaced by another file */
};
/* Ranks of the peers: the first is this host, the last has no rank. */
static const uint32_t ranks[PEERS] = { UINT32_MAX, 5, 3, UINT32_MAX };

static int line_send(struct ck_line *l, uint32_t peer, const struct ck_query *a)
{
	(void)l, (void)peer, (void)a;
	return 0;
}

static void line_wake(struct ck_line *l)
{
	(void)l;
}

static struct fixture {
	struct ck_line line;
	struct ck_calls *calls;
	struct ck_remote_client r;
	uint8_t fill[SIZE], words[32 << 10];
	struct ck_loop loops[MOVES][CK_MAX_DIMS];
	struct ck_copy_desc list[MOVES];
} f;

static void begin(uint32_t epoch)
{
	const struct ck_calls_options o = { .npeers = PEERS,
					    .ping_msec = 1000,
					    .silence_msec = 5000,
					    .timeout_msec = 30000,
					    .window = 1 << 20,
					    .epoch = epoch };
	const struct ck_round_routes by = { SET, ranks, PEERS };

	f.line = (struct ck_line){ line_send, line_wake };
	f.calls = ck_calls_make(&o, &f.line, 1000);
	ck_remote_client_init(&f.r, &(struct ck_routes){ .calls = f.calls,
							 .files = files,
							 .n = FILES });
	if (!f.calls || ck_remote_client_rounds(&f.r, &by))
		abort();
}

static void end(void)
{
	ck_remote_client_fini(&f.r);
	ck_calls_free(f.calls);
}

static bool describe(size_t n, struct ck_described *out)
{
	const struct ck_copy_batch batch = { .list = f.list, .n = n };

	*out = (struct ck_described){ .base = f.fill,
				      .size = SIZE,
				      .out = f.words,
				      .room = sizeof(f.words) };
	return f.r.backend.describe(&f.r.backend, &batch, out);
}

/* Makes a move with loops to consecutive bytes, from `at` on. Returns the number of bytes. */
static uint64_t random_move(struct ck_copy_desc *m, struct ck_loop *loops,
			    uint64_t at, uint64_t *random)
{
	uint64_t bytes;

	*m = (struct ck_copy_desc){ .file = (uint32_t)boxes_below(random, 4),
				    .nloops = (uint32_t)boxes_below(random, 4),
				    .loops = loops,
				    .fpos = boxes_below(random, 1 << 20),
				    .run = 1 + boxes_below(random, 50),
				    .to = f.fill + at };
	if (m->file == 2)
		m->file = 3;
	for (uint32_t k = 0; k < m->nloops; k++)
		loops[k] = (struct ck_loop){
			.count = 1 + boxes_below(random, 5),
			.src = boxes_below(random, 5000),
		};
	bytes = m->run;
	for (uint32_t k = m->nloops; k > 0; k--) {
		loops[k - 1].dst = bytes;
		bytes *= loops[k - 1].count;
	}
	return bytes;
}

/* True if the READ has one move, equal to *m, in that file. */
static bool reads_same(struct ck_str body, const struct ck_copy_desc *m,
		       uint32_t file)
{
	struct ck_cur c = ck_cur_make(body.p, body.len);
	uint32_t n, zero, number, nloops;
	uint64_t fpos, run, count, stride;

	if (!ck_cur_u32(&c, &n) || !ck_cur_u32(&c, &zero) ||
	    !ck_cur_u32(&c, &number) || !ck_cur_u32(&c, &nloops) ||
	    !ck_cur_u64(&c, &fpos) || !ck_cur_u64(&c, &run) || n != 1 || zero ||
	    number != file || nloops != m->nloops || fpos != m->fpos ||
	    run != m->run)
		return false;
	for (uint32_t k = 0; k < nloops; k++)
		if (!ck_cur_u64(&c, &count) || !ck_cur_u64(&c, &stride) ||
		    count != m->loops[k].count || stride != m->loops[k].src)
			return false;
	return ck_cur_left(&c) == 0;
}

static unsigned check_words(const struct ck_described *d, size_t n)
{
	struct ck_cur c = ck_cur_make(d->out, d->used);
	struct ck_want want;
	unsigned wrong = d->set != SET;
	uint64_t bytes, ending;
	size_t i = 0;

	for (; ck_want_next(&c, &want) > 0 && i < n; i++) {
		const struct ck_copy_desc *m = &f.list[i];

		wrong += !ck_copy_desc_measure(m, &bytes, &ending) ||
			 want.bytes != bytes || f.fill + want.at != m->to ||
			 want.rank != ranks[files[m->file].peer] ||
			 !reads_same(want.body, m, files[m->file].number);
	}
	return wrong + (i != n) + (ck_cur_left(&c) != 0);
}

static void test_random(void)
{
	uint64_t random = tap_seed(4711);
	unsigned wrong = 0, said = 0;
	struct ck_described d;

	begin(SET);
	for (int i = 0; i < 20000; i++) {
		size_t n = 1 + boxes_below(&random, MOVES);
		uint64_t at = 0;

		for (size_t k = 0; k < n; k++)
			at += random_move(&f.list[k], f.loops[k], at, &random);
		if (at > SIZE)
			continue;
		said++;
		wrong += !describe(n, &d) || check_words(&d, n);
	}
	eq_u64(wrong, 0);
	ok(said > 15000);
	end();
}

static bool is_refused(size_t n)
{
	struct ck_described d;

	return !describe(n, &d);
}

static void test_refused(void)
{
	const struct ck_copy_desc good = { .file = 0, .run = 10, .to = f.fill };
	static struct ck_loop loop = { .count = 3, .dst = 11, .src = 100 };
	struct ck_described d;

	begin(SET);
	f.list[0] = good;
	ok(describe(1, &d));
	ok(is_refused(0));
	f.list[0].file = 2; /* its peer has no rank */
	ok(is_refused(1));
	f.list[0].file = 4; /* no peer has the file */
	ok(is_refused(1));
	f.list[0].file = 5;
	ok(is_refused(1));
	f.list[0].file = FILES;
	ok(is_refused(1));
	f.list[0] = good; /* not consecutive in memory */
	f.list[0].loops = &loop;
	f.list[0].nloops = 1;
	ok(is_refused(1));
	loop.dst = 10;
	ok(!is_refused(1));
	f.list[0] = good; /* past the end of the slot */
	f.list[0].to = f.fill + SIZE - 9;
	ok(is_refused(1));
	f.list[0].to = f.fill + SIZE - 10;
	ok(!is_refused(1));
	f.list[1] = f.list[0]; /* one of two moves is refused */
	f.list[1].file = 2;
	ok(is_refused(2));
	f.list[0] = good;
	ck_calls_lost(f.calls, 1);
	ok(is_refused(1));
	end();
	begin(SET + 1); /* another set of ranks */
	ok(is_refused(1));
	end();
}

/* A description that exceeds the given room is refused as a whole. */
static void test_room(void)
{
	struct ck_copy_batch batch = { .list = f.list, .n = MOVES };
	struct ck_described d = { .base = f.fill,
				  .size = SIZE,
				  .out = f.words };

	begin(SET);
	for (size_t i = 0; i < MOVES; i++)
		f.list[i] = (struct ck_copy_desc){ .run = 10,
						   .to = f.fill + 10 * i };
	for (; d.room < sizeof(f.words); d.room++)
		if (f.r.backend.describe(&f.r.backend, &batch, &d))
			break;
	eq_u64(d.used, d.room);
	eq_u64(d.used, MOVES * (CK_WANT_HEAD + 8 + 24));
	end();
}

int main(void)
{
	test_random();
	test_refused();
	test_room();
	return tap_done();
}
