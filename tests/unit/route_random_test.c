/* SPDX-License-Identifier: MIT */
/*
 * route: random slices of random layouts over files, any number of which are remote. Each
 * read has the result of a read with local files only, and of brute force. The result does
 * not depend on how the backend answers, and is the same with a GPU gather engine.
 */
#include "gathering.h"
#include "trials.h"

#include <semaphore.h>

enum { AT_A_TIME = 8 };

static unsigned ended_early; /* reads that were interrupted */

/* One world, with local files and with remote files. */
struct trial {
	struct trial_world is; /* first */
	bool located;	       /* without headers */
	struct headers headers;
	struct ck_open_slice *here, *there;
	struct ck_files *files;
	struct ck_route route;
	sem_t done;
};

/* One read and its expected result. */
struct one {
	struct trial *t;
	struct ck_read r;
	uint8_t want[OUT_BYTES], got[OUT_BYTES];
	int want_rc, rc;
	bool needs_remote;
	unsigned ended;
};

/* --- one read ----------------------------------------------------------------------- */

/* Finds the expected result: that of the read with local files, or the error of a remote file
 * that it needs. False if the local read disagrees with brute force. */
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

/* Checks the result of a read of local data only. -EREMOTE is right if a remote file or a
 * header is needed. */
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

/* Starts a read as a reader does: first the local data, then the route. True if done() will
 * be called. */
static bool one_start(struct one *o, unsigned *wrong)
{
	struct trial *t = o->t;
	unsigned before = answerer_counted(&answerer.started);
	int rc;

	o->rc = ck_host_read(t->files, &o->r);
	*wrong += !is_right_at_once(o, o->rc);
	/* With a gather engine, other reads may start moves meanwhile. */
	if (!t->route.gather_engine && (answerer.at_once || answerer.inside))
		*wrong += answerer_counted(&answerer.started) != before;
	if (o->rc != -EREMOTE && !t->route.gather_engine)
		return false;
	memset(o->got, 0x5a, sizeof(o->got));
	rc = ck_route_read(&t->route, &o->r);
	if (rc != -EINPROGRESS) /* else one_done() sets o->rc */
		o->rc = rc;
	return rc == -EINPROGRESS;
}

/* A gathered read consists of segments, and returns the first error in file order. */
static bool fails_earlier(const struct one *o)
{
	const struct trial_world *w = &o->t->is;

	if (!o->want_rc || !o->t->route.gather_engine || o->want_rc == -EINVAL)
		return false;
	return is_right_rc(&w->truth, o->r.vpos, o->r.vpos + o->r.len, o->rc) ||
	       (w->failing >= 0 && o->rc == answerer.errs[w->failing]);
}

static bool one_is_right(const struct one *o, bool comes)
{
	if (o->ended != comes)
		return false;
	if (o->rc != o->want_rc)
		return fails_earlier(o);
	return o->rc || memcmp(o->got, o->want, o->r.len) == 0;
}

/* Several reads at once, answered in any order. */
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

/* Interrupted reads end, even if the gather engine does not answer. Reads that need no gather
 * engine have their expected result. */
static unsigned check_interrupts(struct trial *t, uint64_t *random)
{
	static struct one ones[AT_A_TIME];
	bool comes[AT_A_TIME];
	unsigned wrong = 0;

	gathering_hold(true);
	for (unsigned i = 0; i < AT_A_TIME; i++) {
		struct one *o = &ones[i];

		*o = (struct one){ .t = t };
		o->r = (struct ck_read){
			.from = t->there,
			.len = boxes_below(random, t->is.w->slice.size + 1),
			.to = o->got,
			.done = one_done,
			.arg = o
		};
		wrong += !expect(o);
		if (boxes_one_in(random, 4))
			ck_route_interrupt(&t->route, &o->r.waiter);
		comes[i] = one_start(o, &wrong);
	}
	for (unsigned i = 0; i < AT_A_TIME; i++)
		ck_route_interrupt(&t->route, &ones[i].r.waiter);
	for (unsigned i = 0; i < AT_A_TIME; i++)
		while (comes[i] && sem_wait(&t->done))
			;
	for (unsigned i = 0; i < AT_A_TIME; i++) {
		ended_early += ones[i].rc == -EINTR;
		wrong += ones[i].rc == -EINTR
				 ? ones[i].ended != comes[i]
				 : !one_is_right(&ones[i], comes[i]);
	}
	gathering_hold(false);
	return wrong;
}

/* Reads the whole slice synchronously. */
static unsigned check_wait(struct trial *t)
{
	static struct one o;

	o = (struct one){ .t = t };
	o.r = (struct ck_read){ .from = t->there,
				.len = t->is.w->slice.size,
				.to = o.got };
	if (!expect(&o))
		return 1;
	o.rc = ck_io_read(&t->route, &o.r);
	return !one_is_right(&o, false);
}

/* --- random trials --------------------------------------------------------------------- */

/* Makes one extent invalid: its file is unknown, missing, or too short. */
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

/* The encoded form of a move; its loops follow. */
struct described {
	uint32_t file, nloops, at;
	uint64_t fpos, run;
};

