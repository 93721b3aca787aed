/* SPDX-License-Identifier: MIT */
/*
 * ranks: a job of several processes with the same files, and a link to the first rank.
 * The test reads from all ranks, kills some of them, and has a rank without a file server.
 */
#include "link_case.h"
#include "xport_local.h"

#include <signal.h>
#include <sys/stat.h>

enum { WAIT_MSEC = 60000 }; /* limit of each wait of the test */

enum { RANKS = 4 };

struct ranks {
	struct joined *j; /* with rank 0 */
	pid_t pids[RANKS];
	int stop; /* write end of a pipe; the ranks end when it is closed */
	uint32_t n;
	uint32_t killed_too; /* second killed rank, or 0 */
};

static char mesh[sizeof(dir) + 5];

static void rank_serve(struct joined *j, uint32_t rank, uint32_t n, int stop,
		       bool offers)
{
	j->serve.stop = stop;
	if (ck_transport_local(mesh, rank, n, 60000, &j->serve.xport))
		_exit(2);
	j->serve.owner = offers ? owner_make() : NULL;
	_exit(ck_serve_run(&j->serve) != 0);
}

static void rank_start(struct ranks *r, uint32_t rank, const int stop[2],
		       bool offers)
{
	fflush(stdout);
	r->pids[rank] = fork();
	if (r->pids[rank] < 0)
		abort();
	if (r->pids[rank])
		return;
	close(stop[1]);
	close(r->j->options.sock);
	if (rank) {
		close(r->j->serve.link);
		r->j->serve.link = -1;
	}
	rank_serve(r->j, rank, r->n, stop[0], offers);
}

/* Starts n ranks. The last one has a file server only if `last_offers`. */
static void ranks_start(struct ranks *r, uint32_t n, bool last_offers)
{
	int stop[2];

	*r = (struct ranks){ .j = joined_make(), .n = n };
	r->j->options.calls.npeers = n;
	joined_prepare(r->j);
	if (pipe(stop))
		abort();
	for (uint32_t i = 0; i < n; i++)
		rank_start(r, i, stop, i + 1 < n || last_offers);
	close(stop[0]);
	close(r->j->serve.link);
	close(r->j->serve.memory);
	r->stop = stop[1];
	if (ck_link_make(&r->j->options, &r->j->link))
		abort();
	ck_remote_client_init(
		&r->j->requester,
		&(struct ck_routes){ .calls = ck_link_calls(r->j->link),
				     .files = r->j->files,
				     .n = FILES });
}

/* Looks up the files, each at the next rank of the first `among`. Returns 0 or an error. */
static int ranks_look(struct ranks *r, uint32_t among)
{
	struct ck_location files[FILES];

	for (unsigned i = 0; i < FILES; i++) {
		int rc = joined_look(r->j, i % among);

		if (rc)
			return rc;
		files[i] = r->j->files[i];
	}
	memcpy(r->j->files, files, sizeof(files));
	return 0;
}

/* Ends the job and checks each exit status. `killed` is the killed rank, or r->n if no
 * rank was killed. */
static void ranks_end(struct ranks *r, uint32_t killed)
{
	int status;

	ck_link_free(r->j->link);
	ck_remote_client_fini(&r->j->requester);
	close(r->stop);
	for (uint32_t i = 0; i < r->n; i++) {
		if (waitpid(r->pids[i], &status, 0) != r->pids[i])
			abort();
		eq_i64(status,
		       i == killed || (i && i == r->killed_too) ? SIGKILL : 0);
	}
	free(r->j);
}

static void test_all(uint32_t n)
{
	struct ranks r;
	struct movers m = { .trips = TAP_SLOW ? 30 : 150,
			    .random = tap_seed(n) };
	pthread_t threads[MOVERS];

	ranks_start(&r, n, true);
	m.j = r.j;
	eq_err(ranks_look(&r, n), 0);
	movers_start(&m, threads);
	movers_join(threads);
	eq_u64(m.wrong, 0);
	eq_u64(m.failed, 0);
	ok(m.good >= MOVERS * m.trips);
	ranks_end(&r, n);
}

/* Waits until the counter exceeds `from`; false on timeout. */
static bool grows(const unsigned *counter, unsigned from)
{
	uint64_t end = msec_now() + WAIT_MSEC;

	while (__atomic_load_n(counter, __ATOMIC_RELAXED) <= from &&
	       msec_now() < end)
		msec_sleep(5);
	return __atomic_load_n(counter, __ATOMIC_RELAXED) > from;
}

