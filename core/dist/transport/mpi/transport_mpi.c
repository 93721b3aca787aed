/* SPDX-License-Identifier: MIT */
/*
 * transport_mpi: the MPI transport (mpi_load.h, transport.h; messages:
 * mpi_internal.h).
 *
 * MPI makes progress only when it is called, and wakes no thread. So wait()
 * polls it in a loop: continuously while something is in flight, and less and
 * less often, with sleeps up to 2 ms, when idle. Only the thread that opened
 * the transport calls MPI. After open() and gather() no call waits for other
 * ranks.
 */
#include "dist/transport/mpi_load.h"
#include "mpi_internal.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>

/* In ns. */
enum {
	USEC = 1000,
	MSEC = 1000 * USEC,
	SPIN = 50 * USEC, /* polls without a break so long after an event */
	YIELD = 1 * MSEC, /* then yields the processor between polls */
	YIELD_BUSY = 5 * MSEC, /* the same while messages are in flight */
	SLEEP_LEAST = 50 * USEC,
	SLEEP_MOST = 2 * MSEC,
	/* interval for descriptors while it does not sleep */
	POLL_EVERY = 20 * USEC,
};

enum {
	CLOSE_MSEC = 2000,
	MEET_MSEC = 500, /* time to meet all ranks before MPI_Finalize() */
};

static struct ck_mpi *mpi_of(struct ck_transport *x)
{
	return (struct ck_mpi *)x;
}

