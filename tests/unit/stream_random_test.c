/* SPDX-License-Identifier: MIT */
/*
 * stream: several readers go through random slices of random layouts, of which some files
 * are remote and some fail, with jumps and interrupts. Each read comes to what brute force
 * says, whether segments had its bytes or not.
 */
#include "stream_case.h"
#include "truth.h"

enum { READERS = 4, READS = 24, NSETS = 1 << (BIG + 2) };

static struct answerer answerer;
static struct ck_files *sets[NSETS];
static unsigned from_segments, had_waited, alone, had_failed, interrupted;

struct trial {
	struct world *w;
	struct truth truth;
	struct stream_case c;
	unsigned remote; /* bits of files */
	int failing;	 /* the file whose moves fail; -1: none */
	uint8_t to[OUT_BYTES];
};

/* --- what is right -------------------------------------------------------------------- */

/* Whether the read needs bytes of the file that fails. */
static bool must_fail(const struct trial *t, uint64_t vpos, uint64_t len)
{
	for (uint64_t i = vpos; i < vpos + len && t->failing >= 0; i++)
		if (t->truth.file[i] == t->failing &&
		    t->remote >> t->failing & 1)
			return true;
	return false;
}

static bool is_right(const struct trial *t, uint64_t vpos, uint64_t len, int rc)
{
	if (rc == 0)
		return !must_fail(t, vpos, len) &&
		       is_right_rc(&t->truth, vpos, vpos + len, 0) &&
		       memcmp(t->to, t->truth.byte + vpos, len) == 0;
	if (must_fail(t, vpos, len) && rc == answerer.errs[t->failing])
		return true;
	return is_right_rc(&t->truth, vpos, vpos + len, rc);
}

/* --- trials --------------------------------------------------------------------------- */

static unsigned read_some(struct trial *t, struct stream_reader *r,
			  uint64_t *at, uint64_t *random)
{
	uint64_t size = t->w->slice.size;
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

static void random_files(struct trial *t, uint64_t *random)
{
	t->remote = (unsigned)boxes_below(random, NSETS);
	if (boxes_one_in(random, 3))
		t->remote = NSETS - 1;
	if (!sets[t->remote])
		sets[t->remote] = files_open_remote(t->remote);
	memset(answerer.errs, 0, sizeof(answerer.errs));
	t->failing = -1;
	if (!boxes_one_in(random, 4))
		return;
	t->failing = (int)boxes_below(random, NFILES);
	answerer.errs[t->failing] = boxes_one_in(random, 2) ? -EIO : -EBADMSG;
}

static void random_world(struct trial *t, uint64_t *windows, uint64_t *random)
{
	static const char *const names[] = { "float32", "bfloat16", "uint8",
					     "complex64", "float64" };
	uint8_t dtype = dtype_of(names[boxes_below(random, 5)]);

	boxes_make(&t->w->b, ck_dtype_at(dtype)->size, random);
	make_world(t->w, dtype);
	random_extents(t->w, random);
	random_slice(t->w, windows, random);
	define(t->w, &t->truth);
	random_files(t, random);
}

static unsigned check_trial(struct trial *t, uint64_t *random)
{
	uint64_t windows[8 * 2 * BOXES_DIMS], at[READERS] = { 0 };
	struct stream_reader readers[READERS];
	unsigned wrong = 0;

	random_world(t, windows, random);
	if (t->w->slice.size == 0)
		return 0;
	answerer.at_once = boxes_one_in(random, 4);
	answerer.inside = boxes_one_in(random, 4);
	stream_case_begin(&t->c, sets[t->remote], world_open(t->w),
			  &answerer.mover, 64U << boxes_below(random, 5),
			  512U << boxes_below(random, 6), 0);
	for (unsigned i = 0; i < READERS; i++)
		stream_reader_begin(&readers[i], &t->c, 5);
	for (unsigned i = 0; i < READS * READERS; i++) {
		unsigned who = (unsigned)boxes_below(random, READERS);

		wrong += read_some(t, &readers[who], &at[who], random);
	}
	wrong += !stream_case_end(&t->c);
	ck_opened_free(t->c.opened);
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
	uint64_t random = seed | 1;
	unsigned wrong = 0;

	t.w = world_make();
	for (uint64_t i = 0; i < trials; i++) {
		unsigned more = check_trial(&t, &random);

		if (more && !wrong && !answerer.spoil)
			printf("# the first wrong one is number %" PRIu64 "\n",
			       i);
		wrong += more;
	}
	world_free(t.w);
	return wrong;
}

static void test_random(void)
{
	const char *text = getenv("CKPTFS_CASES");
	uint64_t trials = text	     ? strtoull(text, NULL, 0) / 100
			  : TAP_SLOW ? 800
				     : 3000;

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
	if (!world_begin())
		return 2;
	answerer_begin(&answerer);
	test_random();
	test_canary();
	answerer_end(&answerer);
	for (unsigned i = 0; i < NSETS; i++)
		ck_files_free(sets[i]);
	return world_end();
}
