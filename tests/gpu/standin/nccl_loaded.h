/* SPDX-License-Identifier: MIT */
/*
 * nccl_loaded: loads the fake driver and the fake NCCL into a test; calls of NCCL have the form
 * `nc.ncclSend()`. Ranks are processes with a little shared memory and one GPU each.
 */
#ifndef STANDIN_NCCL_LOADED_H
#define STANDIN_NCCL_LOADED_H

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>

#include "loaded.h"

#include <nccl.h>

#define NCCL_CALLS(X)                                                          \
	X(ncclGetVersion)                                                      \
	X(ncclGetErrorString)                                                  \
	X(ncclGetLastError)                                                    \
	X(ncclGetUniqueId)                                                     \
	X(ncclCommInitRank)                                                    \
	X(ncclCommInitRankConfig)                                              \
	X(ncclCommGetAsyncError)                                               \
	X(ncclCommFinalize)                                                    \
	X(ncclCommDestroy)                                                     \
	X(ncclCommAbort)                                                       \
	X(ncclCommCount)                                                       \
	X(ncclCommUserRank)                                                    \
	X(ncclGroupStart)                                                      \
	X(ncclGroupEnd)                                                        \
	X(ncclSend)                                                            \
	X(ncclRecv)

static struct {
	NCCL_CALLS(DRIVER_FIELD)
} nc;

static const char *library_cuda, *library_nccl;

enum {
	RANKS = 8,   /* at most */
	SHORT = 300, /* milliseconds without an event */
	LONG = 20000 /* limit in milliseconds for each event */
};

/* Milliseconds until ranks without output are killed. */
static int patience = 3 * LONG;

/* Memory shared by the ranks. */
static struct shared {
	ncclUniqueId id;
	bool has_id;
	unsigned passed; /* barrier */
	unsigned wrong;	 /* transfers with wrong bytes */
	bool died;	 /* the fake driver or NCCL aborted a rank */
} * shared;

static inline const char *nccl_load(const char *path)
{
	static const char *const names[] = { NCCL_CALLS(DRIVER_NAME) };

	return calls_load(path, names, sizeof(names) / sizeof(names[0]), &nc);
}

static inline uint64_t msec_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- in a rank ---------------------------------------------------------------------------- */

static inline _Noreturn void rank_fails(const char *what)
{
	(void)dprintf(STDERR_FILENO, "rank fails: %s\n", what);
	_exit(9);
}

static inline void need(bool good, const char *what)
{
	if (!good)
		rank_fails(what);
}

/* The result of a call, or ncclInProgress after the time limit. */
static inline ncclResult_t comm_wait(ncclComm_t comm, uint64_t msec)
{
	uint64_t until = msec_now() + msec;
	ncclResult_t state = ncclInProgress;

	while (state == ncclInProgress && msec_now() < until) {
		need(nc.ncclCommGetAsyncError(comm, &state) == ncclSuccess,
		     "ncclCommGetAsyncError");
		(void)usleep(20);
	}
	return state;
}

/* True if all operations of the stream end in time. */
static inline bool stream_wait(CUstream stream, uint64_t msec)
{
	uint64_t until = msec_now() + msec;

	while (cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
		if (msec_now() > until)
			return false;
		(void)usleep(20);
	}
	return true;
}

static inline void barrier(unsigned ranks)
{
	unsigned mine = __atomic_add_fetch(&shared->passed, 1,
					   __ATOMIC_SEQ_CST);
	unsigned all = (mine + ranks - 1) / ranks * ranks;
	uint64_t until = msec_now() + LONG;

	while (__atomic_load_n(&shared->passed, __ATOMIC_SEQ_CST) < all) {
		need(msec_now() < until, "a barrier");
		(void)usleep(100);
	}
}

/* Rank 0 makes the identity. */
static inline ncclUniqueId id_of(int rank)
{
	uint64_t until = msec_now() + LONG;

	if (rank == 0) {
		need(nc.ncclGetUniqueId(&shared->id) == ncclSuccess, "an id");
		__atomic_store_n(&shared->has_id, true, __ATOMIC_SEQ_CST);
	}
	while (!__atomic_load_n(&shared->has_id, __ATOMIC_SEQ_CST)) {
		need(msec_now() < until, "no identity");
		(void)usleep(100);
	}
	return shared->id;
}

/* Begins a communicator without waiting for it. */
static inline ncclComm_t comm_begin(int rank, int ranks)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm;

	config.blocking = 0;
	need(nc.ncclCommInitRankConfig(&comm, ranks, id_of(rank), rank,
				       &config) == ncclInProgress,
	     "ncclCommInitRankConfig");
	return comm;
}

