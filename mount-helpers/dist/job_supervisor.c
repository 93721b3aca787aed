/* SPDX-License-Identifier: MIT */
/*
 * job_supervisor: a process, forked by the spawn helper for each job. It probes
 * the hosts, starts mpirun, accepts the job's first rank, passes on the job's
 * output, and ends the job when the socket is closed. One thread. States:
 * probing; starting, up to TRIES_MOST times; up; ended.
 */
#include "job_supervisor.h"
#include "cli.h"
#include "cluster.h"
#include "dist/launch/rendezvous.h"
#include "dist/launch/retry_policy.h"
#include "dist/launch/subprocess.h"
#include "mpi_tmpdir.h"
#include "spawn_helper.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	COME_MSEC = 30000, /* limit for all processes to connect */
	/* the same for a job beside another one: MPI connects once, too
	 * early if a host's network is not up yet */
	AGAIN_MSEC = 8000,
	TRY_MSEC = 3000, /* limit for hosts to start a program */
	TRIES_MOST = 3,	 /* jobs until the first one is up */
	END_MSEC = 1000, /* limit to end by themselves */
	LOG_MOST = 32 << 10,
};

struct supervisor {
	struct ck_launch_options launch;
	const uint8_t *how; /* by host: enum ck_try */
	bool *there;	    /* by host: takes part */
	bool *bad;	    /* by host: no program can be started there */
	/* to the requester; if it closes the socket, everything ends */
	int sock;
	int over; /* readable when the socket is closed, or the job has ended */
	struct ck_rendezvous door;
	struct ck_mpi_tmpdir shelter;
	struct ck_subprocess job;
};

/* --- messages to the requester -------------------------------------------- */

/* Sends output. Errors are ignored: the output is lost if it is not read. */
static void send_log(const struct supervisor *k, struct ck_buf *output)
{
	for (size_t at = 0; at < output->len; at += LOG_MOST) {
		const struct ck_control_msg note = {
			.kind = CK_CONTROL_MSG_SAID,
			.bytes = { output->data + at,
				   ck_min(output->len - at, LOG_MOST) },
			.files = CK_CONTROL_MSG_NO_FILES
		};

		(void)!ck_control_msg_send(k->sock, &note, false);
	}
	output->len = 0;
}

static void pass_on(const struct supervisor *k)
{
	struct ck_buf output = { 0 };

	ck_subprocess_read(&k->job, &output);
	send_log(k, &output);
	ck_buf_fini(&output);
}

static void send_failed(const struct supervisor *k, const struct ck_diag *d)
{
	const struct ck_control_msg note = { .kind = CK_CONTROL_MSG_FAILED,
					     .err = (uint32_t)d->err,
					     .bytes = ck_str_from(d->text),
					     .files = CK_CONTROL_MSG_NO_FILES };

	(void)!ck_control_msg_send(k->sock, &note, true);
}

static int send_up(const struct supervisor *k, struct ck_cluster_links *links)
{
	const struct ck_rendezvous_link *rounds = &links->rounds;
	const struct ck_control_msg note = {
		.kind = CK_CONTROL_MSG_UP,
		.size = links->link.size,
		.bytes = { (const char *)k->there, k->launch.hosts->n },
		.files = { links->link.sock, links->link.memory, rounds->sock,
			   rounds->memory }
	};
	int rc = ck_control_msg_send(k->sock, &note, true);

	ck_cluster_links_fini(links);
	return rc;
}

/* Sends the state of each host, for the retry policy. */
static void send_tried(const struct supervisor *k)
{
	struct ck_buf tried = { 0 };
	struct ck_control_msg note = { .kind = CK_CONTROL_MSG_TRIED,
				       .files = CK_CONTROL_MSG_NO_FILES };

	for (size_t i = 0; i < k->launch.hosts->n; i++)
		ck_buf_u8(&tried, k->bad[i]	? CK_TRIED_BAD
				  : k->there[i] ? CK_TRIED_IN
						: CK_TRIED_NOT);
	note.bytes = (struct ck_str){ tried.data, tried.len };
	if (!tried.err)
		(void)!ck_control_msg_send(k->sock, &note, true);
	ck_buf_fini(&tried);
}

/* --- before the start ----------------------------------------------------- */

/* True if a host takes part that is not up already. */
static bool has_more(const struct supervisor *k)
{
	bool more = false;

	for (size_t i = 0; i < k->launch.hosts->n; i++)
		more |= k->there[i] && k->how[i] != CK_TRY_UP;
	return more;
}

/* All hosts that are up must take part. */
static int check_up(const struct supervisor *k, struct ck_diag *d)
{
	const struct ck_host_list *hosts = k->launch.hosts;

	for (size_t i = 0; i < hosts->n; i++)
		if (k->how[i] == CK_TRY_UP && !k->there[i])
			return ck_fail(d, EAGAIN,
				       "host %s is up, and has not answered",
				       hosts->hosts[i].name);
	return 0;
}

