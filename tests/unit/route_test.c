/* SPDX-License-Identifier: MIT */
/*
 * route: the batches that a read sends to its backend, and the results of backend errors. The
 * boxes are known, or their headers must be read first.
 */
#include "answerer.h"
#include "rows.h"
#include "shortage.h"

#include <semaphore.h>

enum { EVERY = 0xf, ODD = 0xa };

static struct answerer answerer;

/* One open slice and its route. */
struct scene {
	struct world *w;
	struct headers headers;
	struct ck_open_slice *o;
	struct ck_route route;
	unsigned started, moved; /* counters of the backend at the beginning */
};

static void scene_begin(struct scene *s, struct world *w, unsigned depth)
{
	memset(answerer.errs, 0, sizeof(answerer.errs));
	s->w = w;
	s->o = headers_open(&s->headers, w, w->files, depth);
	ck_route_init(&s->route, w->files, &answerer.backend);
	s->started = answerer_counted(&answerer.started);
	s->moved = answerer_counted(&answerer.moved);
}

static void scene_end(struct scene *s)
{
	ck_route_fini(&s->route);
	ck_open_slice_free(s->o);
	eq_u64(s->headers.wrong, 0);
	eq_u64(s->headers.given, s->headers.put);
	rows_free(s->w);
}

/* The number of batches since the scenario began. */
static unsigned starts(const struct scene *s)
{
	return answerer_counted(&answerer.started) - s->started;
}

static unsigned moved(const struct scene *s)
{
	return answerer_counted(&answerer.moved) - s->moved;
}

/* Returns the result of the read, or -EBADE if its bytes are wrong. */
static int read_by(struct scene *s, uint64_t vpos, uint64_t len, bool host)
{
	uint8_t to[ROWS_BYTES];
	struct ck_read r = { .from = s->o, .vpos = vpos, .len = len, .to = to };
	int rc = host ? ck_host_read(s->w->files, &r)
		      : ck_io_read(&s->route, &r);

	return rc == 0 && !are_rows(to, vpos, len) ? -EBADE : rc;
}

static int far(struct scene *s, uint64_t vpos, uint64_t len)
{
	return read_by(s, vpos, len, false);
}

static int near(struct scene *s, uint64_t vpos, uint64_t len)
{
	return read_by(s, vpos, len, true);
}

/* --- reads --------------------------------------------------------------------------- */

/* Local data is read without the backend. All remote data of a read is one batch. */
static void test_once(void)
{
	struct scene s;

	scene_begin(&s, rows_make(ODD, false), 0);
	eq_err(near(&s, 0, 8), 0);
	eq_err(near(&s, 0, 9), -EREMOTE);
	eq_err(near(&s, 15, 1), -EREMOTE);
	eq_err(near(&s, 0, 0), 0);
	eq_err(near(&s, 60, 8), -EINVAL);
	eq_err(far(&s, 16, 8), 0);
	eq_err(far(&s, 60, 8), -EINVAL);
	eq_u64(starts(&s), 0);
	eq_err(far(&s, 0, ROWS_BYTES), 0);
	eq_u64(starts(&s), 1);
	eq_u64(moved(&s), 4);
	eq_err(far(&s, 13, 14), 0);
	eq_u64(starts(&s), 2);
	eq_u64(moved(&s), 6);
	eq_u64(s.headers.asked, 1);
	scene_end(&s);
}

static void test_none_remote(void)
{
	struct scene s;

	scene_begin(&s, rows_make(0, true), 3);
	eq_err(near(&s, 0, ROWS_BYTES), 0);
	eq_err(far(&s, 0, ROWS_BYTES), 0);
	eq_u64(starts(&s), 0);
	ok(!ck_files_any_remote(s.w->files));
	scene_end(&s);
}

static void test_no_mover(void)
{
	struct scene s;

	scene_begin(&s, rows_make(ODD, false), 0);
	s.route.remote = NULL;
	eq_err(far(&s, 0, 8), 0);
	eq_err(far(&s, 0, 9), -EIO);
	scene_end(&s);
	scene_begin(&s, rows_make(ODD, true), 1);
	s.route.remote = NULL;
	eq_err(far(&s, 8, 1), -EIO);
	scene_end(&s);
}

