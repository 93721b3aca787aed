/* SPDX-License-Identifier: MIT */
/*
 * stream: several readers go through random slices of random layouts, of which some files
 * are remote and some fail, with jumps and interrupts. Each read comes to what brute force
 * says, whether segments had its bytes or not.
 */
#include "stream_case.h"
#include "trials.h"

enum { READERS = 4, READS = 24, NSETS = 1 << (BIG + 2) };

static unsigned from_segments, had_waited, alone, had_failed, interrupted;

struct trial {
	struct trial_world is; /* first */
	struct stream_case c;
	struct stream_reader readers[READERS]; /* there until the case ends */
	uint8_t to[OUT_BYTES];
};

/* --- what is right -------------------------------------------------------------------- */

static bool is_right(const struct trial *t, uint64_t vpos, uint64_t len, int rc)
{
	const struct trial_world *w = &t->is;
	bool must_fail;

	(void)trial_needs(w, vpos, len, &must_fail);
	if (rc == 0)
		return !must_fail &&
		       is_right_rc(&w->truth, vpos, vpos + len, 0) &&
		       memcmp(t->to, w->truth.byte + vpos, len) == 0;
	if (must_fail && rc == answerer.errs[w->failing])
		return true;
	return is_right_rc(&w->truth, vpos, vpos + len, rc);
}

/* --- trials --------------------------------------------------------------------------- */

static unsigned read_some(struct trial *t, struct stream_reader *r,
			  uint64_t *at, uint64_t *random)
{
	uint64_t size = t->is.w->slice.size;
	bool interrupt = boxes_one_in(random, 8);
	uint64_t len;
	int rc;

	if (*at >= size || boxes_one_in(random, 12))
		*at = boxes_below(random, size);
	len = 1 + boxes_below(random, ck_min(size - *at, (uint64_t)400));
	rc = boxes_one_in(random, 3)
		     ? stream_case_pass(r, *at, len, t->to)
		     : stream_case_read(r, *at, len, t->to, interrupt);
	if (rc == -EINTR && interrupt)
		return 0;
	*at += len;
	return !is_right(t, *at - len, len, rc);
}

static void random_trial(struct trial_world *t, uint64_t *windows,
			 uint64_t *random)
{
	static const char *const dtypes[] = { "float32", "bfloat16", "uint8",
					      "complex64", "float64" };
	static const int errs[] = { -EIO, -EBADMSG };

	random_world(t->w, dtypes, 5, windows, random);
	define(t->w, &t->truth);
	t->remote = (unsigned)boxes_below(random, NSETS);
	if (boxes_one_in(random, 3))
		t->remote = NSETS - 1;
	trial_fail(t, errs, 2, random);
}

static unsigned read_all(struct trial *t, uint64_t *random)
{
	uint64_t at[READERS] = { 0 };
	unsigned wrong = 0;

	for (unsigned i = 0; i < READERS; i++)
		stream_reader_begin(&t->readers[i], &t->c, 5);
	for (unsigned i = 0; i < READS * READERS; i++) {
		unsigned who = (unsigned)boxes_below(random, READERS);

		wrong += read_some(t, &t->readers[who], &at[who], random);
	}
	return wrong;
}

static unsigned check_trial(struct trial_world *w, uint64_t *random)
{
	struct trial *t = (struct trial *)w;
	uint64_t windows[8 * 2 * BOXES_DIMS];
	unsigned wrong;

	random_trial(w, windows, random);
	if (w->w->slice.size == 0)
		return 0;
	answerer.at_once = boxes_one_in(random, 4);
	answerer.inside = boxes_one_in(random, 4);
	stream_case_begin(&t->c, trial_files(w->remote, true), world_open(w->w),
			  &answerer.backend, 64U << boxes_below(random, 5),
			  512U << boxes_below(random, 6), 0);
	if (boxes_one_in(random, 2))
		stream_case_be_lazy(&t->c, &answerer);
	wrong = read_all(t, random);
	wrong += !stream_case_end(&t->c);
	ck_open_slice_free(t->c.opened);
	from_segments += t->c.ready + t->c.waited;
	had_waited += t->c.waited;
	alone += t->c.alone;
	had_failed += t->c.failed;
	interrupted += t->c.interrupted;
	return wrong;
}

static unsigned check_trials(uint64_t trials, uint64_t seed)
{
	static struct trial t;

	return trials_check(&t.is, trials, seed, check_trial);
}

static void test_random(void)
{
	uint64_t trials = trials_wanted(100, TAP_SLOW ? 300 : 800,
					TAP_SLOW ? 3000 : 50000);

	eq_u64(check_trials(trials, tap_seed(2718)), 0);
	eq_u64(answerer.wrong, 0);
	printf("# %u reads from segments, of which %u waited, %u others; "
	       "segments of %u failed, %u were interrupted\n",
	       from_segments, had_waited, alone, had_failed, interrupted);
	ok(from_segments > trials && had_waited > trials / 10);
	ok(had_failed > trials / 100 && interrupted > trials / 100);
}

/* A mover that brings wrong bytes is seen. */
static void test_canary(void)
{
	answerer.spoil = LAST_BYTE;
	ok(check_trials(50, 5) > 20);
	answerer.spoil = NOTHING;
}

int main(void)
{
	return trials_main(test_random, test_canary);
}
