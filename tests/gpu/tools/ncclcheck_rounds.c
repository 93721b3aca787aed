/* SPDX-License-Identifier: MIT */
/*
 * ncclcheck_rounds: two processes on one GPU are the ranks of a job and run rounds by the code of
 * ckptfs: those of the test gpurounds, but larger, and on a real device. Then one of them dies or
 * stops in a round. The other one must detect that soon, gather its bytes from host memory, and run
 * rounds again.
 */
#define DEAL_TIMES 8

#include "gpurounds_job.h"
#include "ncclcheck.h"

enum {
	RANKS = 2,
	PREPARE_MSEC =
		4000, /* the value of a mount, see core/gpu/worker/gpurounds.c */
	ROUND_MSEC = 2000,
	KNOWN_MSEC = 10000, /* limit for detection, and for the bytes */
	AFTER_ROUNDS = 10,
	TRIES = 4,
};

static void begin(struct checks *c)
{
	static char name[sizeof(c->file)];

	memcpy(name, c->file, sizeof(name));
	library_nccl = name;
	job_place = c->place;
	results = mmap(NULL, GRANK_MOST * sizeof(*results),
		       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	if (results == MAP_FAILED)
		abort();
}

static struct grank_plan plan_of(uint64_t seed, uint64_t rounds)
{
	return (struct grank_plan){ .rounds = { .seed = seed,
						.rounds = rounds,
						.prepare_msec = PREPARE_MSEC,
						.round_msec = ROUND_MSEC } };
}

static bool have_ended_well(struct checks *c, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (statuses[i] || !results[i].over) {
			check_fails(c, "rank %u: status %x", i,
				    (unsigned)statuses[i]);
			return false;
		}
	return true;
}

/* Runs rounds of a job, which must all succeed with the right bytes. A window of one round avoids
 * that ranks block each other: a rank may need two messages, and another one may hold one. */
static bool move_rounds(struct checks *c, uint64_t rounds, const char *when)
{
	struct grank_plan plan = plan_of(c->seed, rounds);
	struct grank_result t;

	plan.rounds.everybody = true;
	plan.window = 1;
	job_run(&plan, RANKS);
	if (!have_ended_well(c, 0, RANKS))
		return false;
	t = job_sum(RANKS);
	if (t.wrong == 0 && t.failed == 0 && t.aborts == 0 &&
	    t.good == RANKS * rounds) {
		check_adds(c, ",\"%s\":%" PRIu64 ",\"%s_bytes\":%" PRIu64, when,
			   t.good, when, t.bytes);
		return true;
	}
	check_fails(c,
		    "%s: %" PRIu64 " good, %" PRIu64 " failed, %" PRIu64
		    " aborted, %" PRIu64 " with wrong bytes",
		    when, t.good, t.failed, t.aborts, t.wrong);
	return false;
}

void check_two_ranks(struct checks *c)
{
	begin(c);
	check_adds(c, ",\"seed\":%" PRIu64, c->seed);
	if (move_rounds(c, ck_max(c->rounds / RANKS, 1), "rounds"))
		check_well(c);
}

/* --- harm ------------------------------------------------------------------------------------ */

struct death {
	const char *what;
	enum harm_kind harm;
	uint32_t who; /* 0 is the sequencer */
};

/* Judges the results of the other rank after a death that aborted a round. */
static bool judge(struct checks *c, const struct death *d)
{
	uint32_t other = !d->who;
	const struct grank_result *t = &results[other];
	uint64_t known = 0;

	if (!have_ended_well(c, other, other + 1))
		return false;
	if (t->failed_at > harmed[d->who])
		known = t->failed_at - harmed[d->who];
	check_adds(c, ",\"%s_known_ms\":%" PRIu64 ",\"%s_bytes_ms\":%" PRIu64,
		   d->what, known, d->what, t->fell_slowest);
	if (t->wrong)
		check_fails(c, "%s: wrong bytes", d->what);
	else if (!t->failed_at || known > KNOWN_MSEC || t->slowest > KNOWN_MSEC)
		check_fails(c, "%s: the other rank does not know in time",
			    d->what);
	else if (t->fell_slowest > KNOWN_MSEC)
		check_fails(c, "%s: bytes do not come in time", d->what);
	else if (!t->later)
		check_fails(c, "%s: the other rank moves nothing any more",
			    d->what);
	return c->now.state != CHECK_FAILED;
}

/* Repeats the job until the death aborts a round, since some rounds do not need the dead rank. */
static bool try_death(struct checks *c, const struct death *d)
{
	struct grank_plan plan = plan_of(c->seed, 200);

	plan.rounds.everybody = true;
	plan.rounds.harm = d->harm;
	plan.rounds.who = d->who;
	plan.rounds.when = BEGINS;
	plan.rounds.message = CK_ROUNDS_GO;
	plan.rounds.after = 8;
	plan.falls_back = true;
	plan.at_once = true; /* the round cannot complete without this rank */
	for (unsigned i = 0; i < TRIES; i++) {
		plan.rounds.seed = c->seed + i;
		job_run(&plan, RANKS);
		if (!harmed[d->who] || results[d->who].over) {
			check_fails(c, "%s: rounds end before", d->what);
			return false;
		}
		if (results[!d->who].aborts && results[!d->who].fell)
			return judge(c, d);
	}
	check_fails(c, "%s: no round was aborted that was to bring bytes",
		    d->what);
	return false;
}

void check_killed(struct checks *c)
{
	static const struct death deaths[] = {
		{ "killed", DIES, 1 },
		{ "sequencer_killed", DIES, 0 },
		{ "stopped", STOPS, 1 },
	};

	begin(c);
	job_stop_msec = KNOWN_MSEC + 2000;
	job_waits_for_others = true;
	check_adds(c, ",\"seed\":%" PRIu64, c->seed);
	for (size_t i = 0; i < CK_ARRAY_SIZE(deaths); i++)
		if (!try_death(c, &deaths[i]))
			return;
	if (move_rounds(c, AFTER_ROUNDS, "rounds_after"))
		check_well(c);
}
