/* SPDX-License-Identifier: MIT */
/*
 * Which hosts jobs are tried with: a model of hosts, of which some answer, and some of
 * these make each job fail that they are in. All others have to come back, soon, and the
 * bad ones are to be tried less and less often.
 */
#include "ckptfs/tries.h"
#include "tap.h"

enum { MOST = 40, EVERY = 30000 };

/* What a host does. */
enum kind { GOOD, DEAD, BAD, REFUSED };

struct world {
	struct ck_tries t;
	size_t n;
	enum kind kind[MOST];
	bool named; /* it is known whom a job has failed by */
	bool found; /* the same, and of this host and those that are up, too */
	bool up[MOST];
	uint64_t now;
	unsigned jobs, failed; /* so far */
	unsigned told;
	bool noisy;
	uint64_t random;
};

static void begin(struct world *w, size_t n, bool named)
{
	*w = (struct world){ .n = n, .named = named };
	for (size_t i = 0; i < n; i++)
		w->up[i] = i == 0;
	if (ck_tries_make(&w->t, w->up, n, EVERY, 0))
		abort();
}

static bool can_start(const struct world *w, size_t i)
{
	return i == 0 || w->kind[i] != DEAD;
}

/* Who is in it, as its keeper decides. False: it has no more than are up. */
static bool take(const struct world *w, const uint8_t *how, bool *in)
{
	bool wanted = false, more = false;

	for (size_t i = 1; i < w->n; i++)
		wanted |= how[i] == CK_TRY_WANTED && can_start(w, i);
	for (size_t i = 0; i < w->n; i++) {
		in[i] = can_start(w, i) && how[i] != CK_TRY_LEFT_OUT &&
			!(wanted && how[i] == CK_TRY_DOUBTFUL);
		more |= in[i] && how[i] != CK_TRY_UP;
	}
	return more;
}

/* One that is good may have had no time to begin. */
static bool is_absent(struct world *w, size_t i)
{
	return w->kind[i] == BAD || w->kind[0] == BAD ||
	       (w->noisy && tap_random(&w->random) % 4 == 0);
}

static void job_failed(struct world *w, const bool *in)
{
	uint8_t tried[MOST];

	for (size_t i = 0; i < w->n; i++)
		tried[i] = in[i] ? w->found && w->kind[i] == BAD ? CK_TRIED_BAD
				   : w->named && is_absent(w, i)
					   ? CK_TRIED_ABSENT
					   : CK_TRIED_IN
				 : CK_TRIED_NOT;
	w->failed++;
	w->now += w->named ? 500 : 8000;
	ck_tries_failed(&w->t, tried, w->now);
}

static void job(struct world *w)
{
	bool in[MOST], fails = false;
	uint8_t how[MOST];

	ck_tries_choose(&w->t, w->now, how);
	if (!take(w, how, in)) {
		w->now += 100;
		ck_tries_nobody(&w->t, w->now);
		return;
	}
	w->jobs++;
	for (size_t i = 0; i < w->n; i++)
		fails |= in[i] && w->kind[i] == BAD;
	if (fails) {
		job_failed(w, in);
	} else {
		w->now += 1000;
		for (size_t i = 0; i < w->n; i++)
			w->up[i] = in[i] && w->kind[i] != REFUSED;
		ck_tries_over(&w->t, in, w->up, w->now);
	}
	for (size_t i = ck_tries_tell(&w->t); i < w->n;
	     i = ck_tries_tell(&w->t))
		w->told += w->kind[i] == BAD || w->kind[i] == REFUSED;
}

static void pass(struct world *w, uint64_t msec)
{
	for (uint64_t end = w->now + msec; w->now < end; w->now += 500)
		if (ck_tries_look(&w->t, w->up, w->now))
			job(w);
}

static bool all_good_are_up(const struct world *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->up[i] != (i == 0 || w->kind[i] == GOOD))
			return false;
	return true;
}

/* It answers, but nothing can be started there. */
static void test_one(bool named)
{
	struct world w;

	begin(&w, 4, named);
	w.kind[1] = w.kind[3] = DEAD;
	w.kind[2] = BAD;
	pass(&w, EVERY + 1000);
	eq_u64(w.failed, 1);
	eq_u64(w.told, 1);
	w.kind[3] = GOOD;
	pass(&w, EVERY + 5000);
	ok(all_good_are_up(&w));
	w.up[3] = false; /* it goes down: it is tried at once, and alone */
	w.jobs = w.failed = 0;
	pass(&w, 2000);
	ok(all_good_are_up(&w));
	eq_u64(w.jobs, 1);
	eq_u64(w.failed, 0);
	pass(&w, 3600 * 1000); /* 5 min and longer from one to the next */
	ok(w.failed > 10 && w.failed < 18);
	eq_u64(w.told, 1);
	w.kind[1] = w.kind[2] = GOOD;
	pass(&w, CK_TRIES_PAUSE_MOST + EVERY);
	ok(all_good_are_up(&w));
	w.kind[2] = BAD;
	w.up[2] = false; /* again, and it is told again */
	pass(&w, 1000);
	eq_u64(w.told, 2);
	ck_tries_fini(&w.t);
}

