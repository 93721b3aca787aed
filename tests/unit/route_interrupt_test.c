/* SPDX-License-Identifier: MIT */
/*
 * route: reads and header fetches are interrupted at any moment: before they begin, while
 * the backend runs them, between two batches, and during done(). Each ends once, with the
 * right bytes or with EINTR. An interrupted read does not wait for a backend that never
 * answers.
 */
#include "answerer.h"
#include "rows.h"

#include <semaphore.h>

enum { AT_A_TIME = 4 };

static struct answerer answerer;

/* Spins for a random time, usually a short one. */
static void dawdle(uint64_t *random, unsigned bits)
{
	volatile unsigned turns = (unsigned)boxes_below(
		random, 1ULL << boxes_below(random, bits));

	while (turns)
		turns--;
}

/* --- the interrupting thread ----------------------------------------------------------- */

/* A thread that interrupts the given waiters and then posts `end`. */
struct spoiler {
	pthread_t thread;
	sem_t begin, end;
	struct ck_route *route; /* NULL: the thread ends */
	struct ck_waiter *waiters[AT_A_TIME];
	unsigned n;
	unsigned bits; /* of dawdle() before each interrupt */
	uint64_t random;
};

static void *spoiler_run(void *arg)
{
	struct spoiler *s = arg;

	for (;;) {
		while (sem_wait(&s->begin))
			;
		if (!s->route)
			return NULL;
		for (unsigned i = 0; i < s->n; i++) {
			dawdle(&s->random, s->bits);
			ck_route_interrupt(s->route, s->waiters[i]);
		}
		sem_post(&s->end);
	}
}

static void spoiler_begin(struct spoiler *s)
{
	*s = (struct spoiler){ .random = 3 };
	sem_init(&s->begin, 0, 0);
	sem_init(&s->end, 0, 0);
	if (pthread_create(&s->thread, NULL, spoiler_run, s))
		abort();
}

static void spoiler_start(struct spoiler *s, struct ck_route *route)
{
	s->route = route;
	sem_post(&s->begin);
}

static void spoiler_wait(struct spoiler *s)
{
	while (sem_wait(&s->end))
		;
}

static void spoiler_end(struct spoiler *s)
{
	spoiler_start(s, NULL);
	pthread_join(s->thread, NULL);
	sem_destroy(&s->begin);
	sem_destroy(&s->end);
}

/* --- results ------------------------------------------------------------------------------- */

struct tally {
	unsigned came, interrupted, wrong;
};

static void count(struct tally *t, int rc, bool is_right)
{
	t->came += rc == 0;
	t->interrupted += rc == -EINTR;
	t->wrong += (rc && rc != -EINTR) || (rc == 0 && !is_right);
}

/* --- several asynchronous reads --------------------------------------------------------------- */

struct one {
	struct ck_read r;
	uint8_t to[ROWS_BYTES];
	sem_t *done;
	uint64_t random;
	int rc;
	unsigned ended;
};

static void one_done(struct ck_read *r, int rc)
{
	struct one *o = r->arg;

	dawdle(&o->random, 17); /* interrupts may arrive meanwhile */
	o->rc = rc;
	o->ended++;
	sem_post(o->done);
}

static void one_init(struct one *o, struct ck_open_slice *from, sem_t *done,
		     uint64_t *random)
{
	*o = (struct one){ .done = done, .random = tap_random(random) | 1 };
	o->r = (struct ck_read){ .from = from, .to = o->to, .arg = o };
	o->r.vpos = boxes_below(random, ROWS_BYTES);
	o->r.len = 1 + boxes_below(random, ROWS_BYTES - o->r.vpos);
	o->r.done = one_done;
}

/* Starts all reads. Returns the number of those that will call done(). */
static unsigned ones_start(struct one *ones, struct ck_route *route,
			   struct tally *t, uint64_t *random)
{
	unsigned coming = 0;

	for (unsigned i = 0; i < AT_A_TIME; i++) {
		struct one *o = &ones[i];
		int rc;

		dawdle(random, 14);
		rc = ck_route_read(route, &o->r);
		if (rc == -EINPROGRESS)
			coming++;
		else
			count(t, rc, are_rows(o->to, o->r.vpos, o->r.len));
		o->rc = rc == -EINPROGRESS ? o->rc : rc;
		t->wrong += rc != -EINPROGRESS && o->ended;
		if (rc != -EINPROGRESS)
			o->r.done = NULL;
	}
	return coming;
}

static void round_of_reads(struct spoiler *s, struct ck_route *route,
			   struct ck_open_slice *from, struct tally *t,
			   uint64_t *random)
{
	struct one ones[AT_A_TIME];
	unsigned coming;
	sem_t done;

	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < AT_A_TIME; i++) {
		one_init(&ones[i], from, &done, random);
		s->waiters[i] = &ones[i].r.waiter;
	}
	s->n = AT_A_TIME;
	s->bits = 19;
	spoiler_start(s, route);
	coming = ones_start(ones, route, t, random);
	spoiler_wait(s);
	for (; coming; coming--)
		while (sem_wait(&done))
			;
	for (unsigned i = 0; i < AT_A_TIME; i++) {
		struct one *o = &ones[i];

		t->wrong += o->ended != (o->r.done != NULL);
		if (o->r.done)
			count(t, o->rc, are_rows(o->to, o->r.vpos, o->r.len));
	}
	sem_destroy(&done);
}

/* --- one synchronous read ----------------------------------------------------------------------- */

