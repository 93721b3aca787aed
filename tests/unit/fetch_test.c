/* SPDX-License-Identifier: MIT */
/*
 * Header fetches: ranges of remote files that a request needs are recorded, fetched, and found
 * by its next attempt. Random requests complete with the right bytes in few rounds.
 */
#include "ckptfs/source.h"
#include "shortage.h"
#include "source/fetch.h"
#include "tap.h"

#include <fcntl.h>
#include <pthread.h>

enum { SIZE = 1 << 20, NREMOTE = 3, LOCAL = NREMOTE, LOCAL_SIZE = 100 };

static uint8_t content[NREMOTE][SIZE];
static char dir_path[] = "/tmp/ckptfs-fetch-XXXXXX";
static int dir = -1;

/* Files 0 to 2 are remote; file 3 is local. */
static struct ck_files *files_make(void)
{
	static const char *const names[] = { "r0", "r1", "r2", "here" };
	static const struct ck_file_info said = {
		.size = SIZE, .mode = 0640, .uid = 7, .gid = 8, .closed = 04
	};
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	uint32_t number;

	for (uint32_t i = 0; i <= LOCAL; i++)
		if (ck_files_add(f, ck_str_from(names[i]), &number) ||
		    number != i)
			abort();
	for (uint32_t i = 0; i < NREMOTE; i++)
		ck_files_set_remote(f, i, &said);
	return f;
}

/* Fetches all recorded ranges, as the remote backend does. */
static void bring(struct ck_fetch *f)
{
	for (size_t i = f->complete; i < f->n; i++) {
		struct ck_fetch_range *p = &f->ranges[i];

		if (p->fpos > SIZE || p->len > SIZE - p->fpos)
			abort();
		memcpy(p->bytes, content[p->file] + p->fpos, p->len);
	}
	ck_fetch_complete(f);
}

static struct ck_file use(struct ck_files *f, uint32_t number)
{
	struct ck_file file = { 0 };

	eq_err(ck_files_get(f, number, &file), 0);
	return file;
}

/* --- pieces ------------------------------------------------------------------------ */

static void test_pieces(void)
{
	struct ck_fetch f = { 0 };
	uint8_t to[64];

	ok(!ck_fetch_has(&f, 0, 0, 1));
	eq_err(ck_fetch_take(&f, 0, 0, 1, to), -EREMOTE);
	eq_err(ck_fetch_take(&f, 0, 0, 0, to), 0);
	ck_fetch_add(&f, 0, 10, 0); /* nothing */
	eq_u64(f.n, 0);
	ck_fetch_add(&f, 1, 10, 20);
	eq_u64(f.n, 1);
	ok(f.ranges[0].bytes != NULL && f.ranges[0].rc == 0);
	ok(!ck_fetch_has(&f, 1, 10, 20)); /* not fetched yet */
	eq_err(ck_fetch_take(&f, 1, 10, 20, to), -EREMOTE);
	eq_u64(f.n, 1); /* ck_fetch_take() records no range */
	bring(&f);
	eq_u64(f.complete, 1);
	eq_u64(f.rounds, 1);
	ok(ck_fetch_has(&f, 1, 10, 20) && ck_fetch_has(&f, 1, 29, 1));
	ok(!ck_fetch_has(&f, 1, 9, 1) && !ck_fetch_has(&f, 1, 30, 1));
	ok(!ck_fetch_has(&f, 1, 10, 21) && !ck_fetch_has(&f, 0, 10, 1));
	ok(!ck_fetch_has(&f, 2, 10, 1) && !ck_fetch_has(&f, 1, 10, SIZE_MAX));
	ok(!ck_fetch_has(&f, 1, UINT64_MAX, 1));
	eq_err(ck_fetch_take(&f, 1, 13, 5, to), 0);
	eq_mem(to, 5, content[1] + 13, 5);
	ck_fetch_add(&f, 1, 12, 3); /* already fetched */
	eq_u64(f.n, 1);
	ck_fetch_fini(&f);
	eq_u64(f.n + f.complete + f.rounds, 0);
}

