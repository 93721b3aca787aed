/* SPDX-License-Identifier: MIT */
/*
 * Which hosts jobs are tried with: a model of hosts, of which some answer, and some of
 * these make each job fail that they are in. All others have to come back, soon, and the
 * bad ones are to be tried less and less often.
 */
#include "dist/launch/retry_policy.h"
#include "tap.h"

enum { MOST = 40, EVERY = 30000 };

/* What a host does. */
enum kind { GOOD, DEAD, BAD, REFUSED };

struct world {
	struct ck_retry_policy t;
	size_t n;
	enum kind kind[MOST];
	bool found; /* it is known on which hosts no program can be started */
	bool up[MOST];
	uint64_t now;
	unsigned jobs, failed; /* so far */
	unsigned logged;
};

static void begin(struct world *w, size_t n, bool found)
{
	*w = (struct world){ .n = n, .found = found };
	for (size_t i = 0; i < n; i++)
		w->up[i] = i == 0;
	if (ck_retry_policy_make(&w->t, w->up, n, EVERY, 0))
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
			!(wanted && how[i] == CK_TRY_SUSPECT);
		more |= in[i] && how[i] != CK_TRY_UP;
	}
	return more;
}

/* Where this host can start nothing, that is not known of others. */
static bool is_found(const struct world *w, size_t i)
{
	return w->found && w->kind[0] != BAD && w->kind[i] == BAD;
}

static void job_failed(struct world *w, const bool *in)
{
	uint8_t tried[MOST];

	for (size_t i = 0; i < w->n; i++)
		tried[i] = !in[i]	    ? CK_TRIED_NOT
			   : is_found(w, i) ? CK_TRIED_BAD
					    : CK_TRIED_IN;
	w->failed++;
	w->now += w->found ? 500 : 8000;
	ck_retry_policy_failed(&w->t, tried, w->now);
}

static void job(struct world *w)
{
	bool in[MOST], fails = false;
	uint8_t how[MOST];

	ck_retry_policy_choose(&w->t, w->now, how);
	if (!take(w, how, in)) {
		w->now += 100;
		ck_retry_policy_silent(&w->t, w->now);
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
		ck_retry_policy_over(&w->t, in, w->up, w->now);
	}
	while (ck_retry_policy_log(&w->t) < w->n)
		w->logged++;
}

