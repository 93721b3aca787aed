/* SPDX-License-Identifier: MIT */
/*
 * gpurounds: ranks with GPUs of the stand-in move rounds by lot, which NCCL's stand-in makes, and
 * each byte that is gathered of them is the right one. They join and leave again and again, and
 * nothing is left. CKPTFS_CASES: rounds (300; all of it: 2000).
 *
 *	LD_LIBRARY_PATH=STANDIN gpurounds_test LIBNCCL
 */
#include "gpurounds_job.h"

/* No round may fail by this limit: it is for what hangs. */
enum { ROUND_LIMIT_MSEC = 60000 };

static uint64_t wanted(void)
{
	return tap_cases("CKPTFS_CASES", 300, TAP_SLOW ? 300 : 2000);
}

static void test_random(uint64_t seed, uint32_t ranks)
{
	const struct grank_plan plan = {
		.rounds = { .seed = seed,
			    .rounds = wanted() / ranks,
			    .prepare_msec = ROUND_LIMIT_MSEC,
			    .round_msec = ROUND_LIMIT_MSEC },
	};
	uint64_t since = now_msec();
	struct grank_result t;

	job_run(&plan, ranks);
	t = job_sum(ranks);
	job_print("random", &t, since);
	ok(t.over);
	eq_u64(t.wrong, 0);
	eq_u64(t.good, ranks * plan.rounds.rounds);
	eq_u64(t.failed + t.aborts, 0);
	eq_u64(t.epoch, ranks); /* the first one */
	eq_u64(t.leaks, 0);
}

/* Each life has a communicator of its own. */
static void test_again(uint64_t seed)
{
	const struct grank_plan plan = {
		.rounds = { .seed = seed,
			    .rounds = 4,
			    .prepare_msec = ROUND_LIMIT_MSEC,
			    .round_msec = ROUND_LIMIT_MSEC },
		.lives = tap_is_long() && !TAP_SLOW ? 20 : 5,
	};
	uint64_t since = now_msec();
	struct grank_result t;

	job_run(&plan, 3);
	t = job_sum(3);
	job_print("joins again and again", &t, since);
	ok(t.over);
	eq_u64(t.wrong, 0);
	eq_u64(t.good, 3ULL * 4 * plan.lives);
	eq_u64(t.leaks, 0);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(1);

	if (!job_begin(argc, argv))
		return 2;
	test_random(seed, 3);
	test_random(seed + 1, 8);
	test_again(seed + 2);
	return tap_done();
}