/* A section of a remote file beside sections of zeros and of bytes in memory. */
static void test_parts(void)
{
	struct world *w = rows_make(EVERY, false);
	struct scene s;
	uint8_t to[40];
	struct ck_read r = { .vpos = 60, .len = 20, .to = to };

	add_part(w, (struct world_part){ .is_zeros = true, .len = 5 });
	add_part(w, (struct world_part){ .literal = "abc", .len = 3 });
	add_part(w, (struct world_part){
			    .is_range = true, .file = 2, .fpos = 7, .len = 9 });
	add_part(w, (struct world_part){
			    .is_made = true, .literal = "defg", .len = 4 });
	scene_begin(&s, w, 0);
	r.from = s.o;
	eq_err(ck_host_read(w->files, &r), -EREMOTE);
	eq_err(ck_io_read(&s.route, &r), 0);
	ok(are_rows(to, 60, 4) && memcmp(to + 4, "\0\0\0\0\0abc", 8) == 0 &&
	   memcmp(to + 12, content[2] + 7, 8) == 0);
	r.vpos = 64;
	r.len = 8;
	eq_err(ck_host_read(w->files, &r), 0);
	r.vpos = 80;
	r.len = 5;
	eq_err(ck_io_read(&s.route, &r), 0);
	ok(to[0] == content[2][15] && memcmp(to + 1, "defg", 4) == 0);
	eq_u64(starts(&s), 2);
	scene_end(&s);
}

/* --- errors ----------------------------------------------------------------------------- */

static void test_errors(void)
{
	struct scene s;

	scene_begin(&s, rows_make(EVERY, false), 0);
	answerer.errs[1] = -EHOSTDOWN; /* reported to programs as EIO */
	answerer.errs[2] = -EREMOTE;   /* not permitted for a backend */
	eq_err(far(&s, 0, 8), 0);
	eq_err(far(&s, 0, 9), -EIO);
	eq_err(far(&s, 16, 1), -EIO);
	eq_err(far(&s, 9, 12), -EIO); /* the first of them */
	eq_err(far(&s, 16, ROW_BYTES), -EIO);
	answerer.errs[1] = answerer.errs[2] = 0;
	eq_err(far(&s, 0, ROWS_BYTES), 0);
	scene_end(&s);
}

/* A remote file with ESTALE stays marked as changed. Each read requests it again, until its
 * host delivers it. */
static void test_stale(void)
{
	struct scene s;

	scene_begin(&s, rows_make(EVERY, false), 0);
	eq_err(far(&s, 0, ROWS_BYTES), 0);
	answerer.errs[1] = -ESTALE;
	eq_err(far(&s, 0, ROWS_BYTES), -ESTALE);
	eq_u64(starts(&s), 2);
	eq_err(ck_files_check(s.w->files, 1, NULL), -ESTALE);
	eq_err(far(&s, 8, 1), -ESTALE);
	eq_u64(starts(&s), 3);
	eq_err(far(&s, 16, 24), 0);
	eq_err(ck_files_check(s.w->files, 1, NULL), -ESTALE);
	answerer.errs[1] = 0;
	eq_err(far(&s, 8, 1), 0);
	eq_err(ck_files_check(s.w->files, 1, NULL), 0);
	eq_err(far(&s, 0, ROWS_BYTES), 0);
	scene_end(&s);
	scene_begin(&s, rows_make(EVERY, true), 1);
	answerer.errs[1] = -ESTALE; /* of a header */
	eq_err(far(&s, 8, 1), -ESTALE);
	answerer.errs[1] = 0;
	eq_err(far(&s, 8, 1), 0);
	scene_end(&s);
}

/* --- headers ------------------------------------------------------------------------------ */

static void test_headers(void)
{
	struct scene s;

	for (unsigned depth = 1; depth <= 4; depth++) {
		scene_begin(&s, rows_make(EVERY, true), depth);
		eq_err(near(&s, 8, 8), -EREMOTE);
		eq_u64(starts(&s), 0);
		eq_err(far(&s, 8, 8), 0);
		ok(starts(&s) >= 2 && starts(&s) <= depth + 1);
		s.started = answerer_counted(&answerer.started);
		eq_err(far(&s, 9, 2), 0); /* the boxes are known by now */
		eq_u64(starts(&s), 1);
		s.started = answerer_counted(&answerer.started);
		eq_err(far(&s, 0, ROWS_BYTES), 0);
		printf("# %d parts, %u headers each: the mover was asked %u "
		       "times\n",
		       NROWS - 1, depth, starts(&s));
		scene_end(&s);
	}
	scene_begin(&s, rows_make(EVERY, true), 2);
	answerer.errs[3] = -EBADMSG;
	eq_err(far(&s, 24, 1), -EBADMSG);
	answerer.errs[3] = 0; /* the error is not cached */
	eq_err(far(&s, 24, 1), 0);
	scene_end(&s);
}