/* Moves from a killed rank fail at once; moves from other ranks succeed. */
static void test_killed(uint32_t killed, uint64_t usec)
{
	struct ranks r;
	struct movers m = { .may_fail = true, .random = tap_seed(usec) };
	pthread_t threads[MOVERS];
	unsigned good;

	ranks_start(&r, RANKS, true);
	m.j = r.j;
	eq_err(ranks_look(&r, RANKS), 0);
	movers_start(&m, threads);
	usleep((useconds_t)usec);
	kill(r.pids[killed], SIGKILL);
	ok(is_up_within(r.j->link, killed, false, WAIT_MSEC));
	good = __atomic_load_n(&m.good, __ATOMIC_RELAXED);
	ok(grows(&m.failed, 0));
	/* All ranks are reached through rank 0. */
	ok(killed == 0 || grows(&m.good, good));
	__atomic_store_n(&m.ending, true, __ATOMIC_RELAXED);
	movers_join(threads);
	eq_u64(m.wrong, 0);
	ok(m.longest < 6000 || !tap_is_long());
	for (uint32_t i = 0; i < RANKS; i++)
		ok(ck_calls_is_up(ck_link_calls(r.j->link), i) ==
		   (killed != 0 && i != killed));
	ranks_end(&r, killed);
}

/* Every file has replicas at the ranks other than 0. While moves run and are interrupted,
 * two ranks are killed one after the other. All moves deliver the right bytes. */
static void test_copies(uint32_t first, uint32_t second)
{
	struct ck_other_place others[2 * FILES];
	struct ranks r;
	struct movers m = { .interrupts = true, .random = tap_seed(first) };
	pthread_t threads[MOVERS];
	uint32_t numbers[RANKS][FILES];

	ranks_start(&r, RANKS, true);
	m.j = r.j;
	for (uint32_t rank = 1; rank < RANKS; rank++) {
		eq_err(joined_look(r.j, rank), 0);
		for (unsigned i = 0; i < FILES; i++)
			numbers[rank][i] = r.j->files[i].number;
	}
	for (unsigned i = 0; i < 3 * FILES; i++) {
		uint32_t file = i / 3, rank = 1 + (file + i % 3) % (RANKS - 1);
		struct ck_location at = { rank, numbers[rank][file] };

		if (i % 3 == 0)
			r.j->files[file] = at;
		else
			others[2 * file + i % 3 - 1] =
				(struct ck_other_place){ file, at };
	}
	r.j->requester.routes.others = others;
	r.j->requester.routes.nothers = 2UL * FILES;
	movers_start(&m, threads);
	ok(grows(&m.good, 0));
	kill(r.pids[first], SIGKILL);
	msec_sleep(40);
	kill(r.pids[second], SIGKILL);
	ok(is_up_within(r.j->link, first, false, WAIT_MSEC));
	ok(is_up_within(r.j->link, second, false, WAIT_MSEC));
	msec_sleep(60);
	__atomic_store_n(&m.ending, true, __ATOMIC_RELAXED);
	movers_join(threads);
	eq_u64(m.wrong, 0);
	r.killed_too = second;
	ranks_end(&r, first);
}

static void test_offers_nothing(void)
{
	struct ranks r;
	struct movers m = { .trips = 20, .random = 3 };

	ranks_start(&r, 3, false);
	m.j = r.j;
	eq_err(joined_look(r.j, 2), -ENODATA);
	ok(ck_calls_is_up(ck_link_calls(r.j->link), 2));
	eq_err(ranks_look(&r, 2), 0);
	mover_run(&m);
	eq_u64(m.wrong, 0);
	eq_u64(m.failed, 0);
	/* Canary: a file of a rank without files. */
	r.j->files[0].peer = 2;
	mover_run(&m);
	ok(m.wrong > 0 && m.failed > 0);
	ranks_end(&r, 3);
}

int main(void)
{
	unsigned fds, tasks;

	dir_make();
	snprintf(mesh, sizeof(mesh), "%s/mesh", dir);
	if (mkdir(mesh, 0700))
		abort();
	fds = proc_count("fd");
	tasks = proc_count("task");
	for (uint32_t n = 1; n <= RANKS; n++)
		test_all(n);
	for (uint32_t i = 0; i < RANKS; i++)
		test_killed(i, 3000 * i + 500);
	test_copies(1, 3);
	test_copies(3, 2);
	test_offers_nothing();
	eq_u64(proc_count("fd"), fds);
	eq_u64(proc_count("task"), tasks);
	/* The ranks have removed their socket names after they connected. */
	eq_err(rmdir(mesh), 0);
	dir_remove();
	return tap_done();
}