static void round_of_waiting(struct spoiler *s, struct ck_route *route,
			     struct ck_open_slice *from, struct tally *t,
			     uint64_t *random)
{
	uint8_t to[ROWS_BYTES];
	struct ck_read r = { .from = from, .len = ROWS_BYTES, .to = to };
	int rc;

	s->waiters[0] = &r.waiter;
	s->n = 1;
	s->bits = 21;
	spoiler_start(s, route);
	dawdle(random, 14);
	rc = ck_io_read(route, &r);
	spoiler_wait(s);
	count(t, rc, are_rows(to, 0, ROWS_BYTES));
}

/* A header fetch is repeated until it is interrupted. */
static void round_of_errands(struct spoiler *s, struct ck_route *route,
			     struct ck_open_slice *from, struct tally *t,
			     uint64_t *random)
{
	struct ck_header_fetch e = { 0 };
	uint64_t fpos = 0;
	int rc = 0;

	(void)from;
	s->waiters[0] = &e.waiter;
	s->n = 1;
	s->bits = 21;
	spoiler_start(s, route);
	for (; rc == 0; fpos += 8) {
		uint8_t to[8];
		int taken;

		dawdle(random, 14);
		ck_fetch_add(&e.fetch, 1, fpos, 8);
		rc = ck_io_header_fetch(route, &e);
		if (rc)
			break;
		taken = ck_fetch_take(&e.fetch, 1, fpos, 8, to);
		count(t, taken, memcmp(to, content[1] + fpos, 8) == 0);
		if (fpos > 8000 || answerer.never)
			break;
	}
	count(t, rc, true);
	spoiler_wait(s);
	ck_header_fetch_fini(&e);
}

typedef void round_of(struct spoiler *s, struct ck_route *route,
		      struct ck_open_slice *from, struct tally *t,
		      uint64_t *random);

/* Headers are read once for a slice, so each round opens the slice again. Two rounds of three
 * must read headers first. */
static void one_round(unsigned i, round_of *run, struct spoiler *s,
		      struct world *w, struct tally *t)
{
	uint64_t random = i * 2 + 1;
	struct headers headers;
	struct ck_route route;
	struct ck_open_slice *o = headers_open(&headers, w, w->files, i % 3);

	ck_route_init(&route, w->files, &answerer.backend);
	run(s, &route, o, t, &random);
	ck_route_fini(&route);
	ck_open_slice_free(o);
	t->wrong += headers.wrong || headers.given != headers.put;
}

/* All files are remote, so that no read succeeds if the backend never answers. */
static void test_rounds(const char *what, round_of *run, bool never)
{
	uint64_t rounds = tap_cases("CKPTFS_CASES", TAP_SLOW ? 200 : 600,
				    TAP_SLOW ? 3000 : 20000);
	struct world *w = rows_make(0xf, true);
	struct spoiler s;
	struct tally t = { 0 };

	answerer.never = never;
	spoiler_begin(&s);
	for (uint64_t i = 0; i < rounds; i++)
		one_round((unsigned)i, run, &s, w, &t);
	spoiler_end(&s);
	printf("# %s%s: %u came, %u were interrupted\n", what,
	       never ? ", never answered" : "", t.came, t.interrupted);
	eq_u64(t.wrong, 0);
	eq_u64(answerer.wrong, 0);
	ok(never ? t.came == 0 : t.came + t.interrupted > 0);
	ok(t.interrupted > 0 || (!never && !tap_is_long()));
	ok(t.came > 0 || never || !tap_is_long());
	rows_free(w);
}

/* --- handwritten cases ------------------------------------------------------------------------------- */

static void test_before(void)
{
	struct world *w = rows_make(0xa, true);
	struct headers headers;
	struct ck_route route;
	uint8_t to[ROWS_BYTES];
	struct ck_read r = { .len = ROWS_BYTES, .to = to };
	unsigned started = answerer.started;

	r.from = headers_open(&headers, w, w->files, 0);
	ck_route_init(&route, w->files, &answerer.backend);
	ck_route_interrupt(&route, &r.waiter);
	eq_err(ck_io_read(&route, &r), -EINTR);
	r.len = ROW_BYTES; /* a local range can still be read */
	eq_err(ck_io_read(&route, &r), 0);
	eq_u64(answerer.started, started);
	route.remote = NULL;
	ck_route_interrupt(&route, &r.waiter);
	ck_route_fini(&route);
	ck_open_slice_free(r.from);
	rows_free(w);
}

/* If the backend answers at once, or cannot be interrupted, its answer is returned. */
static void test_at_once(bool interrupts)
{
	struct world *w = rows_make(0xf, true);
	struct spoiler s;
	struct tally t = { 0 };

	answerer.never = false;
	answerer.backend.interrupt = interrupts ? answerer_interrupt : NULL;
	spoiler_begin(&s);
	for (unsigned i = 0; i < (tap_is_long() ? 3000 : 300); i++) {
		answerer.at_once = i % 3 == 1;
		answerer.inside = i % 3 == 2;
		one_round(i, round_of_reads, &s, w, &t);
	}
	spoiler_end(&s);
	eq_u64(t.wrong, 0);
	ok(t.came > 10);
	eq_u64(answerer.wrong, 0);
	answerer.at_once = answerer.inside = false;
	answerer.backend.interrupt = answerer_interrupt;
	rows_free(w);
}

int main(void)
{
	if (!world_begin())
		return 2;
	answerer_begin(&answerer);
	test_before();
	for (int never = 0; never < 2; never++) {
		test_rounds("reads", round_of_reads, never);
		test_rounds("those who wait", round_of_waiting, never);
		test_rounds("errands", round_of_errands, never);
	}
	test_at_once(true);
	test_at_once(false);
	answerer_end(&answerer);
	return world_end();
}
