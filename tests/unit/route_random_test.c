/* SPDX-License-Identifier: MIT */
/*
 * route: random slices of random layouts over files of which none, some or all are
 * remote. Each read comes to what it comes to with all files here, and to what brute
 * force says, however its mover answers.
 */
#include "trials.h"

#include <semaphore.h>

enum { AT_A_TIME = 8 };

/* One world, here and with remote files. */
struct trial {
	struct trial_world is; /* first */
	bool located;	       /* without headers */
	struct headers headers;
	struct ck_opened *here, *there;
	struct ck_files *files;
	struct ck_route route;
	sem_t done;
};

/* One read, and what it should come to. */
struct one {
	struct trial *t;
	struct ck_read r;
	uint8_t want[OUT_BYTES], got[OUT_BYTES];
	int want_rc, rc;
	bool needs_remote;
	unsigned ended;
};

/* --- what is asked ------------------------------------------------------------------ */

/* The read with all files here; and whether it needs any that is remote, which may
 * fail. */
static bool expect(struct one *o)
{
	struct trial *t = o->t;
	const struct trial_world *w = &t->is;
	const struct ck_read *r = &o->r;
	struct ck_read here = *r;
	bool fails, inside = r->vpos <= w->w->slice.size &&
			     r->len <= w->w->slice.size - r->vpos;

	here.from = t->here;
	here.to = o->want;
	o->want_rc = ck_host_read(w->w->files, &here);
	o->needs_remote = false;
	if (!inside)
		return o->want_rc == -EINVAL;
	if (o->want_rc)
		return true;
	o->needs_remote = trial_needs(w, r->vpos, r->len, &fails);
	if (fails)
		o->want_rc = answerer.errs[w->failing];
	return is_right_rc(&w->truth, r->vpos, r->vpos + r->len, 0) &&
	       memcmp(o->want, w->truth.byte + r->vpos, r->len) == 0;
}

/* What can be had at once: never a byte of a remote file, and no mover. */
static bool is_right_at_once(const struct one *o, int rc)
{
	if (rc == -EREMOTE)
		return o->needs_remote || o->want_rc || !o->t->located;
	return rc == o->want_rc && !(o->needs_remote && rc == 0) &&
	       (rc || memcmp(o->got, o->want, o->r.len) == 0);
}

static void one_done(struct ck_read *r, int rc)
{
	struct one *o = r->arg;

	o->rc = rc;
	o->ended++;
	sem_post(&o->t->done);
}

/* As one who reads does it; whether done() will be called. */
static bool one_start(struct one *o, unsigned *wrong)
{
	struct trial *t = o->t;
	unsigned before = answerer_counted(&answerer.started);
	int rc;

	o->rc = ck_host_read(t->files, &o->r);
	*wrong += !is_right_at_once(o, o->rc);
	if (answerer.at_once || answerer.inside)
		*wrong += answerer_counted(&answerer.started) != before;
	if (o->rc != -EREMOTE)
		return false;
	memset(o->got, 0x5a, sizeof(o->got));
	rc = ck_route_read(&t->route, &o->r);
	if (rc != -EINPROGRESS) /* else one_done() says it, or has said it */
		o->rc = rc;
	return rc == -EINPROGRESS;
}

static bool one_is_right(const struct one *o, bool comes)
{
	return o->ended == comes && o->rc == o->want_rc &&
	       (o->rc || memcmp(o->got, o->want, o->r.len) == 0);
}

/* Several reads at once, which are answered in any order. */
static unsigned check_reads(struct trial *t, uint64_t *random)
{
	static struct one ones[AT_A_TIME];
	bool comes[AT_A_TIME];
	unsigned wrong = 0;

	answerer_hold(&answerer, boxes_one_in(random, 2));
	for (unsigned i = 0; i < AT_A_TIME; i++) {
		struct one *o = &ones[i];

		*o = (struct one){ .t = t };
		o->r = (struct ck_read){
			.from = t->there,
			.vpos = boxes_below(random, t->is.w->slice.size + 2),
			.len = boxes_below(random, t->is.w->slice.size + 2),
			.to = o->got,
			.done = one_done,
			.arg = o
		};
		if (!boxes_one_in(random, 8)) {
			o->r.vpos /= 2;
			o->r.len /= 2;
		}
		wrong += !expect(o);
		comes[i] = one_start(o, &wrong);
	}
	answerer_hold(&answerer, false);
	for (unsigned i = 0; i < AT_A_TIME; i++)
		while (comes[i] && sem_wait(&t->done))
			;
	for (unsigned i = 0; i < AT_A_TIME; i++)
		wrong += !one_is_right(&ones[i], comes[i]);
	return wrong;
}