static bool describe_one(const struct ck_copy_desc *m, struct ck_described *out)
{
	size_t loops = m->nloops * sizeof(struct ck_loop);
	struct described d = { m->file, m->nloops,
			       (uint32_t)(m->to - out->base), m->fpos, m->run };
	uint64_t bytes, end;

	if (m->to < out->base || m->to >= out->base + out->size ||
	    !ck_copy_desc_measure(m, &bytes, &end) ||
	    bytes > out->size - (size_t)(m->to - out->base) ||
	    out->room - out->used < sizeof(d) + loops)
		return false;
	memcpy(out->out + out->used, &d, sizeof(d));
	if (loops)
		memcpy(out->out + out->used + sizeof(d), m->loops, loops);
	out->used += (uint32_t)(sizeof(d) + loops);
	return true;
}

static bool describe(struct ck_backend *backend,
		     const struct ck_copy_batch *batch,
		     struct ck_described *out)
{
	bool all = batch->n > 0;

	(void)backend;
	out->set = 1;
	for (size_t i = 0; i < batch->n && all; i++)
		all = describe_one(&batch->list[i], out);
	return all;
}

/* A file with an error sends no bytes. */
static bool bring_one(struct ck_gather_slot *s, const struct described *d,
		      const struct ck_loop *loops)
{
	const struct ck_copy_desc m = { .file = d->file,
					.nloops = d->nloops,
					.loops = loops,
					.fpos = d->fpos,
					.run = d->run,
					.to = s->fill + d->at };

	return d->file <= BIG && answerer.errs[d->file] == 0 &&
	       move_fill(&m, content[d->file],
			 d->file == BIG ? BIG_BYTES : FILE_BYTES);
}

static bool bring(struct ck_gather_slot *s)
{
	struct ck_loop loops[CK_MAX_DIMS];
	struct described d;

	for (uint32_t at = 0; at < s->wanted;) {
		memcpy(&d, s->wants + at, sizeof(d));
		at += (uint32_t)sizeof(d);
		memcpy(loops, s->wants + at, d.nloops * sizeof(loops[0]));
		at += (uint32_t)(d.nloops * sizeof(loops[0]));
		if (!bring_one(s, &d, loops))
			return false;
	}
	return true;
}

static void random_gatherer(struct trial *t, uint64_t *random)
{
	static const unsigned loses[] = { 0, 0, 2, 10 };
	static const unsigned fails[] = { 0, 0, 2, 10 };
	static const uint32_t too_many[] = { 0, 0, 1, 3 };

	t->route.gather_engine = &gathering.is;
	gathering.away = boxes_one_in(random, 10);
	gathering.fails = fails[boxes_below(random, 4)];
	gathering.too_many = too_many[boxes_below(random, 4)];
	gathering.is.rounds = boxes_one_in(random, 2);
	gathering.loses = loses[boxes_below(random, 4)];
	gathering.bring = bring;
	answerer.backend.describe = describe;
	t->route.rounds_only = boxes_one_in(random, 3);
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
	ck_route_init(&t->route, t->files, &answerer.backend);
	if (!answerer.spoil && boxes_one_in(random, 2))
		random_gatherer(t, random);
	wrong = check_reads(t, random) + check_wait(t);
	if (t->route.gather_engine && !gathering.spoils)
		wrong += check_interrupts(t, random);
	ck_route_fini(&t->route);
	ck_open_slice_free(t->here);
	ck_open_slice_free(t->there);
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
	uint64_t trials = trials_wanted(50, TAP_SLOW ? 600 : 1500,
					TAP_SLOW ? 6000 : 100000);

	eq_u64(check_trials(trials, tap_seed(1213)), 0);
	eq_u64(answerer.wrong, 0);
	eq_u64(gathering.wrong, 0);
	printf("# %" PRIu64
	       " reads, %u times the mover, %u moves; %u gathered, %u failed, "
	       "%u refused, %u brought, %u lost\n",
	       trials * (AT_A_TIME + 1), answerer.started, answerer.moved,
	       gathering.done, gathering.failed, gathering.refused,
	       gathering.brought, gathering.lost);
	ok(answerer.moved > trials / 2);
	ok(ended_early > trials / 4);
	ok(gathering.done > trials && gathering.failed > trials / 20 &&
	   gathering.refused > trials / 20);
	ok(gathering.brought > trials / 4 && gathering.lost > trials / 20);
}

/* Canary: a gather engine that delivers one wrong byte is detected. */
static void test_gathered_wrong(void)
{
	gathering_canary(check_trials);
}

/* Canary: a backend that delivers wrong bytes is detected. With SWAPPED the wrong byte may lie
 * outside the requested range, so that more trials are needed. */
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

static void test_all(void)
{
	gathering_begin(tap_seed(77));
	test_random();
	test_gathered_wrong();
}

static void test_all_canaries(void)
{
	test_canaries();
	gathering_end();
	eq_u64(gathering.wrong, 0);
}

int main(void)
{
	return trials_main(test_all, test_all_canaries);
}
