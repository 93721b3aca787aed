/* SPDX-License-Identifier: MIT */
/*
 * stream: prefetch of one remote range. The test checks the requested segments, their number,
 * and the reads that are served from them.
 */
#include "source/stats.h"
#include "stream_case.h"

enum { SEGMENT = 64 << 10, START = SEGMENT / 4, CACHE = 2 << 20 };

static struct answerer answerer;

/* A backend that counts the moves that it passes to the answerer. */
static struct {
	struct ck_backend backend;
	uint64_t bytes;			/* atomic */
	uint64_t last;			/* atomic: largest end in the file */
	unsigned batch, short_deadline; /* atomic */
	int rc;		  /* atomic: result of synchronous moves */
	uint64_t at_once; /* atomic: moves before this offset are synchronous */
} counter;

static int counter_start(struct ck_backend *m, struct ck_copy_batch *batch)
{
	(void)m;
	for (size_t i = 0; i < batch->n; i++) {
		uint64_t bytes, end;

		if (!ck_copy_desc_measure(&batch->list[i], &bytes, &end))
			abort();
		__atomic_fetch_add(&counter.bytes, bytes, __ATOMIC_RELAXED);
		if (end > __atomic_load_n(&counter.last, __ATOMIC_RELAXED))
			__atomic_store_n(&counter.last, end, __ATOMIC_RELAXED);
		answerer_count(&counter.batch);
	}
	if (batch->short_deadline)
		answerer_count(&counter.short_deadline);
	if (batch->list[0].fpos >=
	    __atomic_load_n(&counter.at_once, __ATOMIC_RELAXED))
		return answerer_start(&answerer.backend, batch);
	for (size_t i = 0; i < batch->n; i++) {
		if (!move_fill(&batch->list[i], content[BIG], BIG_BYTES))
			abort();
		batch->list[i].rc = __atomic_load_n(&counter.rc,
						    __ATOMIC_RELAXED);
	}
	return 0;
}

static void counter_interrupt(struct ck_backend *m, struct ck_copy_batch *batch)
{
	(void)m;
	answerer_interrupt(&answerer.backend, batch);
}

static void at_once(uint64_t end)
{
	__atomic_store_n(&counter.at_once, end, __ATOMIC_RELAXED);
}

static uint64_t moved(void)
{
	return __atomic_load_n(&counter.bytes, __ATOMIC_RELAXED);
}

/* --- one slice: a range of the big file ----------------------------------------------- */

static struct scene {
	struct stream_case c;
	struct world *w;
	struct ck_files *files;
	struct ck_stats *stats;
	uint8_t to[BIG_BYTES];
} scene;

static void scene_begin_with(unsigned remote, uint64_t segment, uint64_t cache,
			     uint32_t unused_msec)
{
	counter.bytes = counter.last = 0;
	counter.batch = counter.short_deadline = 0;
	counter.rc = 0;
	at_once(0);
	memset(answerer.errs, 0, sizeof(answerer.errs));
	answerer.at_once = answerer.inside = false;
	scene.w = world_make();
	make_world(scene.w, dtype_of("uint8"));
	add_part(scene.w, (struct world_part){ .is_range = true,
					       .file = BIG,
					       .len = BIG_BYTES });
	scene.files = files_open_remote(remote);
	scene.stats = ck_stats_make(1);
	ck_files_set_stats(scene.files, scene.stats);
	stream_case_begin(&scene.c, scene.files, world_open(scene.w),
			  &counter.backend, segment, cache, unused_msec);
}

static void scene_begin(unsigned remote, uint64_t segment, uint64_t cache)
{
	scene_begin_with(remote, segment, cache, 0);
}

static void scene_end(void)
{
	ok(stream_case_end(&scene.c));
	ck_open_slice_free(scene.c.opened);
	ck_files_free(scene.files);
	free(scene.stats);
	world_free(scene.w);
}

static bool is_right(uint64_t vpos, uint64_t len)
{
	return memcmp(scene.to, content[BIG] + vpos, len) == 0;
}

/* Reads from `begin` to `end`. Returns the number of wrong reads. */
static unsigned read_all(struct stream_reader *r, uint64_t begin, uint64_t end,
			 uint64_t step)
{
	unsigned wrong = 0;

	for (uint64_t at = begin; at < end; at += step) {
		uint64_t len = ck_min(step, end - at);

		wrong += stream_case_read(r, at, len, scene.to, false) ||
			 !is_right(at, len);
	}
	return wrong;
}

static uint64_t waits(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CK_STATS_WAITS; i++)
		sum += scene.stats->waits[i];
	return sum;
}

/* --- cases ------------------------------------------------------------------------------ */

/* Each byte is requested once, and nearly all bytes are prefetched. */
static void test_front_to_back(void)
{
	struct stream_reader r;

	scene_begin(~0U, SEGMENT, CACHE);
	stream_reader_begin(&r, &scene.c, 1);
	eq_u64(read_all(&r, 0, BIG_BYTES, 10000), 0);
	eq_u64(moved(), BIG_BYTES);
	ok(scene.c.ready + scene.c.waited > 10 * scene.c.alone);
	/* A read that is served from a complete segment does not wait. */
	eq_u64(waits(), scene.c.waited + scene.c.alone);
	scene_end();
}

