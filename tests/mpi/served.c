/* SPDX-License-Identifier: MIT */
/*
 * served: one rank of a job in which each rank has the same files. A client of the first rank
 * requests them from all ranks, and compares each byte, like ranks_test.c over sockets. Rank 1
 * may be stopped for a while, or killed.
 *
 *	served PLUGIN DIRECTORY all|stopped|killed
 *
 * DIRECTORY is an empty directory of the job, for process ids and a file that ends the ranks.
 */
#include "link_case.h"
#include "mpi_rank.h"

#include "base/system/privileges.h"

#include <signal.h>

enum {
	VICTIM = 1,
	JOB_RANKS = 16,
	HANGS_MSEC = 120000, /* limit for each event, on any machine */
};

static const char *plugin, *job;

static void job_path(char out[static 300], const char *name, unsigned rank)
{
	(void)snprintf(out, 300, "%s/%s.%u", job, name, rank);
}

static void put_pid(uint32_t rank)
{
	char path[300], part[300];
	FILE *f;

	job_path(path, "pid", rank);
	job_path(part, "part", rank);
	f = fopen(part, "w");
	if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f) ||
	    rename(part, path))
		abort();
}

static pid_t pid_of(uint32_t rank)
{
	char path[300];
	int pid = 0;
	FILE *f;

	job_path(path, "pid", rank);
	for (unsigned i = 0; i < HANGS_MSEC / 5 && access(path, F_OK); i++)
		msec_sleep(5);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%d", &pid) != 1 || pid <= 1)
		abort();
	fclose(f);
	return pid;
}

/* --- a rank ---------------------------------------------------------------------------- */

struct member {
	struct joined *j;
	int stop[2];
	sem_t opened;
	uint32_t rank, size;
	uint64_t closed; /* duration of the end of ck_serve_run(), in msec */
	pthread_t thread;
};

/* The transport belongs to this thread, which is not the main thread. */
static void *member_run(void *arg)
{
	struct member *b = arg;
	struct joined *j = b->j;

	j->serve.xport = rank_open(plugin);
	b->rank = j->serve.xport->rank;
	b->size = j->serve.xport->size;
	if (b->rank)
		j->serve.link = -1;
	j->serve.owner = owner_make();
	sem_post(&b->opened);
	j->rc = ck_serve_run(&j->serve);
	ck_file_server_free(j->serve.owner);
	return NULL;
}

static void member_start(struct member *b)
{
	*b = (struct member){ .j = joined_make() };
	if (pipe(b->stop) || sem_init(&b->opened, 0, 0))
		abort();
	b->j->serve.stop = b->stop[0];
	joined_prepare(b->j);
	if (ck_thread_start(&b->thread, member_run, b))
		abort();
	while (sem_wait(&b->opened))
		;
}

/* The rank ends for any state of the others. The long run checks the time: at once, if all ranks
 * are up. */
static void member_end(struct member *b, const char *what)
{
	uint64_t most = strcmp(what, "killed") == 0 ? 5000 : 1500;
	uint64_t from = msec_now();

	close(b->stop[1]);
	pthread_join(b->thread, NULL);
	b->closed = msec_now() - from;
	ok(b->closed < most || !tap_is_long());
	eq_err(b->j->rc, 0);
}

/* The ranks after the first one serve until the file that ends them exists. */
static void member_serve(struct member *b, const char *what)
{
	char path[300];

	job_path(path, "end", 0);
	while (access(path, F_OK))
		msec_sleep(10);
	member_end(b, what);
}

static void tell_end(void)
{
	char path[300];
	FILE *f;

	job_path(path, "end", 0);
	f = fopen(path, "w");
	if (!f || fclose(f))
		abort();
}

/* --- the first rank, and the link -------------------------------------------------------- */

/* Reads the files from all ranks, one after the other. */
static void look(struct joined *j, uint32_t among)
{
	struct ck_location files[FILES];

	for (unsigned i = 0; i < FILES; i++) {
		joined_look_until(j, (i + 1) % among);
		files[i] = j->files[i];
	}
	memcpy(j->files, files, sizeof(files));
}