/* Of pieces with the same offset, the longest is found. */
static void test_longest(void)
{
	static const size_t lens[] = { 5, 30, 12, 30, 1 };
	struct ck_fetch f = { 0 };
	uint8_t to[64];

	for (size_t i = 0; i < CK_ARRAY_SIZE(lens); i++)
		ck_fetch_add(&f, 2, 100, lens[i]);
	bring(&f);
	eq_err(ck_fetch_take(&f, 2, 100, 30, to), 0);
	eq_mem(to, 30, content[2] + 100, 30);
	ck_fetch_add(&f, 2, 103, 2); /* would hide the longer piece */
	eq_u64(f.n, 2); /* ranges of the last pieces are not recorded again */
	ck_fetch_add(&f, 2, 90, 15);
	bring(&f);
	ok(ck_fetch_has(&f, 2, 104, 10) && ck_fetch_has(&f, 2, 90, 15));
	ok(!ck_fetch_has(&f, 2, 90, 40)); /* two pieces are not joined */
	ck_fetch_fini(&f);
}

static void test_errors(void)
{
	struct ck_fetch f = { 0 };
	uint8_t to[4] = { 1, 2, 3, 4 };

	ck_fetch_add(&f, 0, 0, 4);
	ck_fetch_add(&f, 0, 4, 4);
	f.ranges[0].rc = -EIO;
	bring(&f);
	ok(ck_fetch_has(&f, 0, 1, 2)); /* its error is known */
	eq_err(ck_fetch_take(&f, 0, 1, 2, to), -EIO);
	eq_err(ck_fetch_take(&f, 0, 4, 4, to), 0);
	eq_mem(to, 4, content[0] + 4, 4);
	ck_fetch_add(&f, 0, 0, 4); /* not requested again */
	eq_u64(f.n, 2);
	ck_fetch_fini(&f);
}

static void *has_none(void *arg)
{
	(void)arg;
	return ck_fetch_present();
}

static void test_nested(void)
{
	struct ck_fetch outer = { 0 }, inner = { 0 };
	struct ck_files *f = files_make();
	struct ck_file file = use(f, 0);
	pthread_t thread;
	void *other = &outer;
	uint8_t to[4];

	ok(ck_fetch_present() == NULL);
	eq_err(ck_files_read(f, &file, to, 4, 0, UINT64_MAX),
	       -EREMOTE); /* no fetch records it */
	ck_files_fetch_add(f, &file, 0, 4);
	ck_fetch_begin(&outer);
	ok(ck_fetch_present() == &outer);
	eq_err(ck_files_read(f, &file, to, 4, 0, UINT64_MAX), -EREMOTE);
	ck_fetch_begin(&inner);
	ok(ck_fetch_present() == &inner);
	eq_err(ck_files_read(f, &file, to, 4, 50, UINT64_MAX), -EREMOTE);
	if (pthread_create(&thread, NULL, has_none, NULL))
		abort();
	pthread_join(thread, &other);
	ok(other == NULL); /* fetches belong to a thread */
	ck_fetch_end(&inner);
	ok(ck_fetch_present() == &outer);
	ck_fetch_end(&outer);
	ok(ck_fetch_present() == NULL);
	eq_u64(outer.n, 1);
	eq_u64(inner.n, 1);
	eq_u64(inner.ranges[0].fpos, 50);
	ck_fetch_fini(&outer);
	ck_fetch_fini(&inner);
	ck_files_put(f, &file);
	ck_files_free(f);
}

/* --- files --------------------------------------------------------------------------- */

static void test_said(void)
{
	struct ck_files *f = files_make();
	const struct ck_file_info *info = ck_files_info(f, 1);
	struct ck_file file = use(f, 1);
	bool transient = true;

	ok(ck_files_any_remote(f) && ck_files_is_remote(f, 1));
	ok(!ck_files_is_remote(f, LOCAL) && !ck_files_is_remote(f, 99));
	ok(ck_str_eq(info->path, ck_str_from("r1")));
	ok(info->size == SIZE && info->mode == 0640 && info->err == 0);
	ok(ck_files_is_seen(f, 1) && ck_files_trouble(f, 1) == 0);
	ok(ck_files_access(f, 1)->uid == 7 && ck_files_access(f, 1)->gid == 8 &&
	   ck_files_access(f, 1)->closed == 04);
	ok(file.remote && file.fd == -1 && !file.map && file.size == SIZE &&
	   file.number == 1);
	ck_files_put(f, &file);
	eq_err(ck_files_check(f, 1, &transient), 0);
	ok(!transient);
	eq_err(ck_files_check(f, 1, NULL), 0);
	ck_files_note_changed(f, 1, true);
	transient = true;
	eq_err(ck_files_check(f, 1, &transient), -ESTALE);
	ok(!transient);
	eq_err(ck_files_get(f, 1, &file), 0); /* its host may still serve it */
	ck_files_put(f, &file);
	ck_files_note_changed(f, 1, false);
	eq_err(ck_files_check(f, 1, &transient), 0);
	eq_err(ck_files_check(f, 2, NULL), 0);
	ck_files_free(f);
}

