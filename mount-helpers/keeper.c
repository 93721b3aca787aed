/* SPDX-License-Identifier: MIT */
/* keeper: see keeper.h. */
#include "keeper.h"
#include "ckptfs/door.h"
#include "ckptfs/job.h"
#include "ckptfs/tries.h"
#include "cluster.h"
#include "commands.h"
#include "shelter.h"
#include "starter.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	COME_MSEC = 30000, /* until all processes have found each other */
	AGAIN_MSEC =
		8000, /* the same of a job beside another: MPI tries once, and too
			    * soon if a host's network is not up yet */
	END_MSEC = 1000, /* until they have ended by themselves */
	SAY_MOST = 32 << 10,
};

struct keeper {
	struct ck_launch_options launch;
	const uint8_t *how; /* by host, of enum ck_try */
	bool *there;	    /* by host */
	bool *absent;	    /* the same: nothing was started there */
	int sock; /* to whom it is for; closed by him: all is to end */
	int over; /* readable when it is closed, or the job has ended */
	struct ck_door door;
	struct ck_shelter shelter;
	struct ck_job job;
};

/* --- what is said ------------------------------------------------------------------- */

/* Who does not read it does without it. */
static void say(const struct keeper *k, struct ck_buf *said)
{
	for (size_t at = 0; at < said->len; at += SAY_MOST) {
		const struct ck_note note = { .kind = CK_NOTE_SAID,
					      .bytes = { said->data + at,
							 ck_min(said->len - at,
								SAY_MOST) },
					      .files = { -1, -1 } };

		(void)!ck_note_send(k->sock, &note, false);
	}
	said->len = 0;
}

static void pass_on(const struct keeper *k)
{
	struct ck_buf said = { 0 };

	ck_job_hear(&k->job, &said);
	say(k, &said);
	ck_buf_fini(&said);
}

static void say_failed(const struct keeper *k, const struct ck_diag *d)
{
	const struct ck_note note = { .kind = CK_NOTE_FAILED,
				      .err = (uint32_t)d->err,
				      .bytes = ck_str_from(d->text),
				      .files = { -1, -1 } };

	(void)!ck_note_send(k->sock, &note, true);
}

static int say_up(const struct keeper *k, struct ck_door_way *way)
{
	const struct ck_note note = { .kind = CK_NOTE_UP,
				      .size = way->size,
				      .bytes = { (const char *)k->there,
						 k->launch.hosts->n },
				      .files = { way->sock, way->memory } };
	int rc = ck_note_send(k->sock, &note, true);

	ck_fd_cleanup(&way->sock);
	ck_fd_cleanup(&way->memory);
	return rc;
}

/* --- before ------------------------------------------------------------------------- */

/* Than are up, which it has, too. */
static bool has_more(const struct keeper *k)
{
	bool more = false;

	for (size_t i = 0; i < k->launch.hosts->n; i++) {
		bool is_up = k->how[i] == CK_TRY_UP;

		if (is_up && !k->there[i])
			return false;
		more |= k->there[i] && !is_up;
	}
	return more;
}

/* Those that may make it fail have no part in it where others are back. */
static void leave_out(struct keeper *k)
{
	bool others = false;

	for (size_t i = 1; i < k->launch.hosts->n; i++)
		others |= k->there[i] && k->how[i] == CK_TRY_WANTED;
	for (size_t i = 1; i < k->launch.hosts->n; i++)
		if (k->how[i] == CK_TRY_LEFT_OUT ||
		    (others && k->how[i] == CK_TRY_DOUBTFUL))
			k->there[i] = false;
}

/* Which hosts can take part. */
static int ask(struct keeper *k, struct ck_diag *d)
{
	struct ck_buf lines = { 0 };
	int rc = ck_launch_ask(&k->launch, k->there, &lines, d);

	say(k, &lines);
	ck_buf_fini(&lines);
	if (rc == 0)
		leave_out(k);
	if (rc == 0 && !has_more(k))
		rc = ck_fail(d, EALREADY, "no host has come back");
	return rc;
}

/* --- the job ------------------------------------------------------------------------ */

/* mpirun, by way of this program: it ends when this process has ended, however it did,
 * also where it waits for a host that is dead. */
static int job_start(struct keeper *k, char **mpirun, char **environment)
{
	static char serve[] = "serve", how[] = "--launch";
	ck_auto_free char *program = ck_launch_program();
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
	return ck_job_start(argv, environment, &k->job);
}

static int run_mpirun(struct keeper *k, struct ck_diag *d)
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

static int watch_end(struct keeper *k)
{
	int rc;

	k->over = epoll_create1(EPOLL_CLOEXEC);
	if (k->over < 0)
		return -errno;
	rc = watch(k->over, k->job.ended, EPOLLIN);
	return rc ? rc : watch(k->over, k->sock, EPOLLRDHUP);
}