/* Ranges that are recorded before a header turns out to be missing are read only once. */
static void test_noted_once(void)
{
	struct scene s;

	scene_begin(&s, rows_make(EVERY, true), 1);
	eq_err(far(&s, 8, 8), 0);
	s.moved = answerer_counted(&answerer.moved);
	eq_err(far(&s, 8, 16), 0); /* one header, two rows */
	eq_u64(moved(&s), 3);
	scene_end(&s);
}

/* Headers of all parts come together. */
static void test_locate(void)
{
	struct ck_header_fetch e = { 0 };
	struct scene s;
	int rc;

	scene_begin(&s, rows_make(ODD, true), 1);
	eq_err(ck_open_slice_locate(s.o),
	       -EREMOTE); /* without a header fetch */
	ok(ck_open_slice_known(s.o, 0) && !ck_open_slice_known(s.o, 1));
	ck_fetch_begin(&e.fetch);
	eq_err(ck_open_slice_locate(s.o), -EREMOTE);
	ck_fetch_end(&e.fetch);
	eq_u64(e.fetch.n,
	       2); /* a header that two parts need is recorded once */
	eq_err(ck_io_header_fetch(&s.route, &e), 0);
	eq_u64(e.fetch.complete, 2);
	eq_u64(starts(&s), 1);
	ck_fetch_begin(&e.fetch);
	rc = ck_open_slice_locate(s.o);
	ck_fetch_end(&e.fetch);
	eq_err(rc, 0);
	ok(ck_open_slice_known(s.o, 1) && ck_open_slice_known(s.o, 7));
	ck_header_fetch_fini(&e);
	eq_err(far(&s, 0, ROWS_BYTES), 0);
	eq_u64(starts(&s), 2);
	scene_end(&s);
}

/* An error takes precedence over missing headers. */
static void test_locate_error(void)
{
	struct ck_file_info gone = { .err = ESTALE };
	struct scene s;

	scene_begin(&s, rows_make(ODD, true), 1);
	ck_files_set_remote(s.w->files, 3, &gone);
	eq_err(ck_open_slice_locate(s.o), -ESTALE);
	scene_end(&s);
}

/* A file with the errno EINPROGRESS ends a read with EIO; the reader must not wait. */
static void test_file_in_progress(void)
{
	struct ck_file_info gone = { .err = EINPROGRESS };
	struct scene s;

	scene_begin(&s, rows_make(ODD, false), 0);
	ck_files_set_remote(s.w->files, 3, &gone);
	eq_err(far(&s, 0, ROWS_BYTES), -EIO);
	scene_end(&s);
}

/* --- header fetches ------------------------------------------------------------------------- */

static void test_errands(void)
{
	struct ck_header_fetch e = { 0 };
	uint8_t to[8];
	struct scene s;

	scene_begin(&s, rows_make(EVERY, false), 0);
	eq_err(ck_io_header_fetch(&s.route, &e), -EIO); /* no ranges */
	ck_fetch_add(&e.fetch, 1, 50, 8);
	ck_fetch_add(&e.fetch, 2, 60, 8);
	answerer.errs[2] = -EHOSTDOWN;
	eq_err(ck_io_header_fetch(&s.route, &e), 0);
	eq_err(ck_fetch_take(&e.fetch, 1, 50, 8, to), 0);
	eq_mem(to, 8, content[1] + 50, 8);
	eq_err(ck_fetch_take(&e.fetch, 2, 60, 8, to), -EIO);
	eq_err(ck_io_header_fetch(&s.route, &e), -EIO);
	ck_fetch_add(&e.fetch, 3, 0, 8); /* it can be reused */
	eq_err(ck_io_header_fetch(&s.route, &e), 0);
	eq_u64(e.fetch.rounds, 2);
	eq_u64(starts(&s), 2);
	e.fetch.err = -ENOMEM;
	ck_fetch_add(&e.fetch, 3, 100, 8);
	eq_err(ck_io_header_fetch(&s.route, &e), -ENOMEM);
	e.fetch.err = 0;
	s.route.remote = NULL;
	eq_err(ck_io_header_fetch(&s.route, &e), -EIO);
	s.route.remote = &answerer.backend;
	eq_err(ck_io_header_fetch(&s.route, &e), 0);
	ck_header_fetch_fini(&e);
	scene_end(&s);
}

