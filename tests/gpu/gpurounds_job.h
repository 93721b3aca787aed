/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_job: runs the ranks of a job (gpurounds_rank.h) as processes, and collects their
 * results. The plugin is linked into the test, which may wrap the functions that it calls.
 */
#ifndef GPUROUNDS_JOB_H
#define GPUROUNDS_JOB_H

#include "gpurounds_rank.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
	JOB_MSEC =
		90000, /* limit of the whole job, and of each round of a rank */
	EACH_MSEC = 20,
};

static struct grank_result *results; /* of all ranks */
static int statuses[GRANK_MOST];
/* The time at which the stop or the end of a rank was detected. */
static uint64_t harmed[GRANK_MOST];
/* Duration of a stop. If it waits for others, the stop lasts until one of them reports a failed
 * round. */
static uint64_t job_stop_msec = 2500;
static bool job_waits_for_others;
/* If not NULL: 64 bytes that receive the directory of the job's sockets. */
static char *job_place;
static const char *library_nccl;

static inline _Noreturn void job_rank(const char *directory, uint32_t rank,
				      uint32_t ranks,
				      const struct grank_plan *plan)
{
	const struct rlimit none = { 0, 0 };
	char text[16];

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(text, sizeof(text), "%u", rank);
	(void)setenv("NCCL_HOSTID", text, 1);
	(void)setenv("CKPTFS_STANDIN_SEED", text, 0);
	(void)setenv("CKPTFS_NCCL_LIB", library_nccl, 1);
	grank_run(directory, rank, ranks, plan, &results[rank]);
	exit(0);
}

static inline bool is_known(void)
{
	for (unsigned i = 0; i < GRANK_MOST; i++)
		if (results[i].failed_at)
			return true;
	return false;
}

/* Continues a stopped rank after a while; it then kills itself. Returns true if the rank has
 * ended. */
static inline bool job_look_after(pid_t pid, uint32_t rank)
{
	int *status = &statuses[rank];
	bool changed = waitpid(pid, status, WNOHANG | WUNTRACED) == pid;

	if (changed && !harmed[rank])
		harmed[rank] = now_msec();
	if (changed && !WIFSTOPPED(*status))
		return true;
	if (harmed[rank] && (now_msec() - harmed[rank] >= job_stop_msec ||
			     (job_waits_for_others && is_known())))
		(void)kill(pid, SIGCONT);
	return false;
}

static inline void job_wait(pid_t *pids, uint32_t ranks, uint64_t rounds)
{
	uint64_t end = now_msec() + JOB_MSEC + rounds * EACH_MSEC;
	uint32_t left = ranks;

	memset(harmed, 0, sizeof(harmed));
	while (left) {
		for (uint32_t i = 0; i < ranks; i++) {
			if (pids[i] > 0 && now_msec() > end)
				(void)kill(pids[i], SIGKILL);
			if (pids[i] > 0 && job_look_after(pids[i], i)) {
				pids[i] = 0;
				left--;
			}
		}
		usleep(2000);
	}
}

/* The caller must not have other threads. */
static inline void job_run(const struct grank_plan *plan, uint32_t ranks)
{
	char directory[64];
	pid_t pids[GRANK_MOST];

	memset(results, 0, GRANK_MOST * sizeof(*results));
	xport_directory(directory);
	if (job_place)
		memcpy(job_place, directory, sizeof(directory));
	fflush(stdout);
	for (uint32_t i = 0; i < ranks; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			abort();
		if (pids[i] == 0)
			job_rank(directory, i, ranks, plan);
	}
	job_wait(pids, ranks, plan->rounds.rounds);
	for (uint32_t i = 0; i < ranks; i++) {
		char name[80];

		if (statuses[i])
			printf("# rank %u: status %x\n", i,
			       (unsigned)statuses[i]);
		(void)snprintf(name, sizeof(name), "%s/%u", directory, i);
		(void)unlink(
			name); /* left by a rank killed before it connected */
	}
	(void)rmdir(directory);
	if (job_place)
		*job_place = '\0';
}

/* Sums the results of all ranks; times are those of the slowest rank. */
static inline struct grank_result job_sum(uint32_t ranks)
{
	struct grank_result t = { .over = true };

	for (uint32_t i = 0; i < ranks; i++) {
		const struct grank_result *r = &results[i];

		t.good += r->good;
		t.failed += r->failed;
		t.busy += r->busy;
		t.parts += r->parts;
		t.works += r->works;
		t.later += r->later;
		t.bytes += r->bytes;
		t.wrong += r->wrong;
		t.aborts += r->aborts;
		t.epoch = ck_max(t.epoch, r->epoch);
		t.slowest = ck_max(t.slowest, r->slowest);
		t.leaks += r->leaks;
		t.over &= r->over;
	}
	return t;
}

static inline void job_print(const char *what, const struct grank_result *t,
			     uint64_t since)
{
	printf("# %s: %" PRIu64 " rounds good, %" PRIu64 " failed, %" PRIu64
	       " busy; %" PRIu64 " parts, %" PRIu64 " aborted, %" PRIu64
	       " in later epochs; %" PRIu64 " works, %" PRIu64
	       " bytes, %" PRIu64 " wrong; %" PRIu64
	       " ms at most; epoch %" PRIu64 "; %" PRIu64 " ms\n",
	       what, t->good, t->failed, t->busy, t->parts, t->aborts, t->later,
	       t->works, t->bytes, t->wrong, t->slowest, t->epoch,
	       now_msec() - since);
}

static inline bool job_begin(int argc, char **argv)
{
	if (argc != 2)
		return false;
	library_nccl = argv[1];
	results = mmap(NULL, GRANK_MOST * sizeof(*results),
		       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	return results != MAP_FAILED;
}

#endif