/* The prefetch is at most as long as the bytes read so far, and as the window. */
static void test_no_more_than_read(void)
{
	struct stream_reader r;
	uint64_t at = 0;
	bool good = true;

	scene_begin(~0U, SEGMENT, 64 << 20);
	stream_reader_begin(&r, &scene.c, 1);
	for (; at < BIG_BYTES; at += 4096) {
		uint64_t most = at + ck_min(at, (uint64_t)8 * SEGMENT);

		good &= stream_case_read(&r, at, 4096, scene.to, false) == 0;
		good &= __atomic_load_n(&counter.last, __ATOMIC_RELAXED) <=
			most + 4096 * 2;
	}
	ok(good);
	eq_u64(moved(), BIG_BYTES);
	scene_end();
}

/* Reads backwards or at random offsets are right, and cause no prefetch. */
static void test_no_stream(void)
{
	struct stream_reader r;
	uint64_t random = 8, asked = 0;
	unsigned wrong = 0;

	scene_begin(~0U, SEGMENT, CACHE);
	stream_reader_begin(&r, &scene.c, 1);
	for (uint64_t at = BIG_BYTES; at >= 8192; at -= 8192, asked += 4096)
		wrong += stream_case_read(&r, at - 4096, 4096, scene.to,
					  false) ||
			 !is_right(at - 4096, 4096);
	for (unsigned i = 0; i < 1000; i++, asked += 512) {
		uint64_t at = boxes_below(&random, BIG_BYTES / 1024) * 1024;

		wrong += stream_case_read(&r, at, 512, scene.to, false) ||
			 !is_right(at, 512);
	}
	eq_u64(wrong, 0);
	eq_u64(moved(), asked);
	scene_end();
}

/* Reads overtake each other, as in the kernel's read-ahead, and are still prefetched. */
static void test_overtaking(void)
{
	struct stream_reader r;
	unsigned wrong = 0;

	scene_begin(~0U, SEGMENT, CACHE);
	stream_reader_begin(&r, &scene.c, 1);
	wrong += read_all(&r, 0, 8192, 4096);
	for (uint64_t at = 8192; at < BIG_BYTES; at += 16384) {
		wrong += read_all(&r, at + 8192, ck_min(at + 16384, BIG_BYTES),
				  4096);
		wrong += read_all(&r, at, at + 8192, 4096);
	}
	eq_u64(wrong, 0);
	ok(scene.c.ready + scene.c.waited > 5 * scene.c.alone);
	ok(moved() < BIG_BYTES + 4 * SEGMENT);
	scene_end();
}

/* Several readers of one slice share its segments. A reader of another slice has its own. */
static void test_shared(void)
{
	struct stream_reader r[3], other;
	unsigned wrong = 0;

	scene_begin(~0U, SEGMENT, 8 << 20);
	for (unsigned i = 0; i < 3; i++)
		stream_reader_begin(&r[i], &scene.c, 1);
	stream_reader_begin(&other, &scene.c, 1 + CK_STREAM_LEAST);
	for (uint64_t at = 0; at < BIG_BYTES / 2; at += 8192)
		for (unsigned i = 0; i < 3; i++)
			wrong += read_all(&r[i], at, at + 8192, 8192);
	eq_u64(wrong, 0);
	/* The window is ahead of the readers, and each began without it. */
	ok(moved() <= BIG_BYTES / 2 + 8 * SEGMENT + 3 * SEGMENT / 2);
	eq_u64(read_all(&other, 0, SEGMENT, 4096), 0);
	scene_end();
}

/* The memory of segments that the only reader has read is reused at once. */
static void test_used_again(void)
{
	struct stream_reader r;
	uint64_t most = 0;
	unsigned wrong = 0;

	scene_begin(~0U, SEGMENT, 8 << 20);
	stream_reader_begin(&r, &scene.c, 1);
	for (uint64_t at = 0; at < BIG_BYTES; at += 8192) {
		wrong += read_all(&r, at, at + 8192, 8192);
		most = ck_max(most, ck_streams_bytes(scene.c.streams));
	}
	eq_u64(wrong, 0);
	ok(most > 0 && most <= 12UL * SEGMENT);
	scene_end();
}

static void test_memory(void)
{
	static struct stream_reader r[40];
	uint64_t most = 0;
	unsigned wrong = 0;

	scene_begin(~0U, SEGMENT, 1 << 20);
	for (unsigned i = 0; i < 40; i++)
		stream_reader_begin(&r[i], &scene.c, i);
	for (uint64_t at = 0; at < BIG_BYTES / 8; at += 8192)
		for (unsigned i = 0; i < 40; i++) {
			wrong += read_all(&r[i], at, at + 8192, 8192);
			most = ck_max(most, ck_streams_bytes(scene.c.streams));
		}
	eq_u64(wrong, 0);
	ok(most > 512 << 10 && most <= 1 << 20);
	scene_end();
}