static void test_unwanted_errand(void)
{
	struct ck_header_fetch e = { 0 };
	struct scene s;

	scene_begin(&s, rows_make(EVERY, false), 0);
	ck_fetch_add(&e.fetch, 1, 50, 8);
	ck_route_interrupt(&s.route, &e.waiter);
	eq_err(ck_io_header_fetch(&s.route, &e), -EINTR);
	eq_u64(starts(&s), 0);
	eq_u64(e.fetch.complete, 0);
	e.waiter.cancelled = false;
	eq_err(ck_io_header_fetch(&s.route, &e), 0);
	ck_header_fetch_fini(&e);
	scene_end(&s);
}

/* --- layouts with transient errors ---------------------------------------------------------- */

/* A layout with a transient error in row 7; then one without. */
struct again {
	struct ck_locator locator;
	struct world *w;
	struct ck_layout bad;
	struct ck_extent extents[NROWS];
	unsigned bad_ones, asked;
};

static int again_get(struct ck_locator *l, uint32_t tensor,
		     const uint64_t *window, const struct ck_layout **out)
{
	struct again *a = (struct again *)l;

	(void)tensor, (void)window;
	*out = a->asked++ < a->bad_ones ? &a->bad : &a->w->layout;
	return 0;
}

static struct ck_open_slice *again_open(struct again *a, struct world *w)
{
	struct ck_open_slice *o;

	*a = (struct again){ .locator = { .get = again_get, .put = world_put },
			     .w = w,
			     .bad = w->layout,
			     .bad_ones = 1 };
	memcpy(a->extents, w->extents, sizeof(a->extents));
	a->extents[7].err = EIO;
	a->extents[7].transient = true;
	a->bad.extents = a->extents;
	a->bad.transient = true;
	if (ck_open_slice_make(&w->slice, &a->locator, &o))
		abort();
	return o;
}

static void test_again(void)
{
	struct world *w = rows_make(ODD, false);
	uint8_t to[ROWS_BYTES];
	struct ck_read r = { .len = ROWS_BYTES, .to = to };
	struct ck_route route;
	struct again a;
	struct ck_open_slice *o = again_open(&a, w);

	ck_route_init(&route, w->files, &answerer.backend);
	r.from = o;
	eq_err(ck_io_read(&route, &r), 0);
	ok(are_rows(to, 0, ROWS_BYTES));
	ck_route_fini(&route);
	ck_open_slice_free(o);
	rows_free(w);
}

/* The n-th allocation fails. A retry with another layout runs only its own moves. */
static void try_again(unsigned n, bool changed, bool *fired, unsigned *wrong)
{
	struct world *w = rows_make(ODD, false);
	uint8_t to[ROWS_BYTES] = { 0 };
	struct ck_read r = { .len = 7 * ROW_BYTES, .to = to };
	struct ck_route route;
	struct again a;
	unsigned before;
	int rc;

	w->layout.change = changed ? CK_CHANGE_SWAP : 0;
	w->extents[1].change = w->extents[3].change = (uint8_t)w->layout.change;
	r.from = again_open(&a, w);
	ck_route_init(&route, w->files, &answerer.backend);
	before = answerer_counted(&answerer.moved);
	trap_arm(MEMORY, n, false);
	rc = ck_route_read(&route, &r); /* completes synchronously */
	trap.on = false;
	*fired = trap.fired;
	*wrong += rc != -ENOMEM && rc != 0;
	*wrong += rc == 0 && !are_rows(to, 0, r.len);
	*wrong += answerer_counted(&answerer.moved) - before != (rc ? 0 : 3);
	ck_route_fini(&route);
	ck_open_slice_free(r.from);
	rows_free(w);
}

static void test_shortage_again(bool changed)
{
	bool was = answerer.at_once, fired;
	unsigned n = 0, wrong = 0;

	answerer.at_once = true;
	memset(answerer.errs, 0, sizeof(answerer.errs));
	do
		try_again(n++, changed, &fired, &wrong);
	while (fired);
	printf("# each of %u allocations failed\n", n - 1);
	ok(n > 3);
	eq_u64(wrong, 0);
	answerer.at_once = was;
}

