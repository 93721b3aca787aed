/* SPDX-License-Identifier: MIT */
/*
 * rounds: eight processes run random rounds over a transport with the rules of NCCL
 * (xport_ordered.h), and all bytes are right. Then one process dies, stops or sends wrong
 * messages, and the bytes of failed rounds are fetched from the file servers. The long run
 * also checks the time. CKPTFS_CASES: number of rounds.
 */
#include "rounds_rank.h"
#include "xport_local.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum {
	RANKS = 8,
	JOIN_MSEC = 60000,
	ALARM_SECONDS = 200,
	KILL_MSEC = 2500,
	LATE_MSEC = 10000,
	SEEN_MSEC = 100
};

static struct rank_result *results; /* of all ranks */

/* --- a job ------------------------------------------------------------------------------- */

static _Noreturn void be_rank(const char *directory, uint32_t rank,
			      const struct rank_plan *plan)
{
	struct ck_transport *x;

	alarm(ALARM_SECONDS + (unsigned)(plan->rounds / 100));
	if (ck_transport_local(directory, rank, RANKS, JOIN_MSEC, &x))
		_exit(3);
	rank_run(x, plan, &results[rank]);
	_exit(0);
}

/* True if the process has ended. A stopped process is continued after a while, and then dies. */
static bool look_after(pid_t pid, uint64_t *stopped)
{
	int status;

	if (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid) {
		if (!WIFSTOPPED(status))
			return true;
		*stopped = now_msec();
	}
	if (*stopped && now_msec() - *stopped >= KILL_MSEC)
		(void)kill(pid, SIGCONT);
	return false;
}

static void wait_for_all(pid_t *pids)
{
	uint64_t stopped[RANKS] = { 0 };
	unsigned left = RANKS;

	while (left) {
		for (uint32_t i = 0; i < RANKS; i++) {
			if (pids[i] > 0 && look_after(pids[i], &stopped[i])) {
				pids[i] = 0;
				left--;
			}
		}
		usleep(2000);
	}
}

static void run_job(const struct rank_plan *plan)
{
	char directory[64];
	pid_t pids[RANKS];

	memset(results, 0, RANKS * sizeof(*results));
	xport_directory(directory);
	fflush(stdout);
	for (uint32_t i = 0; i < RANKS; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			abort();
		if (pids[i] == 0)
			be_rank(directory, i, plan);
	}
	wait_for_all(pids);
	eq_i64(rmdir(directory), 0);
}

/* The sum of the results of all ranks, and the longest time. */
static struct rank_result sum(void)
{
	struct rank_result t = { .over = true };

	for (uint32_t i = 0; i < RANKS; i++) {
		const struct rank_result *r = &results[i];

		t.good += r->good;
		t.failed += r->failed;
		t.busy += r->busy;
		t.parts += r->parts;
		t.wrong += r->wrong;
		t.fetched += r->fetched;
		t.slowest = ck_max(t.slowest, r->slowest);
		t.refused += r->refused;
		t.mismatched += r->mismatched;
		t.aborts += r->aborts;
		t.differ += r->differ;
		t.epoch = ck_max(t.epoch, r->epoch);
		t.bytes += r->bytes;
		t.over &= r->over;
	}
	return t;
}

static void print(const char *what, const struct rank_result *t, uint64_t since)
{
	printf("# %s: %" PRIu64 " rounds good, %" PRIu64 " failed, %" PRIu64
	       " busy; %" PRIu64 " parts, %" PRIu64 " aborted, %" PRIu64
	       " bytes; %" PRIu64 " transfers the other way, %" PRIu64
	       " ms at most; epoch %" PRIu64 "; %" PRIu64 " ms\n",
	       what, t->good, t->failed, t->busy, t->parts, t->aborts, t->bytes,
	       t->fetched, t->slowest, t->epoch, now_msec() - since);
}

/* --- without faults -------------------------------------------------------------------------- */

static void test_random(uint64_t seed)
{
	uint64_t rounds = tap_cases("CKPTFS_CASES", TAP_SLOW ? 500 : 1000,
				    TAP_SLOW ? 5000 : 50000);
	const struct rank_plan plan = { .seed = seed,
					.rounds = rounds / RANKS,
					.prepare_msec = 60000,
					.round_msec = 60000,
					.late_one_in = 16,
					.late_usec = 2000,
					.refuse_one_in = 300 };
	uint64_t since = now_msec();
	struct rank_result t;

	run_job(&plan);
	t = sum();
	print("random", &t, since);
	ok(t.over);
	eq_u64(t.wrong, 0);
	eq_u64(t.good + t.failed, RANKS * plan.rounds);
	ok(t.failed <= t.refused && t.refused >= RANKS);
	eq_u64(t.aborts + t.differ + t.mismatched, 0);
	eq_u64(t.epoch, RANKS); /* the first one */
}

/* --- with faults ------------------------------------------------------------------------------- */

/* All ranks but one end in time, with the right bytes. */
static struct rank_result run_harm(const char *what, struct rank_plan plan)
{
	uint64_t since = now_msec();
	struct rank_result t;