/* ck_stream_pass() waits for each read, and serves it from segments as well. */
static void test_move(void)
{
	struct stream_reader r;
	unsigned wrong = 0;

	scene_begin(~0U, SEGMENT, CACHE);
	stream_reader_begin(&r, &scene.c, 1);
	for (uint64_t at = 0; at < BIG_BYTES; at += 16384)
		wrong += stream_case_pass(&r, at, 16384, scene.to) ||
			 !is_right(at, 16384);
	eq_u64(wrong, 0);
	eq_u64(moved(), BIG_BYTES);
	ok(counter.batch < BIG_BYTES / SEGMENT * 3);
	scene_end();
}

/* Local files are not prefetched, nor copied into segments. */
static void test_here(void)
{
	struct stream_reader r;

	scene_begin(0, SEGMENT, CACHE);
	stream_reader_begin(&r, &scene.c, 1);
	eq_u64(read_all(&r, 0, BIG_BYTES, 8192), 0);
	eq_u64(scene.c.ready + scene.c.waited, 0);
	eq_u64(counter.batch, 0);
	scene_end();
}

/* Once a change of the file is known, old bytes in segments are not returned. */
static void test_changed(void)
{
	struct stream_reader r;

	scene_begin(~0U, SEGMENT, CACHE);
	at_once(UINT64_MAX);
	stream_reader_begin(&r, &scene.c, 1);
	eq_u64(read_all(&r, 0, BIG_BYTES / 2, 8192), 0);
	ck_files_note_changed(scene.files, BIG, true);
	__atomic_store_n(&counter.rc, -ESTALE, __ATOMIC_RELAXED);
	eq_err(stream_case_read(&r, BIG_BYTES / 2, 8192, scene.to, false),
	       -ESTALE);
	scene_end();
}

/* A failed prefetch is not reported. Each read then sends its own request, with a short
 * deadline. */
static void test_failed(void)
{
	struct stream_reader r;
	unsigned before;

	scene_begin(~0U, SEGMENT, CACHE);
	stream_reader_begin(&r, &scene.c, 1);
	at_once(START);
	answerer.errs[BIG] = -EIO;
	eq_u64(read_all(&r, 0, START, START), 0);
	eq_err(stream_case_read(&r, START, 8192, scene.to, false), -EIO);
	at_once(UINT64_MAX);
	before = scene.c.ready + scene.c.waited;
	eq_u64(read_all(&r, START, BIG_BYTES, 8192), 0);
	ok(scene.c.ready + scene.c.waited > before);
	eq_u64(counter.short_deadline, scene.c.failed);
	scene_end();
}

/* Waits until no segment has bytes: unused ones expire. Returns false after a minute. */
static bool all_are_unused(void)
{
	for (unsigned i = 0; i < 12000; i++) {
		if (ck_streams_bytes(scene.c.streams) == 0)
			return true;
		usleep(5000);
	}
	return false;
}

/* Expired segments of a slow reader are requested again, but only once: then the window
 * shrinks. */
static void test_slow(void)
{
	struct stream_reader r;
	uint64_t fast = BIG_BYTES / 4, at = fast, before;
	unsigned wrong, kept = 0;

	scene_begin_with(~0U, SEGMENT, CACHE, 40);
	at_once(UINT64_MAX);
	stream_reader_begin(&r, &scene.c, 1);
	wrong = read_all(&r, 0, fast, 8192);
	before = moved();
	for (; at < fast + 16 * 8192; at += 8192) {
		kept += !all_are_unused();
		wrong += read_all(&r, at, at + 8192, 8192);
	}
	eq_u64(wrong + kept, 0);
	ok(r.stream.most > 0 && r.stream.most < 8 * SEGMENT);
	/* The window of 8 segments is lost once and then shrinks; without that each of the
	 * 16 reads would transfer it again. A busy machine may lose parts more often. */
	ok(moved() - before < at - fast + 48 * SEGMENT);
	scene_end();
}

/* If the backend does not answer, reads can be interrupted, and the streams can be freed. */
static void test_interrupted(void)
{
	struct stream_reader r;
	unsigned wrong = 0;

	scene_begin(~0U, SEGMENT, CACHE);
	stream_reader_begin(&r, &scene.c, 1);
	at_once(START);
	answerer_hold(&answerer, true);
	eq_u64(read_all(&r, 0, START, START), 0);
	for (unsigned i = 0; i < 100; i++)
		wrong += stream_case_read(&r, START, 4096, scene.to, true) !=
			 -EINTR;
	eq_u64(wrong, 0);
	eq_u64(scene.c.interrupted, 100);
	scene_end();
	answerer_hold(&answerer, false);
}

int main(void)
{
	if (!world_begin())
		return 2;
	answerer_begin(&answerer);
	counter.backend = (struct ck_backend){ .name = "counter",
					       .start = counter_start,
					       .interrupt = counter_interrupt };
	test_front_to_back();
	test_no_more_than_read();
	test_no_stream();
	test_overtaking();
	test_shared();
	test_used_again();
	test_memory();
	test_move();
	test_here();
	test_changed();
	test_failed();
	test_slow();
	test_interrupted();
	answerer_end(&answerer);
	return world_end();
}