/* --- many threads ---------------------------------------------------------------------------- */

struct crowd {
	struct scene *s;
	uint64_t seed;
	unsigned wrong;
};

static void *crowd_read(void *arg)
{
	struct crowd *c = arg;
	uint64_t random = c->seed;

	for (unsigned i = 0; i < 100; i++) {
		uint64_t vpos = boxes_below(&random, ROWS_BYTES);
		uint64_t len = boxes_below(&random, ROWS_BYTES - vpos + 1);

		c->wrong += far(c->s, vpos, len) != 0;
	}
	return NULL;
}

/* Several threads read the same slice before its headers are known. */
static void test_crowd(void)
{
	unsigned wrong = 0;

	for (unsigned round = 0; round < 20; round++) {
		struct crowd crowd[4];
		pthread_t threads[4];
		struct scene s;

		scene_begin(&s, rows_make(round % 16, true), 1 + round % 3);
		for (unsigned i = 0; i < 4; i++) {
			crowd[i] = (struct crowd){ &s, 4 * round + i + 1, 0 };
			if (pthread_create(&threads[i], NULL, crowd_read,
					   &crowd[i]))
				abort();
		}
		for (unsigned i = 0; i < 4; i++) {
			pthread_join(threads[i], NULL);
			wrong += crowd[i].wrong;
		}
		wrong += answerer.wrong;
		ck_route_fini(&s.route);
		ck_open_slice_free(s.o);
		wrong += s.headers.wrong + (s.headers.given != s.headers.put);
		rows_free(s.w);
	}
	eq_u64(wrong, 0);
}

/* The n-th system call that reads a local file fails. If the file has a replica, its bytes are
 * read from there. Returns true if there was an n-th call. */
static bool fail_here(unsigned n, bool copied, bool mapped)
{
	struct world *w = rows_make(ODD, false);
	struct scene s;
	int rc;

	ck_files_map_most(w->files, mapped ? BIG_BYTES : 0);
	for (uint32_t i = 0; i < NFILES && copied; i++)
		if (!ck_files_is_remote(w->files, i))
			ck_files_set_copied(w->files, i);
	scene_begin(&s, w, 0);
	trap_arm(READS, n, false);
	rc = far(&s, 0, ROWS_BYTES);
	trap.on = false;
	eq_err(rc, copied || !trap.fired ? 0 : -EIO);
	eq_u64(ck_files_is_remote(w->files, 0) ||
		       ck_files_is_remote(w->files, 2),
	       copied && trap.fired);
	eq_err(far(&s, 0, ROWS_BYTES), 0);
	scene_end(&s);
	return trap.fired;
}

/* A local file is replaced. Its replica is read, or the error is ESTALE. */
static void change_here(bool copied)
{
	struct world *w = rows_make(ODD, false);
	struct scene s;

	if (copied)
		ck_files_set_copied(w->files, 2);
	scene_begin(&s, w, 0);
	eq_err(far(&s, 0, ROWS_BYTES), 0);
	write_file(2, 10);
	eq_err(far(&s, 0, ROWS_BYTES), copied ? 0 : -ESTALE);
	eq_u64(ck_files_is_remote(w->files, 2), copied);
	ok(!ck_files_is_remote(w->files, 0));
	eq_err(ck_files_check(w->files, 2, NULL), copied ? 0 : -ESTALE);
	scene_end(&s);
	write_file(2, FILE_BYTES);
}

static void test_left(void)
{
	for (unsigned how = 0; how < 4; how++) {
		unsigned n = 0;

		while (fail_here(n, how & 1, how & 2))
			n++;
		ok(n > 0);
		change_here(how & 1);
	}
}

static void test_all(void)
{
	test_once();
	test_none_remote();
	test_no_mover();
	test_parts();
	test_errors();
	test_stale();
	test_headers();
	test_noted_once();
	test_locate();
	test_locate_error();
	test_file_in_progress();
	test_errands();
	test_unwanted_errand();
	test_again();
	test_left();
}

int main(void)
{
	if (!world_begin())
		return 2;
	answerer_begin(&answerer);
	for (unsigned how = 0; how < 3; how++) {
		answerer.at_once = how == 1;
		answerer.inside = how == 2;
		test_all();
	}
	answerer.inside = false;
	test_crowd();
	test_shortage_again(false);
	test_shortage_again(true);
	answerer_end(&answerer);
	return world_end();
}