	/* A rank that only sends wrong counts does not delay the others. */
	plan.prepare_msec = plan.harm == LIES ? 60000 : 1500;
	plan.round_msec = plan.harm == LIES ? 60000 : 1000;
	plan.late_one_in = 16;
	plan.late_usec = 1000;
	run_job(&plan);
	if (plan.harm == DIES || plan.harm == STOPS) {
		ok(!results[plan.who].over);
		results[plan.who].over = true;
	}
	t = sum();
	print(what, &t, since);
	ok(t.over);
	eq_u64(t.wrong, 0);
	ok(t.slowest < LATE_MSEC || !tap_is_long());
	return t;
}

/* A rank, and the phase of a round in which it dies. */
static const struct death {
	const char *what;
	enum harm_when when;
	enum ck_rounds_kind message;
	uint32_t who;
	unsigned after;
} deaths[] = {
	{ "asked to prepare", COMES, CK_ROUNDS_PREPARE, 5, 20 },
	{ "ready", GOES, CK_ROUNDS_READY, 5, 20 },
	{ "receives go", COMES, CK_ROUNDS_GO, 5, 20 },
	{ "in a round", BEGINS, CK_ROUNDS_GO, 5, 20 },
	{ "done", GOES, CK_ROUNDS_DONE, 5, 20 },
	{ "receives over", COMES, CK_ROUNDS_OVER, 5, 20 },
	{ "asks one of all", GOES, CK_ROUNDS_PREPARE, 5, 20 },
	{ "hears that one is ready", COMES, CK_ROUNDS_READY, 5, 20 },
	{ "proposes", GOES, CK_ROUNDS_PROPOSE, 5, 10 },
	{ "hears that one is done", COMES, CK_ROUNDS_DONE, 5, 20 },
	{ "sends over to one", GOES, CK_ROUNDS_OVER, 5, 20 },
	{ "sequencer, sends a new epoch to one", GOES, CK_ROUNDS_EPOCH, 0, 3 },
	{ "sequencer, hears of a proposal", COMES, CK_ROUNDS_PROPOSE, 0, 50 },
	{ "sequencer, sends go to one", GOES, CK_ROUNDS_GO, 0, 50 },
	{ "sequencer, in a round", BEGINS, CK_ROUNDS_GO, 0, 20 },
};

static void test_deaths(uint64_t seed)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(deaths); i++) {
		const struct death *d = &deaths[i];
		bool first = d->message == CK_ROUNDS_EPOCH;
		struct rank_plan plan = { .seed = seed + i,
					  .rounds = 60,
					  .until = first ? ENOUGH : LATER_EPOCH,
					  .harm = DIES,
					  .who = d->who,
					  .when = d->when,
					  .message = d->message,
					  .after = d->after };
		struct rank_result t = run_harm(d->what, plan);

		/* A later epoch than the first one has begun. */
		ok(t.epoch > RANKS || first);
	}
}

/* A rank dies or stops, and the others are not notified: only timeouts expire. All ranks
 * take part in each round, so that every later round fails, with bytes to be fetched. */
static void test_silence(uint64_t seed)
{
	static const size_t some[] = { 3, 13, 1, 8 };
	size_t n = tap_is_long() ? CK_ARRAY_SIZE(some) : 2;

	for (size_t i = 0; i < n; i++) {
		const struct death *d = &deaths[some[i]];
		struct rank_plan plan = { .seed = seed + i,
					  .rounds = 60,
					  .until = FAILURE,
					  .everybody = true,
					  .harm = STOPS,
					  .who = d->who,
					  .when = d->when,
					  .message = d->message,
					  .after = d->after };
		struct rank_result t = run_harm(d->what, plan);

		ok(t.failed > 0 && t.fetched > 0);
		/* The measured time includes the timeout. */
		ok(t.slowest >= SEEN_MSEC || !tap_is_long());
	}
}

/* Two rounds in the wrong order hang and are aborted by all ranks, and their bytes are fetched.
 * All ranks take part in both: otherwise the swap may have no effect. */
static void test_swapped(uint64_t seed)
{
	struct rank_plan plan = { .seed = seed,
				  .rounds = 12,
				  .everybody = true,
				  .harm = SWAPS,
				  .who = 3,
				  .after = 2 };
	struct rank_result t = run_harm("two rounds are swapped", plan);

	ok(t.aborts > 0 && t.failed > 0 && t.fetched > 0);
}

/* If the counts of two ranks disagree, the round is refused before it starts. */
static void test_counts(uint64_t seed)
{
	struct rank_plan plan = {
		.seed = seed, .rounds = 100, .harm = LIES, .who = 2, .after = 10
	};
	struct rank_result t = run_harm("one states other counts", plan);

	ok(t.mismatched > 0 && t.mismatched == t.failed);
	eq_u64(t.aborts + t.differ, 0);
	eq_u64(t.epoch, RANKS);
}

int main(void)
{
	uint64_t seed = tap_seed(20261);

	results = mmap(NULL, RANKS * sizeof(*results), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		return 2;
	test_random(seed);
	test_swapped(seed);
	test_counts(seed);
	test_deaths(seed);
	test_silence(seed);
	return tap_done();
}
