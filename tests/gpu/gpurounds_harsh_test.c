/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_harsh: one rank of a job dies, or stops, in some phase of a round; or a call of NCCL
 * fails there. All rounds end in time, with the right bytes or an error, and later epochs run
 * rounds again. Canaries: ranks that use memory too early are detected. CKPTFS_CASES: about how
 * many of the first cases, at random; 32: all.
 *
 *	LD_LIBRARY_PATH=STANDIN gpurounds_harsh_test LIBNCCL
 */
#include "gpurounds_job.h"

#include "gpu/driver/driver.h"

enum { RANKS = 4, LATE_MSEC = 15000, TIMES = 8 };

/* An accelerated clock: timeouts of communicators expire faster. */
uint64_t __wrap_ck_msec_now(void);
uint64_t __real_ck_msec_now(void);

uint64_t __wrap_ck_msec_now(void)
{
	return TIMES * __real_ck_msec_now();
}

/* --- harm --------------------------------------------------------------------------------- */

static struct grank_result run_harm(const char *what, struct grank_plan plan)
{
	uint64_t since = now_msec();
	struct grank_result t;

	plan.rounds.prepare_msec = 1500;
	plan.rounds.round_msec = 1000;
	job_run(&plan, RANKS);
	if (plan.rounds.harm == DIES || plan.rounds.harm == STOPS) {
		ok(!results[plan.rounds.who].over);
		results[plan.rounds.who].over = true;
	}
	t = job_sum(RANKS);
	job_print(what, &t, since);
	ok(t.over);
	eq_u64(t.wrong, 0);
	eq_u64(t.leaks, 0);
	ok(t.slowest < LATE_MSEC);
	return t;
}

static const struct death {
	const char *what;
	enum harm_when when;
	enum ck_rounds_kind message;
	uint32_t who;
	unsigned after;
} deaths[] = {
	{ "asked to prepare", COMES, CK_ROUNDS_PREPARE, 2, 8 },
	{ "ready", GOES, CK_ROUNDS_READY, 2, 8 },
	{ "receives GO", COMES, CK_ROUNDS_GO, 2, 8 },
	{ "in a round", BEGINS, CK_ROUNDS_GO, 2, 8 },
	{ "done", GOES, CK_ROUNDS_DONE, 2, 8 },
	{ "receives OVER", COMES, CK_ROUNDS_OVER, 2, 8 },
	{ "receives the first EPOCH", COMES, CK_ROUNDS_EPOCH, 2, 0 },
	{ "sequencer, sends GO", GOES, CK_ROUNDS_GO, 0, 20 },
	{ "sequencer, in a round", BEGINS, CK_ROUNDS_GO, 0, 8 },
	{ "sequencer, sends EPOCH", GOES, CK_ROUNDS_EPOCH, 0, 1 },
};

static struct grank_plan plan_of(const struct death *d, enum harm_kind harm,
				 uint64_t seed)
{
	return (struct grank_plan){ .rounds = { .seed = seed,
						.rounds = 40,
						.harm = harm,
						.who = d->who,
						.when = d->when,
						.message = d->message,
						.after = d->after } };
}

/* The other ranks continue without the dead one, in another epoch. */
static void test_dies(const struct death *d, uint64_t seed)
{
	struct grank_result t = run_harm(d->what, plan_of(d, DIES, seed));

	ok(t.epoch > RANKS);
	ok(t.later > 0);
}

/* The other ranks are not notified of the stop. The next communicator comes up only once the
 * stopped rank is dead. */
static void test_stops(const struct death *d, uint64_t seed)
{
	struct grank_result t = run_harm(d->what, plan_of(d, STOPS, seed));

	ok(t.failed > 0);
	ok(t.good > 0);
	/* A hung rank ends the epoch. */
	ok(t.aborts == 0 || t.later > 0);
}

/* One rank dies while the others are in a driver call that waits for the device, and thereby for
 * the round. */
static void test_settles(uint64_t seed)
{
	struct grank_result t = { 0 };

	/* Some rounds do not need the dead rank. */
	for (uint64_t i = 0; i < 8 && t.aborts == 0; i++) {
		struct grank_plan plan = plan_of(&deaths[3], DIES, seed + i);

		plan.settles = true;
		plan.rounds.everybody = true;
		t = run_harm("one dies, others wait for their devices", plan);
		ok(t.later > 0);
	}
	ok(t.aborts > 0);
}

/* --- calls that fail ------------------------------------------------------------------------ */