static void pass(struct world *w, uint64_t msec)
{
	for (uint64_t end = w->now + msec; w->now < end; w->now += 500)
		if (ck_retry_policy_update(&w->t, w->up, w->now))
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
static void test_one(bool found)
{
	struct world w;

	begin(&w, 4, found);
	w.kind[1] = w.kind[3] = DEAD;
	w.kind[2] = BAD;
	pass(&w, EVERY + 1000);
	eq_u64(w.failed, 1);
	eq_u64(w.logged, 0);
	w.kind[3] = GOOD;
	pass(&w, EVERY + 20000);
	ok(all_good_are_up(&w));
	eq_u64(w.logged, 1);
	w.up[3] = false; /* it goes down: it is tried at once, and alone */
	w.jobs = w.failed = 0;
	pass(&w, 2000);
	ok(all_good_are_up(&w));
	eq_u64(w.jobs, 1);
	eq_u64(w.failed, 0);
	pass(&w, 3600 * 1000); /* 5 min and longer from one to the next */
	ok(w.failed > 10 && w.failed < 18);
	eq_u64(w.logged, 1);
	w.kind[1] = w.kind[2] = GOOD;
	pass(&w, CK_RETRY_POLICY_PAUSE_MOST + EVERY);
	ok(all_good_are_up(&w));
	w.kind[2] = BAD;
	w.up[2] = false; /* again, and it is logged again */
	pass(&w, 20000);
	eq_u64(w.logged, 2);
	ck_retry_policy_fini(&w.t);
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
	eq_u64(w.logged, 1);
	ck_retry_policy_fini(&w.t);
}

/* All have gone down. */
static void begin_lost(struct world *w, size_t n, bool found)
{
	begin(w, n, found);
	for (size_t i = 0; i < w->n; i++)
		w->up[i] = true;
	(void)ck_retry_policy_update(&w->t, w->up, 0);
	for (size_t i = 0; i < w->n; i++)
		w->up[i] = false;
}

/* Without this host's process there is no job: it does not wait for other hosts. */
static void test_here(bool found)
{
	struct world w;

	begin_lost(&w, 5, found);
	w.kind[3] = BAD;
	pass(&w, found ? 3000 : 12000);
	ok(w.up[0]);
	pass(&w, 40000);
	ok(all_good_are_up(&w));
	ck_retry_policy_fini(&w.t);
}

/* Nothing can be started by this host for a while: no other one pays for that later. */
static void test_at_home(bool found)
{
	struct world w;

	begin_lost(&w, 4, found);
	w.kind[0] = BAD;
	pass(&w, 60000);
	eq_u64(w.jobs, w.failed);
	w.kind[0] = GOOD;
	pass(&w, found ? 10000 : 20000);
	ok(all_good_are_up(&w));
	ck_retry_policy_fini(&w.t);
}

/* Nothing can be started on a host that is up, and that is known: no host that returns is
 * left out for that, nor has to wait for long when it is over. */
static void test_not_the_newcomer(void)
{
	struct world w;

	begin(&w, 3, true);
	w.up[2] = true;
	(void)ck_retry_policy_update(&w.t, w.up, 0);
	w.kind[2] = BAD;
	pass(&w, 3600 * 1000);
	eq_u64(w.jobs, w.failed);
	ok(w.failed > 60);
	eq_u64(w.t.hosts[1].failed, 0);
	eq_u64(w.logged, 0);
	w.kind[2] = GOOD;
	pass(&w, EVERY + 2000);
	ok(all_good_are_up(&w));
	ck_retry_policy_fini(&w.t);
}

/* Several come, of which some are bad, and that is known: one job fails for all of them. */
static void test_found(void)
{
	struct world w;

	begin(&w, 9, true);
	w.kind[2] = w.kind[5] = w.kind[6] = BAD;
	pass(&w, EVERY + 2000);
	ok(all_good_are_up(&w));
	eq_u64(w.failed, 1);
	ck_retry_policy_fini(&w.t);
}

/* Jobs that do not begin are tried every so often. */
static void test_none_begins(void)
{
	struct world w;
	unsigned n = 0;
	bool up[2] = { true, false };

	begin(&w, 2, true);
	for (uint64_t now = 0; now < 3600 * 1000; now += 500)
		if (ck_retry_policy_update(&w.t, up, now)) {
			ck_retry_policy_failed(&w.t, NULL, now);
			n++;
		}
	eq_u64(n, 3600 * 1000 / EVERY - 1);
	eq_u64(ck_retry_policy_log(&w.t), 2);
	ck_retry_policy_fini(&w.t);
}

/* Any hosts go down, and some of those that come back are bad. */
static bool run(uint64_t seed)
{
	uint64_t random = seed | 1;
	struct world w;
	bool good = true;
	unsigned bad = 0;

	begin(&w, 2 + tap_random(&random) % (MOST - 2), seed % 2);
	for (unsigned round = 0; round < 4 && good; round++) {
		bad = 0;
		for (size_t i = 1; i < w.n; i++) {
			unsigned what = tap_random(&random) % 16;

			w.kind[i] = what == 0 ? BAD : what < 4 ? DEAD : GOOD;
			bad += w.kind[i] == BAD;
			w.up[i] &= w.kind[i] == GOOD;
		}
		/* One job for each host, and more for those that are bad. */
		pass(&w, CK_RETRY_POLICY_PAUSE_MOST + 2 * EVERY +
				 MOST * 10000UL + bad * 8 * 10000UL);
		good = all_good_are_up(&w);
	}
	ck_retry_policy_fini(&w.t);
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
	test_not_the_newcomer();
	test_found();
	test_none_begins();
	for (uint64_t seed = 0; seed < 400; seed++)
		good += run(seed);
	eq_u64(good, 400);
	return tap_done();
}