/* All of it, by one who waits. */
static unsigned check_wait(struct trial *t)
{
	static struct one o;

	o = (struct one){ .t = t };
	o.r = (struct ck_read){ .from = t->there,
				.len = t->is.w->slice.size,
				.to = o.got };
	if (!expect(&o))
		return 1;
	o.rc = ck_move_read(&t->route, &o.r);
	return !one_is_right(&o, false);
}

/* --- random trials --------------------------------------------------------------------- */

/* Some files are missing, too short, or none. */
static void random_loss(struct world *w, uint64_t *random)
{
	struct ck_extent *e = &w->extents[boxes_below(random, w->b.n)];

	switch (boxes_below(random, 4)) {
	case 0: e->file = BIG + 1; break;
	case 1: e->file = CK_NO_FILE; break;
	case 2: e->pos = FILE_BYTES; break;
	default: e->pos = UINT64_MAX - boxes_below(random, 40); break;
	}
	e->memory = NULL;
}

static void random_answers(struct trial *t, uint64_t *random)
{
	static const int errs[] = { -EIO, -ENODATA, -EBADMSG, -ENOMEM };

	answerer.at_once = boxes_one_in(random, 3);
	answerer.inside = boxes_one_in(random, 3);
	trial_fail(&t->is, errs, t->located ? 4 : 0, random);
}

static void random_trial(struct trial_world *t, uint64_t *windows,
			 uint64_t *random)
{
	static const char *const dtypes[] = {
		"float32", "bfloat16",	 "int64",   "uint8",	 "complex64",
		"int16",   "complex128", "float64", "complex32", "int32",
	};

	random_world(t->w, dtypes, 10, windows, random);
	define(t->w, &t->truth);
	if (t->w->b.n && boxes_one_in(random, 10))
		random_loss(t->w, random);
	t->remote = (unsigned)boxes_below(random, 1 << (BIG + 2));
	if (boxes_one_in(random, 4))
		t->remote = boxes_one_in(random, 3) ? 0 : ~0U >> (30 - BIG);
}

static unsigned check_trial(struct trial_world *w, uint64_t *random)
{
	struct trial *t = (struct trial *)w;
	uint64_t windows[8 * 2 * BOXES_DIMS];
	unsigned wrong;

	random_trial(w, windows, random);
	t->files = trial_files(w->remote, !boxes_one_in(random, 3));
	t->located = !boxes_one_in(random, 3);
	random_answers(t, random);
	t->here = world_open(w->w);
	t->there = headers_open(
		&t->headers, w->w, t->files,
		t->located ? 0 : 1 + (unsigned)boxes_below(random, 3));
	ck_route_init(&t->route, t->files, &answerer.mover);
	wrong = check_reads(t, random) + check_wait(t);
	ck_route_fini(&t->route);
	ck_opened_free(t->here);
	ck_opened_free(t->there);
	return wrong + t->headers.wrong + (t->headers.given != t->headers.put);
}

static unsigned check_trials(uint64_t trials, uint64_t seed)
{
	static struct trial t;
	unsigned wrong;

	sem_init(&t.done, 0, 0);
	wrong = trials_check(&t.is, trials, seed, check_trial);
	sem_destroy(&t.done);
	return wrong;
}

static void test_random(void)
{
	uint64_t trials = trials_wanted(50, 2500, 6000);

	eq_u64(check_trials(trials, tap_seed(1213)), 0);
	eq_u64(answerer.wrong, 0);
	printf("# %" PRIu64 " reads, %u times the mover, %u moves\n",
	       trials * (AT_A_TIME + 1), answerer.started, answerer.moved);
	ok(answerer.moved > trials / 2);
}

/* A mover that brings wrong bytes is seen. A byte of an element that is changed may
 * be none that was asked for. */
static void test_canaries(void)
{
	for (enum spoil how = LAST_BYTE; how <= FIRST_BYTE; how++) {
		unsigned wrong, before = answerer.spoiled;

		answerer.spoil = how;
		wrong = check_trials(how == SWAPPED ? 600 : 100, 5);
		printf("# %u of %u were seen\n", wrong,
		       answerer.spoiled - before);
		ok(answerer.spoiled - before > 5 &&
		   wrong > (answerer.spoiled - before) / 2);
		answerer.spoil = NOTHING;
	}
}

int main(void)
{
	return trials_main(test_random, test_canaries);
}