static uint64_t nsec_now(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A collective call: the only one that waits for other ranks after open(). */
static int mpi_gather(struct ck_transport *x, const void *data, size_t len,
		      void *all)
{
	struct ck_mpi *m = mpi_of(x);
	int n = (int)len;

	return len > INT_MAX || MPI_Allgather(data, n, MPI_BYTE, all, n,
					      MPI_BYTE,
					      m->control) != MPI_SUCCESS
		       ? -EIO
		       : 0;
}

/* --- the caller's functions ----------------------------------------------- */

static void mpi_send(struct ck_transport *x, struct ck_parcel *p)
{
	struct ck_mpi *m = mpi_of(x);

	if (p->to >= x->size || m->ranks[p->to].dropped)
		ck_parcels_push(&m->b.refused, p);
	else
		ck_parcels_push(
			p->to == x->rank ? &m->b.own : &m->ranks[p->to].out, p);
}

static int mpi_expect(struct ck_transport *x, uint32_t from, uint64_t id,
		      uint8_t *to, uint64_t len)
{
	struct ck_mpi *m = mpi_of(x);

	if (from >= x->size || m->ranks[from].dropped)
		return 0;
	return ck_transport_expect(&m->b, from, id, to, len);
}

void ck_mpi_drop(struct ck_mpi *m, uint32_t rank)
{
	struct ck_mpi_rank *r = &m->ranks[rank];

	if (r->dropped)
		return;
	r->dropped = true;
	r->when = ck_msec_now();
	m->active = true;
	ck_transport_forget(&m->b, rank);
	for (unsigned i = 0; i < CK_MPI_INCOMING; i++)
		if (r->incoming[i].pieces == 0)
			r->incoming[i].to = NULL;
}

static void mpi_drop(struct ck_transport *x, uint32_t rank)
{
	if (rank < x->size && rank != x->rank)
		ck_mpi_drop(mpi_of(x), rank);
}

/* --- one iteration -------------------------------------------------------- */

/* True if lost() may be called: no receive into the user's memory is in flight,
 * and MPI holds no parcel, or has held one for too long. */
static bool is_quiet(const struct ck_mpi_rank *r)
{
	return r->awaited == 0 &&
	       (r->parcels_out == 0 || ck_msec_now() - r->when > CK_MPI_LINGER);
}

/* Drives the end of a dropped rank: refuses its parcels, sends the goodbye,
 * calls lost(). */
static int settle(struct ck_mpi *m, uint32_t i)
{
	struct ck_mpi_rank *r = &m->ranks[i];
	int rc = 0;

	if (!r->dropped || i == m->b.x.rank)
		return 0;
	ck_mpi_refuse(m, i);
	if (!r->bye_sent && r->parcels_out == 0)
		rc = ck_mpi_send_bye(m, i);
	if (rc == 0 && !r->reported && is_quiet(r)) {
		r->reported = true;
		m->b.called = true;
		m->b.x.lost(m->b.x.arg, i);
	}
	return rc;
}

/* Does all that is possible now, without waiting. */
static int turn(struct ck_mpi *m)
{
	int rc;

	ck_transport_refuse(&m->b, &m->b.refused);
	ck_transport_deliver_own(&m->b);
	rc = ck_mpi_test(m);
	if (rc == 0)
		rc = ck_mpi_receive(m);
	for (uint32_t i = 0; rc == 0 && i < m->b.x.size; i++) {
		rc = ck_mpi_deliver(m, i);
		if (rc == 0)
			rc = settle(m, i);
		if (rc == 0)
			rc = ck_mpi_send(m, i);
	}
	return rc;
}

/* --- waiting -------------------------------------------------------------------------------------- */

/* True if messages are in flight whose progress depends on other ranks. */
static bool is_busy(const struct ck_mpi *m)
{
	return m->nrequests || m->b.nexpected;
}

/* How long to sleep after a poll, in ns; 0 for not at all. An idle rank without
 * requests from others is woken by a descriptor. */
static uint64_t sleep_nsec(const struct ck_mpi *m, uint64_t now)
{
	uint64_t idle = now - m->active_at;
	bool busy = is_busy(m);

	if (idle < YIELD_BUSY && busy)
		return 0;
	if (idle < YIELD && !busy && now - m->asked_at < YIELD)
		return 0;
	return ck_min(ck_max(idle / (busy ? 64 : 8), SLEEP_LEAST), SLEEP_MOST);
}

static int prepare_poll(struct ck_mpi *m, const struct pollfd *also, nfds_t n)
{
	struct pollfd *p = ck_grow(m->polled, &m->polled_cap, 1, n, sizeof(*p));

	if (!p)
		return -ENOMEM;
	m->polled = p;
	p[0] = (struct pollfd){ .fd = m->b.event, .events = POLLIN };
	for (nfds_t i = 0; i < n; i++)
		p[i + 1] = also[i];
	return 0;
}

/* Waits up to nsec for descriptors. Returns 1 if one is ready or wake() was
 * called, 0 if not, or a negative errno. */
static int look(struct ck_mpi *m, struct pollfd *also, nfds_t n, uint64_t nsec)
{
	struct timespec t = { .tv_nsec = (long)nsec };
	int rc = ppoll(m->polled, n + 1, &t, NULL);

	m->polled_at = nsec_now();
	if (rc < 0)
		return errno == EINTR ? 0 : -errno;
	for (nfds_t i = 0; i < n; i++)
		also[i].revents = m->polled[i + 1].revents;
	if (m->polled[0].revents && !ck_event_drain(m->b.event))
		return rc > 1;
	return rc > 0;
}

/* Sleeps or yields after an iteration, depending on the time since the last
 * event. Returns as look(). */
static int rest(struct ck_mpi *m, struct pollfd *also, nfds_t n, uint64_t end)
{
	uint64_t now = nsec_now(), nsec;

	if (m->active || m->b.called)
		m->active_at = now;
	if (m->asked)
		m->asked_at = now;
	m->active = m->asked = false;
	nsec = sleep_nsec(m, now);
	if (m->b.called || m->b.own.first || m->b.refused.first)
		nsec = 0;
	if (nsec || now - m->polled_at >= POLL_EVERY)
		return look(m, also, n, ck_min(nsec, end - ck_min(now, end)));
	if (!m->b.called && now - m->active_at > SPIN)
		(void)sched_yield();
	return 0;
}

static int mpi_wait(struct ck_transport *x, struct pollfd *also, nfds_t n,
		    int msec)
{
	struct ck_mpi *m = mpi_of(x);
	uint64_t end = msec < 0 ? UINT64_MAX
				: nsec_now() + (uint64_t)msec * MSEC;
	int rc = prepare_poll(m, also, n);

	for (nfds_t i = 0; i < n; i++)
		also[i].revents = 0;
	m->b.called = false;
	if (msec == 0)
		m->polled_at = 0;
	while (rc == 0) {
		rc = turn(m);
		if (rc == 0)
			rc = rest(m, also, n, end);
		if (rc == 0)
			rc = m->b.called || nsec_now() >= end;
	}
	return rc < 0 ? rc : 0;
}

/* --- end ------------------------------------------------------------------ */

/* True if both goodbyes have been exchanged with a rank. */
static bool is_over(const struct ck_mpi_rank *r)
{
	return r->deaf ||
	       (r->bye_received && r->bye_matched && r->parcels_out == 0);
}

static bool are_over(const struct ck_mpi *m)
{
	for (uint32_t i = 0; i < m->b.x.size; i++)
		if (i != m->b.x.rank && !is_over(&m->ranks[i]))
			return false;
	return true;
}

/* Continues until all ranks have sent their goodbye, or CLOSE_MSEC is over:
 * some may be dead. */
static void send_goodbyes(struct ck_mpi *m)
{
	uint64_t end = nsec_now() + (uint64_t)CLOSE_MSEC * MSEC;

	while (!are_over(m) && nsec_now() < end) {
		m->b.called = false;
		if (turn(m) || rest(m, NULL, 0, end) < 0)
			break;
	}
}

/* True if all ranks have reached this point, or do so within MEET_MSEC. A rank
 * that answers goodbyes may still be working, and one that broke the protocol
 * may do anything. */
static bool are_all_here(const struct ck_mpi *m)
{
	uint64_t end = nsec_now() + (uint64_t)MEET_MSEC * MSEC;
	MPI_Request met;
	int here = 0;

	for (uint32_t i = 0; i < m->b.x.size; i++)
		if (i != m->b.x.rank && m->ranks[i].deaf)
			return false;
	if (!are_over(m) || MPI_Ibarrier(m->control, &met))
		return false;
	while (!here && nsec_now() < end) {
		(void)sched_yield();
		if (MPI_Test(&met, &here, MPI_STATUS_IGNORE))
			return false;
	}
	return here;
}

static void mpi_free(struct ck_mpi *m)
{
	for (uint32_t i = 0; i < m->b.x.size; i++)
		ck_mpi_receives_free(m, i);
	ck_mpi_requests_free(m);
	ck_transport_base_fini(&m->b);
	free(m->polled);
	free(m);
}

static void mpi_close(struct ck_transport *x)
{
	struct ck_mpi *m = mpi_of(x);
	bool all = false;

	for (uint32_t i = 0; i < x->size; i++) {
		ck_mpi_drop(m, i);
		m->ranks[i].reported = true;
	}
	ck_transport_refuse(&m->b, &m->b.own);
	if (prepare_poll(m, NULL, 0) == 0)
		send_goodbyes(m);
	all = are_all_here(m);
	ck_mpi_abandon(m);
	if (all)
		(void)MPI_Finalize();
	for (uint32_t i = 0; i < x->size; i++)
		ck_mpi_refuse(m, i);
	ck_transport_refuse_rest(&m->b);
	mpi_free(m);
}

/* --- start ---------------------------------------------------------------- */

/* A function of OpenMPI 4.1 and 5 that reports events to the user. 4.1 sends
 * them to mpirun, which may crash when a lost rank is reported
 * (pmix_server_log_fn). */
extern int (*opal_show_help)(const char *file, const char *topic,
			     bool want_head, ...) __attribute__((weak));

static int show_topic(const char *file, const char *topic, bool want_head, ...)
{
	static char *last; /* topics are repeated */

	(void)want_head;
	if (last && strcmp(last, topic) == 0)
		return 0;
	free(last);
	last = strdup(topic);
	fprintf(stderr, "ckptfs: MPI: %s: %s\n", file, topic);
	return 0;
}

/* Sets defaults of MPI that the environment does not set:
 * - RDMAV_FORK_SAFE: without it, verbs break when this process forks.
 * - single_copy_mechanism, smsc: process_vm_readv() between ranks of one host
 *   is forbidden here (privileges.c). Each message would first fail with a
 *   warning.
 * - async_mpi_finalize: close() meets all ranks before MPI_Finalize(). A second
 *   barrier in MPI would never end if a rank has given up the first one. */
static int prepare_mpi(struct ck_diag *d)
{
	static const char *const defaults[][2] = {
		{ "RDMAV_FORK_SAFE", "1" },
		{ "OMPI_MCA_btl_vader_single_copy_mechanism", "none" },
		{ "OMPI_MCA_smsc", "^cma" }, /* since 5.0 */
		{ "OMPI_MCA_async_mpi_finalize", "1" },
	};

	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (setenv(defaults[i][0], defaults[i][1], 0))
			return ck_fail(d, errno, "setenv: %s", strerror(errno));
	return 0;
}

static int begin_mpi(struct ck_diag *d)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int level, len, begun, rc;

	(void)MPI_Initialized(&begun);
	if (begun)
		return ck_fail(d, EALREADY,
			       "MPI was begun in this process before");
	rc = prepare_mpi(d);
	if (rc)
		return rc;
	rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
	if (rc == MPI_SUCCESS && &opal_show_help)
		opal_show_help = show_topic;
	if (rc == MPI_SUCCESS && level >= MPI_THREAD_FUNNELED)
		return 0;
	if (rc != MPI_SUCCESS)
		(void)MPI_Error_string(rc, text, &len);
	return ck_fail(d, EIO, "MPI cannot be begun: %s",
		       rc ? ck_show(ck_str_from(text)) : "it has no threads");
}