/* Suspect hosts take no part if other hosts are back. */
static void leave_out(struct supervisor *k)
{
	bool others = false;

	for (size_t i = 1; i < k->launch.hosts->n; i++)
		others |= k->there[i] && k->how[i] == CK_TRY_WANTED;
	for (size_t i = 1; i < k->launch.hosts->n; i++)
		if (k->how[i] == CK_TRY_LEFT_OUT ||
		    (others && k->how[i] == CK_TRY_SUSPECT))
			k->there[i] = false;
}

/* Probes which hosts can take part. */
static int ask(struct supervisor *k, struct ck_diag *d)
{
	struct ck_buf lines = { 0 };
	int rc = ck_launch_preflight(&k->launch, k->there, &lines, d);

	send_log(k, &lines);
	ck_buf_fini(&lines);
	if (rc == 0)
		leave_out(k);
	if (rc == 0 && !has_more(k))
		rc = ck_fail(d, EALREADY, "no host has come back");
	return rc ? rc : check_up(k, d);
}

/* --- the job -------------------------------------------------------------- */

/* Starts mpirun by way of this program, so that it is killed when this process
 * ends, also if it waits for a dead host. */
static int job_start(struct supervisor *k, char **mpirun, char **environment)
{
	static char serve[] = "serve", how[] = "--launch";
	ck_auto_free char *program = ck_subprocess_program();
	ck_auto_free char **argv = NULL;
	size_t n = 0;

	if (!program)
		return -errno;
	while (mpirun[n])
		n++;
	argv = calloc(n + 4, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	argv[0] = program;
	argv[1] = serve;
	argv[2] = how;
	memcpy(argv + 3, mpirun, n * sizeof(*argv));
	return ck_subprocess_start(argv, environment, &k->job);
}

static int run_mpirun(struct supervisor *k, struct ck_diag *d)
{
	char **argv = ck_launch_argv(&k->launch, k->there);
	char **environment = ck_launch_environment(environ);
	int rc = argv && environment ? 0 : -ENOMEM;

	if (rc == 0)
		rc = job_start(k, argv, environment);
	ck_launch_words_free(argv);
	ck_launch_words_free(environment);
	return rc ? ck_fail(d, -rc, "mpirun: %s", strerror(-rc)) : 0;
}

static int watch(int epoll, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static int watch_end(struct supervisor *k)
{
	int rc;

	k->over = epoll_create1(EPOLL_CLOEXEC);
	if (k->over < 0)
		return -errno;
	rc = watch(k->over, k->job.ended, EPOLLIN);
	return rc ? rc : watch(k->over, k->sock, EPOLLRDHUP);
}

/* Ends the job's processes, and frees its resources. */
static void job_over(struct supervisor *k)
{
	ck_subprocess_end(&k->job, END_MSEC);
	ck_fd_cleanup(&k->over);
}

/* Accepts the job's first rank, and a second connection if there are rounds. */
static int let_in(const struct supervisor *k, int msec,
		  struct ck_cluster_links *links)
{
	uint64_t end = ck_msec_now() + (uint64_t)msec, now;
	int rc = ck_rendezvous_wait(&k->door, CK_CLUSTER_MEMORY, k->over, msec,
				    &links->link);

	if (rc || !k->launch.nccl)
		return rc;
	now = ck_msec_now();
	return ck_rendezvous_wait(&k->door, CK_CLUSTER_ROUNDS, k->over,
				  now < end ? (int)(end - now) : 0,
				  &links->rounds);
}

/* Starts a job with these hosts. Returns 0; errors of ck_rendezvous_wait() if
 * mpirun runs but no rank connects; or an errno with a message. */
static int job_try(struct supervisor *k, int msec,
		   struct ck_cluster_links *links, struct ck_diag *d)
{
	int rc = ck_rendezvous_open(&k->door);

	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	k->launch.door = k->door.name;
	rc = run_mpirun(k, d);
	if (rc == 0)
		rc = watch_end(k);
	if (rc == 0)
		rc = let_in(k, msec, links);
	if (rc)
		ck_cluster_links_fini(links);
	ck_rendezvous_close(&k->door);
	return rc;
}

/* --- a failed start ------------------------------------------------------- */

/* Finds the hosts on which no program can be started, by starting the launch
 * command on each. lines: a line for each that fails. */
static void find_bad(struct supervisor *k, struct ck_buf *lines)
{
	const struct ck_host_list *hosts = k->launch.hosts;
	struct ck_launch_options launch = k->launch;
	ck_auto_free bool *good = calloc(hosts->n, sizeof(*good));

	if (!good)
		return;
	launch.ask_msec = TRY_MSEC;
	memcpy(good, k->there, hosts->n * sizeof(*good));
	if (ck_launch_try(&launch, good, lines))
		return;
	for (size_t i = 1; i < hosts->n; i++)
		k->bad[i] = k->there[i] && !good[i];
}

/* "; nothing can be started on h2, h3", or "". */
static const char *show_bad(const struct supervisor *k)
{
	const struct ck_host_list *hosts = k->launch.hosts;
	struct ck_buf names = { 0 };
	const char *text = "";

	for (size_t i = 0; i < hosts->n; i++)
		if (k->bad[i])
			ck_buf_printf(&names, "%s%s", names.len ? ", " : "",
				      hosts->hosts[i].name);
	if (names.len)
		text = ck_shown("; nothing can be started on %s", names.data);
	ck_buf_fini(&names);
	return text;
}

static int fail_with(const struct supervisor *k, int rc, int msec,
		     struct ck_diag *d)
{
	const char *bad = show_bad(k);

	if (rc == -ECHILD)
		return ck_fail(d, EIO, "mpirun: it has ended, see above%s",
			       bad);
	if (rc == -ETIMEDOUT)
		return ck_fail(
			d, ETIMEDOUT,
			"mpirun: its processes have not found each other in %d "
			"s%s",
			msec / 1000,
			*bad ? bad : "; all hosts have to reach each other");
	return ck_fail(d, -rc, "mpirun: no process has come: %s",
		       strerror(-rc));
}

/* Logs what mpirun has printed; at the first job only if no host explains the failure. */
static int job_failed(struct supervisor *k, int rc, int msec, struct ck_diag *d)
{
	struct ck_buf output = { 0 }, lines = { 0 };

	ck_subprocess_read(&k->job, &output);
	find_bad(k, &lines);
	if (k->launch.ask_msec || lines.len == 0)
		send_log(k, &output);
	send_log(k, &lines);
	ck_buf_fini(&output);
	ck_buf_fini(&lines);
	send_tried(k);
	return fail_with(k, rc, msec, d);
}

/* Excludes these hosts. False if there is no such host. */
static bool leave_out_bad(struct supervisor *k)
{
	bool any = false;

	for (size_t i = 1; i < k->launch.hosts->n; i++) {
		any |= k->bad[i];
		k->there[i] &= !k->bad[i];
		k->bad[i] = false;
	}
	return any;
}

/* The first job is retried without the hosts that failed; later jobs are
 * retried by the policy. */
static int start(struct supervisor *k, struct ck_diag *d)
{
	int msec = k->launch.ask_msec ? AGAIN_MSEC : COME_MSEC;
	int most = k->launch.ask_msec ? 1 : TRIES_MOST;
	struct ck_cluster_links links = CK_CLUSTER_NO_LINKS;
	int rc = ask(k, d);

	if (rc)
		return rc;
	ck_mpi_tmpdir_make(&k->shelter);
	for (int i = 1;; i++) {
		rc = job_try(k, msec, &links, d);
		if (rc == 0)
			return send_up(k, &links);
		if (k->job.ended < 0)
			return rc;
		rc = job_failed(k, rc, msec, d);
		if (i == most || !leave_out_bad(k))
			return rc;
		job_over(k);
		msec = AGAIN_MSEC;
	}
}

/* Waits until the job has ended, or the requester has closed the socket. */
static void keep(const struct supervisor *k)
{
	struct pollfd fds[] = { { .fd = k->over, .events = POLLIN },
				{ .fd = k->job.errors, .events = POLLIN } };

	while (!fds[0].revents) {
		if (poll(fds, 2, -1) < 0)
			continue;
		pass_on(k);
		if (fds[1].revents && !(fds[1].revents & POLLIN))
			fds[1].fd = -1; /* all writers have closed it */
	}
}

void ck_job_supervisor_run(const struct ck_launch_options *launch,
			   const struct ck_control_msg *request)
{
	struct supervisor k = { .launch = *launch,
				.how = (const uint8_t *)request->bytes.p,
				.there = calloc(launch->hosts->n, sizeof(bool)),
				.bad = calloc(launch->hosts->n, sizeof(bool)),
				.sock = request->files[0],
				.over = -1,
				.door = { .listener = -1 },
				.shelter = { .locks = { -1, -1 } },
				.job = { .ended = -1, .errors = -1 } };
	struct ck_diag d = { 0 };
	int rc;

	k.launch.ask_msec = (int)request->err;
	k.launch.stop = k.sock;
	rc = k.there && k.bad ? start(&k, &d)
			      : ck_fail(&d, ENOMEM, "out of memory");
	if (rc == 0)
		keep(&k);
	if (k.job.ended >= 0)
		ck_subprocess_end(&k.job, END_MSEC);
	ck_mpi_tmpdir_end(&k.shelter);
	if (rc)
		send_failed(&k, &d);
	_exit(CK_EXIT_FINE);
}