/* Of hosts that have not been reached. */
static const char *where_not(const struct keeper *k)
{
	const struct ck_host_list *hosts = k->launch.hosts;
	struct ck_buf names = { 0 };
	const char *text = "";

	for (size_t i = 0; i < hosts->n; i++)
		if (k->absent[i])
			ck_buf_printf(&names, "%s%s", names.len ? ", " : "",
				      hosts->hosts[i].name);
	if (names.len)
		text = ck_shown("; it was not started on %s", names.data);
	ck_buf_fini(&names);
	return text;
}

/* For who is to decide what comes next. */
static void say_tried(const struct keeper *k)
{
	struct ck_buf tried = { 0 };
	struct ck_note note = { .kind = CK_NOTE_TRIED, .files = { -1, -1 } };

	for (size_t i = 0; i < k->launch.hosts->n; i++)
		ck_buf_u8(&tried, k->absent[i]	? CK_TRIED_ABSENT
				  : k->there[i] ? CK_TRIED_IN
						: CK_TRIED_NOT);
	note.bytes = (struct ck_str){ tried.data, tried.len };
	if (!tried.err)
		(void)!ck_note_send(k->sock, &note, true);
	ck_buf_fini(&tried);
}

/* What it had to say is why it ended. */
static int no_mover(struct keeper *k, int rc, int msec, struct ck_diag *d)
{
	struct ck_buf said = { 0 };
	const char *where;

	ck_job_hear(&k->job, &said);
	ck_launch_absent(&k->launch, k->there,
			 (struct ck_str){ said.data, said.len }, k->absent);
	where = where_not(k);
	say(k, &said);
	say_tried(k);
	ck_buf_fini(&said);
	if (rc == -ECHILD)
		return ck_fail(d, EIO, "mpirun: it has ended, see above%s",
			       where);
	if (rc == -ETIMEDOUT)
		return ck_fail(d, ETIMEDOUT,
			       "mpirun: its processes have not found each "
			       "other in %d s%s",
			       msec / 1000,
			       *where ? where
				      : "; all hosts have to reach each other");
	return ck_fail(d, -rc, "mpirun: no process has come: %s",
		       strerror(-rc));
}

static int start(struct keeper *k, struct ck_diag *d)
{
	int msec = k->launch.ask_msec ? AGAIN_MSEC : COME_MSEC;
	struct ck_door_way way;
	int rc = ask(k, d);

	if (rc)
		return rc;
	rc = ck_door_open(&k->door);
	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	k->launch.door = k->door.name;
	ck_shelter_make(&k->shelter);
	rc = run_mpirun(k, d);
	if (rc)
		return rc;
	rc = watch_end(k);
	if (rc == 0)
		rc = ck_door_wait(&k->door, CK_CLUSTER_MEMORY, k->over, msec,
				  &way);
	ck_door_close(&k->door);
	return rc ? no_mover(k, rc, msec, d) : say_up(k, &way);
}

/* Until it has ended, or nobody wants it any more. */
static void keep(const struct keeper *k)
{
	struct pollfd fds[] = { { .fd = k->over, .events = POLLIN },
				{ .fd = k->job.said, .events = POLLIN } };

	while (!fds[0].revents) {
		if (poll(fds, 2, -1) < 0)
			continue;
		pass_on(k);
		if (fds[1].revents && !(fds[1].revents & POLLIN))
			fds[1].fd = -1; /* all of them have closed it */
	}
}

void ck_keeper_run(const struct ck_launch_options *launch,
		   const struct ck_note *asked)
{
	struct keeper k = { .launch = *launch,
			    .how = (const uint8_t *)asked->bytes.p,
			    .there = calloc(launch->hosts->n, sizeof(bool)),
			    .absent = calloc(launch->hosts->n, sizeof(bool)),
			    .sock = asked->files[0],
			    .over = -1,
			    .door = { .listener = -1 },
			    .shelter = { .locks = { -1, -1 } },
			    .job = { .ended = -1, .said = -1 } };
	struct ck_diag d = { 0 };
	int rc;

	k.launch.ask_msec = (int)asked->err;
	k.launch.stop = k.sock;
	rc = k.there && k.absent ? start(&k, &d)
				 : ck_fail(&d, ENOMEM, "out of memory");
	if (rc == 0)
		keep(&k);
	if (k.job.ended >= 0)
		ck_job_end(&k.job, END_MSEC);
	ck_shelter_end(&k.shelter);
	if (rc)
		say_failed(&k, &d);
	_exit(CK_EXIT_FINE);
}