/* faulty: silence is a fault, which a busy machine may cause, too: then all reads are retried. */
static void test_all(struct joined *j, bool faulty)
{
	struct movers m = { .j = j,
			    .may_fail = faulty,
			    .trips = TAP_SLOW ? 30 : 100,
			    .random = tap_seed(1) };
	uint64_t end = msec_now() + HANGS_MSEC;
	pthread_t threads[MOVERS];

	do {
		m.good = m.failed = 0;
		movers_start(&m, threads);
		movers_join(threads);
	} while (m.failed && faulty && msec_now() < end);
	eq_u64(m.wrong, 0);
	eq_u64(m.failed, 0);
	ok(m.good >= MOVERS * m.trips);
}

/* The limit of a wait; only the long run uses the real one. */
static uint64_t within(uint64_t msec)
{
	return tap_is_long() ? msec : HANGS_MSEC;
}

/* True if the counter soon reaches `least`. */
static bool goes_on(const unsigned *counter, unsigned least)
{
	uint64_t end = msec_now() + within(5000);
	unsigned before = __atomic_load_n(counter, __ATOMIC_RELAXED), more = 0;

	while (more < least && msec_now() < end) {
		msec_sleep(10);
		more = __atomic_load_n(counter, __ATOMIC_RELAXED) - before;
	}
	return more >= least;
}

/* Reads from a silent rank fail after a timeout, and reads from other ranks continue. */
static void test_silent(struct joined *j, int signal)
{
	struct movers m = { .j = j, .may_fail = true, .random = tap_seed(2) };
	pid_t pid = pid_of(VICTIM);
	pthread_t threads[MOVERS];

	movers_start(&m, threads);
	msec_sleep(30);
	kill(pid, signal);
	ok(is_up_within(j->link, VICTIM, false, within(6000)));
	ok(goes_on(&m.good, 20));
	ok(goes_on(&m.failed, 1));
	if (signal == SIGSTOP) {
		kill(pid, SIGCONT);
		ok(is_up_within(j->link, VICTIM, true, within(6000)));
	}
	__atomic_store_n(&m.ending, true, __ATOMIC_RELAXED);
	movers_join(threads);
	eq_u64(m.wrong, 0);
	ok(m.longest < 7000 || !tap_is_long());
}

static void test_first(struct member *b, const char *what)
{
	struct joined *j = b->j;

	j->options.calls.npeers = b->size;
	/* A short limit detects the fault; a long one avoids false faults on a busy machine. */
	j->options.calls.silence_msec = tap_is_long()		   ? 1500
					: strcmp(what, "all") == 0 ? HANGS_MSEC
								   : 5000;
	j->options.calls.timeout_msec = tap_is_long() ? 3000 : HANGS_MSEC;
	if (ck_link_make(&j->options, &j->link))
		abort();
	ck_remote_client_init(
		&j->requester,
		&(struct ck_routes){ .calls = ck_link_calls(j->link),
				     .files = j->files,
				     .n = FILES });
	look(j, b->size);
	if (strcmp(what, "stopped") == 0)
		test_silent(j, SIGSTOP);
	else if (strcmp(what, "killed") == 0)
		test_silent(j, SIGKILL);
	/* A rank that was stopped for a while works again. */
	if (strcmp(what, "killed"))
		test_all(j, strcmp(what, "stopped") == 0);
	ck_link_free(j->link);
	ck_remote_client_fini(&j->requester);
	member_end(b, what);
	tell_end();
}

/* Drops privileges in the way of a worker. */
static void drop_privileges(void)
{
	struct ck_diag d = { 0 };

	if (geteuid() == 0 &&
	    ck_privileges_drop(CK_ROLE_READER, CK_SOCKETS_ALL, &d))
		abort();
}

int main(int argc, char **argv)
{
	struct member b;

	if (argc != 4)
		return 2;
	plugin = argv[1];
	job = argv[2];
	dir_make();
	drop_privileges();
	member_start(&b);
	put_pid(b.rank);
	if (b.rank == 0)
		test_first(&b, argv[3]);
	else
		member_serve(&b, argv[3]);
	printf("# rank %u: closed in %u msec\n", b.rank, (unsigned)b.closed);
	dir_remove();
	rank_end(b.rank, b.size, tap_failed == 0);
}