static struct ck_mpi *make(int rank, int size)
{
	struct ck_mpi *m =
		calloc(1, sizeof(*m) + (size_t)size * sizeof(m->ranks[0]));

	if (!m)
		return NULL;
	m->b.x = (struct ck_transport){ .rank = (uint32_t)rank,
					.size = (uint32_t)size,
					.gather = mpi_gather,
					.send = mpi_send,
					.expect = mpi_expect,
					.wait = mpi_wait,
					.drop = mpi_drop,
					.wake = ck_transport_wake,
					.close = mpi_close };
	return m;
}

/* Connects all ranks: each sends to all higher ranks, and waits for all lower
 * ones, so that one side makes each connection. OpenMPI over TCP connects
 * lazily, and occasionally loses messages without an error when both sides
 * connect at once. */
static bool connect_all(int rank, int size)
{
	MPI_Request *all = calloc((size_t)size, sizeof(MPI_Request));
	int n = 0, rc = all ? MPI_SUCCESS : MPI_ERR_NO_MEM;

	for (int i = 0; i < size && rc == MPI_SUCCESS; i++) {
		if (i < rank)
			rc = MPI_Irecv(NULL, 0, MPI_BYTE, i, 0, MPI_COMM_WORLD,
				       &all[n++]);
		else if (i > rank)
			rc = MPI_Isend(NULL, 0, MPI_BYTE, i, 0, MPI_COMM_WORLD,
				       &all[n++]);
	}
	if (rc == MPI_SUCCESS)
		rc = MPI_Waitall(n, all, MPI_STATUSES_IGNORE);
	free(all);
	return rc == MPI_SUCCESS;
}

