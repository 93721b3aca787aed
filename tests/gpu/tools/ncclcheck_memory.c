/* SPDX-License-Identifier: MIT */
/*
 * ncclcheck_memory: measures the device memory of a communicator of two ranks, after a transfer in
 * each direction: with NCCL's defaults, and with the settings and code of ckptfs. Both ranks are on
 * one GPU and synchronize for each measurement. Each has half of the decrease of the driver's free
 * memory, which includes other users of the device.
 */
#include "gpu/nccl/nccl_rounds.h"
#include "ncclcheck_use.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, BYTES = 1 << 20, WAIT_USEC = 500 };

/* Memory shared by the ranks. */
struct meeting {
	struct checks results[RANKS];
	unsigned came; /* number of calls of meet() */
	uint8_t token[CK_ROUND_TOKEN];
	size_t before, up, after; /* free bytes */
};

struct party {
	struct meeting *m;
	struct checks *c; /* of this rank */
	struct use u;
	uint32_t rank;
	CUdeviceptr from, to;
	unsigned passed;
};

/* A barrier of both ranks. If the other rank has failed, this one is killed. */
static void meet(struct party *p)
{
	p->passed += RANKS;
	(void)__atomic_add_fetch(&p->m->came, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&p->m->came, __ATOMIC_SEQ_CST) < p->passed)
		(void)usleep(WAIT_USEC);
}

/* Measures free memory while both ranks are idle. */
static bool note(struct party *p, size_t *bytes)
{
	bool good;

	meet(p);
	good = p->rank > 0 || use_free_bytes(p->c, &p->u, bytes);
	meet(p);
	return good;
}

static bool is_open(struct party *p)
{
	const struct ck_cuda *cuda = &p->u.cuda;

	return use_open(p->c, &p->u) &&
	       use_good(p->c, &p->u, cuda->cuMemAlloc(&p->from, BYTES)) &&
	       use_good(p->c, &p->u, cuda->cuMemAlloc(&p->to, BYTES));
}

/* --- with the defaults -------------------------------------------------------------------- */

static bool run_defaults(struct party *p)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;

	config.blocking = 0;
	if (!is_open(p))
		return false;
	if (p->rank == 0 &&
	    !use_nccl(p->c, &p->u, p->u.nccl.ncclGetUniqueId(&id),
		      "an identity"))
		return false;
	if (p->rank == 0)
		memcpy(p->m->token, &id, sizeof(id));
	if (!note(p, &p->m->before))
		return false;
	memcpy(&id, p->m->token, sizeof(id));
	return use_comm(p->c, &p->u, &id, RANKS, (int)p->rank, config) &&
	       use_exchange(p->c, &p->u, !p->rank, p->from, p->to, BYTES) &&
	       use_good(p->c, &p->u,
			p->u.cuda.cuStreamSynchronize(p->u.stream)) &&
	       note(p, &p->m->up) && use_end(p->c, &p->u) &&
	       note(p, &p->m->after);
}

/* --- with the settings of ckptfs ------------------------------------------------------------ */

static bool is_up(struct party *p, struct ck_nccl_rounds *rounds)
{
	int rc;

	while ((rc = rounds->is_ready(rounds)) == 0)
		(void)usleep(WAIT_USEC);
	if (rc < 0)
		check_fails(p->c, "a communicator does not come up");
	return rc == 1;
}

static bool move_round(struct party *p, struct ck_round_backend *backend)
{
	const uint32_t peer = !p->rank;
	const struct ck_gpu_transfer list[] = { { peer, true, p->from, BYTES },
						{ peer, false, p->to, BYTES } };
	struct ck_gpu_round moved = { list, CK_ARRAY_SIZE(list) };
	struct ck_round r = { .op = 1, .n = 1, .epoch = RANKS, .arg = &moved };
	int rc = backend->begin(backend, &r) ? -EIO : -EINPROGRESS;

	while (rc == -EINPROGRESS) {
		rc = backend->poll(backend, &r);
		(void)usleep(WAIT_USEC);
	}
	return rc == 0;
}