/* A file that its host cannot serve. */
static void test_said_err(void)
{
	static const struct ck_file_info lost = { .err = ENODATA,
						  .why = "is missing" };
	struct ck_files *f = files_make();
	struct ck_file file = { .transient = true };

	ck_files_set_remote(f, 0, &lost);
	eq_err(ck_files_get(f, 0, &file), -ENODATA);
	ok(!file.transient);
	eq_err(ck_files_check(f, 0, NULL), -ENODATA);
	ck_files_free(f);
}

static void test_local(void)
{
	struct ck_files *f = files_make();
	struct ck_file file = use(f, LOCAL);
	struct ck_fetch fetch = { 0 };
	uint8_t to[8];

	ck_fetch_begin(&fetch);
	eq_err(ck_files_read(f, &file, to, 8, 92, UINT64_MAX), 0);
	eq_mem(to, 8, content[0] + 92, 8);
	eq_err(ck_files_read(f, &file, to, 8, 93, UINT64_MAX), -ENODATA);
	ck_files_fetch_add(f, &file, 0, 8);
	ck_fetch_end(&fetch);
	eq_u64(fetch.n, 0);
	ck_files_put(f, &file);
	ck_files_free(f);
}

static void test_ends(void)
{
	struct ck_files *f = files_make();
	struct ck_file file = use(f, 0);
	struct ck_fetch fetch = { 0 };
	uint8_t to[8];

	ck_fetch_begin(&fetch);
	eq_err(ck_files_read(f, &file, to, 8, SIZE - 7, UINT64_MAX), -ENODATA);
	eq_err(ck_files_read(f, &file, to, 1, SIZE, UINT64_MAX), -ENODATA);
	eq_err(ck_files_read(f, &file, to, 1, UINT64_MAX, UINT64_MAX),
	       -ENODATA);
	eq_err(ck_files_read(f, &file, to, SIZE_MAX, 8, UINT64_MAX), -ENODATA);
	eq_err(ck_files_read(f, &file, to, 0, SIZE, UINT64_MAX), 0);
	ck_files_fetch_add(f, &file, SIZE, 1);
	ck_files_fetch_add(f, &file, UINT64_MAX, SIZE_MAX);
	eq_u64(fetch.n, 0);
	ck_files_fetch_add(f, &file, SIZE - 3, 100);
	eq_u64(fetch.n, 1);
	eq_u64(fetch.ranges[0].len, 3);
	ck_fetch_end(&fetch);
	ck_fetch_fini(&fetch);
	ck_files_put(f, &file);
	ck_files_free(f);
}

/* The first fetch is exact, later ones also read ahead. */
static void test_widened(void)
{
	static const size_t lens[] = { 8,	 4 << 12,  16 << 12,
				       64 << 12, SIZE / 2, SIZE / 2 };
	struct ck_files *f = files_make();
	struct ck_file file = use(f, 2);
	struct ck_fetch fetch = { 0 };
	uint8_t to[8];

	ck_fetch_begin(&fetch);
	for (size_t i = 0; i < CK_ARRAY_SIZE(lens); i++) {
		uint64_t fpos = SIZE / 2 - i * 8;

		eq_err(ck_files_read(f, &file, to, 8, fpos, UINT64_MAX),
		       -EREMOTE);
		eq_u64(fetch.n, i + 1);
		eq_u64(fetch.ranges[i].len,
		       lens[i] < SIZE / 2 ? lens[i] : SIZE - fpos);
		bring(&fetch);
		eq_err(ck_files_read(f, &file, to, 8, fpos, UINT64_MAX), 0);
		eq_mem(to, 8, content[2] + fpos, 8);
	}
	ck_fetch_end(&fetch);
	ck_fetch_fini(&fetch);
	ck_files_put(f, &file);
	ck_files_free(f);
}