static inline ncclComm_t comm_of(int rank, int ranks)
{
	ncclComm_t comm = comm_begin(rank, ranks);

	need(comm_wait(comm, LONG) == ncclSuccess, "a communicator");
	return comm;
}

static inline void comm_close(ncclComm_t comm)
{
	need(nc.ncclCommFinalize(comm) == ncclInProgress, "ncclCommFinalize");
	need(comm_wait(comm, LONG) == ncclSuccess, "its end");
	need(nc.ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
}

/* Aborts a communicator, without leaks or a hang. */
static inline void comm_abort(ncclComm_t comm)
{
	need(nc.ncclCommAbort(comm) == ncclSuccess, "ncclCommAbort");
	need(stream_wait(gpu.a, LONG), "a stream after it");
}

static inline void *device_pointer(CUdeviceptr at)
{
	return (void *)(uintptr_t)at;
}

/* A call must succeed, at once or later. */
static inline void well(ncclResult_t result, ncclComm_t comm)
{
	if (result == ncclInProgress)
		result = comm_wait(comm, LONG);
	need(result == ncclSuccess, nc.ncclGetErrorString(result));
}

/* --- ranks -------------------------------------------------------------------------------- */

struct ends {
	int status[RANKS];
	char output[1024]; /* by any of them */
};

static volatile sig_atomic_t dying; /* this rank, in some thread */

/* Signal handler; abort() continues after it. */
static inline void died(int number)
{
	(void)number;
	dying = 1;
	__atomic_store_n(&shared->died, true, __ATOMIC_SEQ_CST);
}

static inline _Noreturn void rank_main(void (*run)(int rank), int rank, int out)
{
	const struct rlimit none = { 0, 0 };
	const char *why;
	char text[16];

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)signal(SIGABRT, died);
	(void)dup2(out, STDERR_FILENO);
	(void)snprintf(text, sizeof(text), "%d", rank);
	(void)setenv("NCCL_HOSTID", text, 0);
	(void)setenv("CKPTFS_STANDIN_SEED", text, 0);
	why = driver_load(library_cuda);
	need(!why, why);
	why = nccl_load(library_nccl);
	need(!why, why);
	gpu_begin();
	run(rank);
	gpu_end();
	need(cu.standin_leaks() == 0, "something is left");
	exit(0);
}

/* Reads the output of all ranks, and kills those that have not ended in time. */
static inline void output_read(int fd, struct ends *ends, const pid_t *pids,
			       int ranks)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	size_t len = 0;

	for (;;) {
		ssize_t n = -1;

		if (poll(&polled, 1, patience) > 0)
			n = read(fd, ends->output + len,
				 sizeof(ends->output) - 1 - len);
		for (int i = 0; n < 0 && i < ranks; i++)
			(void)kill(pids[i], SIGKILL);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	ends->output[len] = '\0';
}

/* Runs ranks until all have ended. The caller must not have other threads. */
static inline struct ends ranks_run(void (*run)(int rank), int ranks)
{
	struct ends ends = { 0 };
	pid_t pids[RANKS];
	int pipes[2];

	memset(shared, 0, sizeof(*shared));
	(void)fflush(stdout);
	if (pipe(pipes) != 0)
		abort();
	for (int i = 0; i < ranks; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			rank_main(run, i, pipes[1]);
	}
	close(pipes[1]);
	output_read(pipes[0], &ends, pids, ranks);
	close(pipes[0]);
	for (int i = 0; i < ranks; i++)
		if (waitpid(pids[i], &ends.status[i], 0) != pids[i])
			abort();
	return ends;
}

static inline bool ends_well(void (*run)(int rank), int ranks)
{
	struct ends ends = ranks_run(run, ranks);
	bool good = true;

	for (int i = 0; i < ranks; i++) {
		good = good && ends.status[i] == 0;
		if (ends.status[i])
			printf("# rank %d: status %x\n", i,
			       (unsigned)ends.status[i]);
	}
	if (!good)
		printf("# output: %.*s\n", (int)strcspn(ends.output, "\n"),
		       ends.output);
	return good;
}

/* True if one rank is aborted with the expected message. */
static inline bool ends_with(void (*run)(int rank), int ranks,
			     const char *expected)
{
	struct ends ends = ranks_run(run, ranks);
	bool good = false;

	for (int i = 0; i < ranks; i++)
		good |= WIFSIGNALED(ends.status[i]) &&
			WTERMSIG(ends.status[i]) == SIGABRT;
	good = good && strstr(ends.output, expected);
	if (!good)
		printf("# output: %.*s\n", (int)strcspn(ends.output, "\n"),
		       ends.output);
	return good;
}

static inline bool ranks_begin(int argc, char **argv)
{
	if (argc != 3)
		return false;
	library_cuda = argv[1];
	library_nccl = argv[2];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared != MAP_FAILED;
}

#endif