static bool run_rounds(struct party *p, struct ck_nccl_rounds *rounds)
{
	static const uint32_t members[RANKS] = { 0, 1 };
	struct ck_round_backend *backend = &rounds->backend;

	if (p->rank == 0)
		backend->token(backend, p->m->token);
	if (!note(p, &p->m->before))
		return false;
	backend->epoch(backend, RANKS, members, RANKS, p->m->token);
	if (!is_up(p, rounds))
		return false;
	if (!move_round(p, backend)) {
		check_fails(p->c, "a round is not moved");
		return false;
	}
	return note(p, &p->m->up);
}

static struct ck_nccl_rounds *make_rounds(struct party *p)
{
	struct ck_nccl_rounds *rounds;
	struct ck_diag d = { 0 };

	if (ck_nccl_rounds_make(p->u.device, p->rank, &rounds, &d))
		check_fails(p->c, "%s", d.text);
	return rounds;
}

static bool run_program(struct party *p)
{
	struct ck_nccl_rounds *rounds = NULL;

	if (is_open(p))
		rounds = make_rounds(p);
	if (!rounds || !run_rounds(p, rounds))
		return false;
	rounds->end(rounds);
	return note(p, &p->m->after);
}

/* --- both ----------------------------------------------------------------------------------------- */

static _Noreturn void run_rank(struct meeting *m, uint32_t rank,
			       bool (*run)(struct party *p))
{
	struct party p = { .m = m, .c = &m->results[rank], .rank = rank };
	char text[16];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(text, sizeof(text), "%u", rank);
	(void)setenv("NCCL_HOSTID", text, 1);
	_exit(run(&p) ? 0 : 1);
}

/* If one rank fails, kills the other one, which waits for it. */
static bool await_ranks(struct checks *c, struct meeting *m, const pid_t *pids)
{
	unsigned left = RANKS;
	bool good = true;

	while (left) {
		int status;
		pid_t pid = wait(&status);

		if (pid < 0)
			return false;
		left--;
		if (status == 0 || !good)
			continue;
		good = false;
		for (unsigned i = 0; i < RANKS; i++)
			if (pids[i] == pid && m->results[i].now.why[0])
				check_fails(c, "rank %u: %s", i,
					    m->results[i].now.why);
			else if (pids[i] == pid)
				check_fails(c, "rank %u: status %x", i,
					    (unsigned)status);
			else
				(void)kill(pids[i], SIGKILL);
	}
	return good;
}

static bool run_both(struct checks *c, struct meeting *m,
		     bool (*run)(struct party *p))
{
	pid_t pids[RANKS];

	memset(m, 0, sizeof(*m));
	for (uint32_t i = 0; i < RANKS; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			abort();
		if (pids[i] == 0)
			run_rank(m, i, run);
	}
	return await_ranks(c, m, pids);
}

/* MiB of each rank. */
static double mib(size_t before, size_t after)
{
	double bytes = (double)before - (double)after;

	/* A small negative value counts as 0. */
	return fabs(bytes) < 65536 * RANKS ? 0 : bytes / (1 << 20) / RANKS;
}

static void add_figures(struct checks *c, const char *name,
			const struct meeting *m)
{
	check_adds(c, ",\"%s_mib\":%.1f,\"%s_left_mib\":%.1f", name,
		   mib(m->before, m->up), name, mib(m->before, m->after));
}

void check_memory(struct checks *c)
{
	struct meeting *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		abort();
	if (!run_both(c, m, run_defaults))
		return;
	add_figures(c, "defaults", m);
	if (!run_both(c, m, run_program))
		return;
	add_figures(c, "program", m);
	check_adds(c, ",\"program_max_ctas\":%d", ck_nccl_config().maxCTAs);
	check_well(c);
}