static void test_kept(void)
{
	struct ck_files *f = files_make();
	struct ck_file file = use(f, 1);
	struct ck_fetch first = { 0 }, second = { 0 };
	uint8_t to[8];

	ck_fetch_add(&first, 1, 100, 8);
	bring(&first);
	ck_files_keep(f, &first);
	ok(first.n == 0 && first.ranges == NULL);
	eq_err(ck_files_read(f, &file, to, 8, 100, UINT64_MAX),
	       0); /* no fetch is active */
	eq_mem(to, 8, content[1] + 100, 8);
	eq_err(ck_files_read(f, &file, to, 8, 101, UINT64_MAX), -EREMOTE);
	ck_fetch_begin(&second);
	ck_files_fetch_add(f, &file, 100, 8);
	eq_u64(second.n, 0);
	ck_files_fetch_add(f, &file, 100, 9);
	ck_fetch_end(&second);
	eq_u64(second.n, 1);
	bring(&second);
	ck_files_keep(f, &second); /* replaces the first */
	eq_err(ck_files_read(f, &file, to, 8, 101, UINT64_MAX), 0);
	ck_files_put(f, &file);
	ck_files_free(f);
}

/* Transient errors are not kept: the next request fetches the range again. */
static void test_kept_errors(void)
{
	struct ck_files *f = files_make();
	struct ck_file file = use(f, 1);
	struct ck_fetch first = { 0 }, second = { 0 };
	uint8_t to[8];

	ck_fetch_add(&first, 1, 100, 8);
	first.ranges[0].rc = -ETIMEDOUT;
	bring(&first);
	ck_files_keep(f, &first);
	ck_fetch_begin(&second);
	eq_err(ck_files_read(f, &file, to, 8, 100, UINT64_MAX), -EREMOTE);
	ck_fetch_end(&second);
	eq_u64(second.n, 1);
	ck_fetch_fini(&second);
	ck_files_put(f, &file);
	ck_files_free(f);
}

/* --- random requests -------------------------------------------------------------------- */

enum { STEPS = 24 };

struct step {
	uint32_t file;
	uint64_t fpos;
	size_t len;
	bool want; /* announced by ck_files_fetch_add() before the read */
};

/* Runs the steps until a range is not fetched. Returns 0, or the error. */
static int request_run(struct ck_files *f, const struct step *steps, unsigned n,
		       unsigned *wrong)
{
	static uint8_t to[SIZE];

	for (unsigned i = 0; i < n; i++) {
		const struct step *s = &steps[i];
		struct ck_file file;
		int rc = ck_files_get(f, s->file, &file);

		for (unsigned k = i; k < n && rc == 0; k++)
			if (steps[k].want && steps[k].file == s->file)
				ck_files_fetch_add(f, &file, steps[k].fpos,
						   steps[k].len);
		if (rc == 0)
			rc = ck_files_read(f, &file, to, s->len, s->fpos,
					   UINT64_MAX);
		ck_files_put(f, &file);
		if (rc)
			return rc;
		*wrong += memcmp(to, content[s->file] + s->fpos, s->len) != 0;
	}
	return 0;
}

/* Runs a request to its end. Returns the number of fetches. */
static unsigned request_rounds(struct ck_files *f, const struct step *steps,
			       unsigned n, unsigned *wrong)
{
	struct ck_fetch fetch = { 0 };
	unsigned rounds = 0;
	int rc;

	do {
		ck_fetch_begin(&fetch);
		rc = request_run(f, steps, n, wrong);
		ck_fetch_end(&fetch);
		*wrong += rc == -EREMOTE && fetch.n == fetch.complete;
		bring(&fetch);
	} while (rc == -EREMOTE && rounds++ < 10000);
	*wrong += rc != 0;
	ck_fetch_fini(&fetch);
	return rounds;
}

static void random_steps(struct step *steps, unsigned n, uint64_t *random)
{
	for (unsigned i = 0; i < n; i++) {
		struct step *s = &steps[i];
		uint64_t most = 1ULL << tap_random(random) % 15;

		s->file = (uint32_t)(tap_random(random) % NREMOTE);
		s->fpos = tap_random(random) % SIZE;
		if (i && tap_random(random) % 3)
			s->fpos = (steps[i - 1].fpos +
				   tap_random(random) % most) %
				  SIZE;
		s->len = (size_t)(tap_random(random) % most);
		s->len = (size_t)ck_min(s->len, SIZE - s->fpos);
		s->want = tap_random(random) % 4 == 0;
	}
}