static bool make_communicators(struct ck_mpi *m)
{
	return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) ==
		       MPI_SUCCESS &&
	       connect_all((int)m->b.x.rank, (int)m->b.x.size) &&
	       MPI_Comm_dup(MPI_COMM_WORLD, &m->control) == MPI_SUCCESS &&
	       MPI_Comm_dup(MPI_COMM_WORLD, &m->bulk) == MPI_SUCCESS;
}

static int mpi_open(struct ck_transport **out, struct ck_diag *d)
{
	struct ck_mpi *m;
	int rank, size, rc = begin_mpi(d);

	if (rc)
		return rc;
	if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
	    MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS)
		return ck_fail(d, EIO, "MPI does not say which rank this is");
	m = make(rank, size);
	rc = m ? ck_transport_base_init(&m->b) : -ENOMEM;
	if (rc) {
		free(m);
		return ck_fail(d, -rc, "MPI transport: %s", strerror(-rc));
	}
	if (!make_communicators(m)) {
		mpi_free(m);
		return ck_fail(d, EIO, "MPI cannot make a communicator");
	}
	*out = &m->b.x;
	return 0;
}

__attribute__((visibility(
	"default"))) extern const struct ck_transport_plugin ckptfs_xport;
const struct ck_transport_plugin ckptfs_xport = {
	.version = CK_TRANSPORT_PLUGIN_VERSION,
	.program = CK_VERSION,
	.open = mpi_open,
};