/* Calls of rank 1, which is not the sequencer, or of the sequencer. */
static const struct fault {
	const char *words;
	uint32_t who;
	bool costs; /* ends the epoch */
} faults[] = {
	{ "fail=ncclGetUniqueId:1:UNKNOWN", 0, true },
	{ "fail=ncclCommInitRankConfig:1:UNKNOWN", 1, true },
	{ "fail=ncclCommGetAsyncError:1:UNKNOWN", 1, true },
	{ "fail=ncclCommGetAsyncError:300:UNKNOWN", 1, true },
	{ "fail=ncclGroupStart:1:UNKNOWN", 1, true },
	{ "fail=ncclGroupStart:9:UNKNOWN", 1, true },
	{ "fail=ncclGroupEnd:1:UNKNOWN", 1, true },
	{ "fail=ncclGroupEnd:9:UNKNOWN", 1, true },
	{ "fail=ncclSend:2:UNKNOWN", 1, true },
	{ "fail=ncclSend:30:UNKNOWN", 1, true },
	{ "fail=ncclRecv:3:UNKNOWN", 1, true },
	{ "fail=ncclRecv:30:UNKNOWN", 1, true },
	{ "fail=ncclAsync:1:UNKNOWN", 1, true },
	{ "fail=ncclAsync:2:UNKNOWN", 1, true },
	{ "fail=ncclAsync:9:UNKNOWN", 1, true },
	{ "fail=ncclCommAbort:1:UNKNOWN", 1, false },
	{ "fail=ncclAsync:5:UNKNOWN fail=ncclCommAbort:1+:UNKNOWN", 1, true },
};

static void test_fault(const struct fault *f, uint64_t seed)
{
	const struct grank_plan plan = {
		.rounds = { .seed = seed, .rounds = 60, .who = f->who },
		.words = f->words,
	};
	struct grank_result t = run_harm(f->words, plan);

	ok(!f->costs || t.epoch > RANKS);
	ok(!f->costs || t.later > 0);
}

/* --- memory used too early ---------------------------------------------------------------- */

static CUresult say_done(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

static bool spoils_events;

int __wrap_ck_cuda_load(struct ck_cuda *cuda, struct ck_diag *d);
int __real_ck_cuda_load(struct ck_cuda *cuda, struct ck_diag *d);

int __wrap_ck_cuda_load(struct ck_cuda *cuda, struct ck_diag *d)
{
	int rc = __real_ck_cuda_load(cuda, d);

	if (rc == 0 && spoils_events)
		cuda->cuEventQuery = say_done;
	return rc;
}

/* Bytes are wrong, or the fake driver aborts the process. */
static void test_spoiled(const char *what, enum grank_spoil spoil,
			 uint64_t seed)
{
	const struct grank_plan plan = { .rounds = { .seed = seed,
						     .rounds = 40,
						     .prepare_msec = 1500,
						     .round_msec = 1000 },
					 .spoil = spoil };
	uint64_t since = now_msec();
	struct grank_result t;
	bool ended = false;

	spoils_events = spoil == SPOIL_EVENTS;
	job_run(&plan, 3);
	spoils_events = false;
	t = job_sum(3);
	job_print(what, &t, since);
	for (unsigned i = 0; i < 3; i++)
		ended |= WIFSIGNALED(statuses[i]) &&
			 WTERMSIG(statuses[i]) == SIGABRT;
	printf("# %s: %s\n", what,
	       t.wrong ? "wrong bytes"
	       : ended ? "ended"
		       : "not found");
	ok(t.wrong > 0 || ended);
}

/* --- main ----------------------------------------------------------------------------------- */

enum { ALL = 32 };

static uint64_t cases, lot;

static bool is_wanted(void)
{
	return boxes_below(&lot, ALL) < cases;
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(1);

	if (!job_begin(argc, argv))
		return 2;
	cases = tap_cases("CKPTFS_CASES", 10, 32);
	lot = seed | 1;
	for (size_t i = 0; i < CK_ARRAY_SIZE(deaths); i++)
		if (is_wanted())
			test_dies(&deaths[i], seed + i);
	for (size_t i = 1; i < CK_ARRAY_SIZE(deaths); i += 2)
		if (is_wanted())
			test_stops(&deaths[i], seed + i);
	for (size_t i = 0; i < CK_ARRAY_SIZE(faults); i++)
		if (is_wanted())
			test_fault(&faults[i], seed + i);
	test_settles(seed);
	if (TAP_THREADS) /* the sanitizer would report the early use */
		return tap_done();
	test_spoiled("proceeds too early", SPOIL_PROCEEDS, seed);
	test_spoiled("unpacks too early", SPOIL_UNPACKS, seed);
	test_spoiled("events are over too early", SPOIL_EVENTS, seed);
	return tap_done();
}