/* Its files are not those of the checkpoint. */
static void test_refused(void)
{
	struct world w;

	begin(&w, 3, true);
	w.kind[1] = REFUSED;
	pass(&w, 3600 * 1000);
	ok(all_good_are_up(&w));
	ok(w.jobs > 10 && w.jobs < 24);
	eq_u64(w.told, 1);
	ck_tries_fini(&w.t);
}

/* All have gone down. */
static void begin_lost(struct world *w, size_t n, bool named)
{
	begin(w, n, named);
	for (size_t i = 0; i < w->n; i++)
		w->up[i] = true;
	(void)ck_tries_look(&w->t, w->up, 0);
	for (size_t i = 0; i < w->n; i++)
		w->up[i] = false;
}

/* Without this host's process there is no job: it does not wait for anybody. */
static void test_here(bool named)
{
	struct world w;

	begin_lost(&w, 5, named);
	w.kind[3] = BAD;
	pass(&w, named ? 3000 : 40000);
	ok(all_good_are_up(&w));
	ck_tries_fini(&w.t);
}

/* Nothing can be started by this host for a while: no other one pays for that later. */
static void test_at_home(bool named)
{
	struct world w;

	begin_lost(&w, 4, named);
	w.kind[0] = BAD;
	pass(&w, 60000);
	eq_u64(w.jobs, w.failed);
	w.kind[0] = GOOD;
	pass(&w, named ? 5000 : 10000);
	ok(all_good_are_up(&w));
	ck_tries_fini(&w.t);
}

/* Nothing can be started here, or on a host that is up, and that is known: no host that
 * comes is left out for that, nor has to wait for long when it is over. */
static void test_not_the_newcomer(size_t bad)
{
	struct world w;

	begin(&w, 3, true);
	w.found = true;
	w.up[2] = true;
	(void)ck_tries_look(&w.t, w.up, 0);
	w.kind[bad] = BAD;
	pass(&w, 3600 * 1000);
	eq_u64(w.jobs, w.failed);
	ok(w.failed > 60);
	eq_u64(w.t.hosts[1].failed, 0);
	eq_u64(ck_tries_tell(&w.t), 3);
	w.kind[bad] = GOOD;
	pass(&w, EVERY + 2000);
	ok(all_good_are_up(&w));
	ck_tries_fini(&w.t);
}

/* Several come, of which some are bad, and that is known: one job fails for all of them. */
static void test_found(void)
{
	struct world w;

	begin(&w, 9, true);
	w.found = true;
	w.kind[2] = w.kind[5] = w.kind[6] = BAD;
	pass(&w, EVERY + 2000);
	ok(all_good_are_up(&w));
	eq_u64(w.failed, 1);
	eq_u64(w.told, 3);
	ck_tries_fini(&w.t);
}

/* What fails whoever is in it is tried less and less often. */
static void test_nobody(void)
{
	struct world w;
	unsigned n = 0;
	bool up[2] = { true, false };

	begin(&w, 2, true);
	for (uint64_t now = 0; now < 3600 * 1000; now += 500)
		if (ck_tries_look(&w.t, up, now)) {
			ck_tries_failed(&w.t, NULL, now);
			n++;
		}
	ok(n > 10 && n < 18);
	eq_u64(ck_tries_tell(&w.t), 2);
	ck_tries_fini(&w.t);
}

/* Any hosts go down, and some of those that come back are bad. */
static bool run(uint64_t seed)
{
	uint64_t random = seed | 1;
	struct world w;
	bool good = true;
	unsigned bad = 0;

	begin(&w, 2 + tap_random(&random) % (MOST - 2), seed % 2);
	w.found = seed % 3 == 0;
	w.noisy = true;
	w.random = seed | 1;
	for (unsigned round = 0; round < 4 && good; round++) {
		bad = 0;
		for (size_t i = 1; i < w.n; i++) {
			unsigned what = tap_random(&random) % 16;

			w.kind[i] = what == 0 ? BAD : what < 4 ? DEAD : GOOD;
			bad += w.kind[i] == BAD;
			w.up[i] &= w.kind[i] == GOOD;
		}
		/* For each that is bad, so many jobs as it takes to find it. */
		pass(&w, CK_TRIES_PAUSE_MOST + 2 * EVERY + bad * 8 * 10000UL);
		good = all_good_are_up(&w);
	}
	ck_tries_fini(&w.t);
	return good;
}

int main(void)
{
	unsigned good = 0;

	test_one(true);
	test_one(false);
	test_refused();
	test_here(true);
	test_here(false);
	test_at_home(true);
	test_at_home(false);
	test_not_the_newcomer(0);
	test_not_the_newcomer(2);
	test_found();
	test_nobody();
	for (uint64_t seed = 0; seed < 400; seed++)
		good += run(seed);
	eq_u64(good, 400);
	return tap_done();
}