static void test_random(void)
{
	uint64_t cases = tap_cases("CKPTFS_CASES", TAP_SLOW ? 15000 : 50000,
				   TAP_SLOW ? 200000 : 2000000) /
			 50;
	uint64_t random = tap_seed(4711) | 1;
	struct ck_files *f = files_make();
	struct step steps[STEPS];
	unsigned wrong = 0, most = 0;

	for (uint64_t i = 0; i < cases; i++) {
		unsigned n = 1 + (unsigned)(tap_random(&random) % STEPS);
		unsigned rounds;

		random_steps(steps, n, &random);
		rounds = request_rounds(f, steps, n, &wrong);
		wrong += rounds > n; /* each round completes a step */
		most = rounds > most ? rounds : most;
	}
	printf("# %" PRIu64 " requests, at most %u rounds\n", cases, most);
	eq_u64(wrong, 0);
	ck_files_free(f);
}

/* The comparison detects one wrong byte. */
static void test_canary(void)
{
	const struct step step = { .file = 1, .fpos = 500, .len = 40 };
	struct ck_files *f = files_make();
	struct ck_fetch fetch = { 0 };
	unsigned wrong = 0;

	ck_fetch_add(&fetch, 1, 490, 100);
	bring(&fetch);
	fetch.ranges[0].bytes[49] ^= 1;
	ck_fetch_begin(&fetch);
	eq_err(request_run(f, &step, 1, &wrong), 0);
	ck_fetch_end(&fetch);
	eq_u64(wrong, 1);
	ck_fetch_fini(&fetch);
	ck_files_free(f);
}

/* Small steps forward, like reads of a zip directory or a pickle. */
static void test_small_steps(void)
{
	enum { N = 2000, STEP = 300 };
	static struct step steps[N];
	struct ck_files *f = files_make();
	unsigned wrong = 0, rounds;

	for (unsigned i = 0; i < N; i++)
		steps[i] = (struct step){ .fpos = (uint64_t)STEP * i,
					  .len = 30 };
	rounds = request_rounds(f, steps, N, &wrong);
	printf("# %d steps over %d bytes: %u rounds\n", N, N * STEP, rounds);
	eq_u64(wrong, 0);
	ok(rounds <= 6);
	for (unsigned i = 0; i < N; i++) /* from both ends to the middle */
		steps[i].fpos = i % 2 ? i * 200 : SIZE - 30 - i * 200;
	rounds = request_rounds(f, steps, N, &wrong);
	printf("# from both ends: %u rounds\n", rounds);
	eq_u64(wrong, 0);
	ck_files_free(f);
}

/* --- out of memory -------------------------------------------------------------------- */

/* After an allocation fails, all reads of the fetch return -ENOMEM, and no range is recorded. */
static void test_shortage(void)
{
	struct ck_files *f = files_make();
	struct ck_file file = use(f, 0);
	unsigned n = 0;
	bool fired;

	do {
		struct ck_fetch fetch = { 0 };
		uint8_t to[4];
		int rc;

		ck_fetch_begin(&fetch);
		trap_arm(MEMORY, n++, false);
		rc = ck_files_read(f, &file, to, 4, 0, UINT64_MAX);
		trap.on = false;
		fired = trap.fired;
		eq_err(rc, fired ? -ENOMEM : -EREMOTE);
		eq_err(fetch.err, fired ? -ENOMEM : 0);
		eq_u64(fetch.n, !fired);
		eq_err(ck_files_read(f, &file, to, 4, 8, UINT64_MAX), rc);
		ck_fetch_end(&fetch);
		ck_fetch_fini(&fetch);
		eq_err(fetch.err, 0);
	} while (fired);
	ok(n == 3);
	ck_files_put(f, &file);
	ck_files_free(f);
}

static void make_content(void)
{
	uint64_t random = 31;
	int fd;

	for (unsigned i = 0; i < NREMOTE; i++)
		for (size_t k = 0; k < SIZE; k++)
			content[i][k] = (uint8_t)tap_random(&random);
	fd = openat(dir, "here", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ck_write_full(fd, content[0], LOCAL_SIZE))
		abort();
	close(fd);
}

int main(void)
{
	alarm(tap_is_long() ? 1200 : 300);
	if (!mkdtemp(dir_path))
		return 2;
	dir = open(dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	make_content();
	test_pieces();
	test_longest();
	test_errors();
	test_nested();
	test_said();
	test_said_err();
	test_local();
	test_ends();
	test_widened();
	test_kept();
	test_kept_errors();
	test_random();
	test_canary();
	test_small_steps();
	test_shortage();
	unlinkat(dir, "here", 0);
	rmdir(dir_path);
	close(dir);
	return tap_done();
}
