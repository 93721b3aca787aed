/* SPDX-License-Identifier: MIT */
/* cluster: see cluster.h. */
#include "cluster.h"
#include "ckptfs/door.h"
#include "ckptfs/job.h"
#include "ckptfs/launch.h"
#include "ckptfs/link.h"
#include "handed.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	COME_MSEC = 30000, /* until all processes have found each other */
	END_MSEC = 1000,   /* until they have ended by themselves */
	WINDOW = 16 << 20,
	PING_MSEC = 1000,
	SILENCE_MSEC = 5000,
	HEAR_MSEC = 2000, /* from one question for files to the next */
};

struct ck_cluster {
	const struct ck_hosts_options *options;
	enum ck_beneath how;
	char *program; /* this one, owned; of all, if no option says another */
	bool *there;   /* by host of the list */
	struct ck_host_rank *ranks;
	uint32_t nranks;
	struct ck_door door;
	struct ck_job job;
	/* The job is another's, and `said` the rope to a rank of it. */
	bool joined;
	struct ck_link *link;
	struct ck_hosts *hosts;
	/* A thread logs what the processes say, and asks hosts again what they
	 * have. */
	pthread_t listener;
	int stop; /* an eventfd that ends it; -1: it was not started */
	struct ck_buf networks; /* lines for the log */
};

/* --- what they say ------------------------------------------------------------------ */

/* OpenMPI's parent and child both make the child's group, and the parent complains when
 * it comes second. */
static bool is_noise(struct ck_str line)
{
	static const char late[] = "plm:rsh: Warning: setpgid(";

	return memmem(line.p, line.len, late, sizeof(late) - 1) != NULL;
}

/* Ours say who speaks, as all lines of the log do. */
static void log_line(struct ck_str line)
{
	static const char ours[] = "ckptfs: ";
	size_t len = sizeof(ours) - 1;

	if (line.len > len && memcmp(line.p, ours, len) == 0)
		line = (struct ck_str){ line.p + len, line.len - len };
	if (line.len && !is_noise(line))
		ck_log("%s", ck_show(line));
}

/* Whole lines; what is left waits for its end. */
static void log_lines(struct ck_buf *said)
{
	struct ck_cur c = ck_cur_make(said->data, said->len);
	struct ck_str line;

	while (ck_cur_line(&c, &line))
		log_line(line);
	if (ck_cur_left(&c)) {
		size_t left = ck_cur_left(&c);

		memmove(said->data, said->data + said->len - left, left);
		said->len = left;
	} else {
		said->len = 0;
	}
}

static void *listen_run(void *arg)
{
	struct ck_cluster *c = arg;
	struct ck_buf said = { 0 };
	uint64_t next = ck_msec_now() + HEAR_MSEC;
	struct pollfd fds[] = { { .fd = c->stop, .events = POLLIN },
				{ .fd = c->job.said, .events = POLLIN } };

	while (!fds[0].revents) {
		uint64_t now = ck_msec_now();

		if (now >= next) {
			ck_hosts_hear(c->hosts);
			next = now + HEAR_MSEC;
		}
		if (poll(fds, 2, (int)(next - now)) <= 0)
			continue;
		ck_job_hear(&c->job, &said);
		log_lines(&said);
		if (fds[1].revents && !(fds[1].revents & POLLIN)) {
			fds[1].fd = -1; /* all of them have closed it */
			if (c->joined)
				(void)kill(getpid(), SIGTERM);
		}
	}
	ck_buf_fini(&said);
	return NULL;
}

static int listen_start(struct ck_cluster *c)
{
	int stop = eventfd(0, EFD_CLOEXEC), rc;

	if (stop < 0)
		return -errno;
	c->stop = stop;
	rc = ck_thread_start(&c->listener, listen_run, c);
	if (rc)
		ck_fd_cleanup(&c->stop);
	return rc;
}

static void listen_end(struct ck_cluster *c)
{
	if (c->stop < 0)
		return;
	(void)eventfd_write(c->stop, 1);
	pthread_join(c->listener, NULL);
	ck_fd_cleanup(&c->stop);
}

/* --- starting ------------------------------------------------------------------------- */

/* Which hosts can take part. */
static int ask(struct ck_cluster *c, const struct ck_launch_options *launch,
	       struct ck_diag *d)
{
	size_t n = launch->hosts->n;
	struct ck_buf lines = { 0 };
	int rc;

	c->there = calloc(n, sizeof(*c->there));
	if (!c->there)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = ck_launch_ask(launch, c->there, &lines, d);
	for (size_t i = 0; rc == 0 && c->options->allhosts && i < n; i++)
		if (!c->there[i])
			rc = ck_fail(d, EIO, "option allhosts: %s is missing",
				     ck_show(ck_str_from(
					     launch->hosts->hosts[i].name)));
	log_lines(&lines);
	ck_buf_fini(&lines);
	return rc;
}

/* The ranks, in the order in which mpirun numbers them. */
static int number(struct ck_cluster *c)
{
	const struct ck_host_list *list = &c->options->list;
	uint32_t n = 0, rank = 0;

	for (size_t i = 0; i < list->n; i++)
		n += list->hosts[i].ranks;
	c->ranks = calloc(n, sizeof(*c->ranks));
	if (!c->ranks)
		return -ENOMEM;
	for (size_t i = 0; i < list->n; i++)
		for (uint32_t k = 0; k < list->hosts[i].ranks; k++) {
			bool there = c->there[i];

			c->ranks[c->nranks++] = (struct ck_host_rank){
				.name = list->hosts[i].name,
				.path = list->hosts[i].path,
				.rank = there ? rank : 0,
				.missing = !there,
			};
			rank += there;
		}
	return 0;
}

static uint32_t ranks_there(const struct ck_cluster *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->nranks; i++)
		n += !c->ranks[i].missing;
	return n;
}

/* mpirun, by way of this program: it ends when this process has ended, however it did,
 * also where it waits for a host that is dead. */
static int job_start(struct ck_cluster *c, char **mpirun, char **environment)
{
	char serve[] = "serve", how[] = "--launch";
	size_t n = 0;
	ck_auto_free char **argv = NULL;

	if (!c->program)
		return ck_job_start(mpirun, environment, &c->job);
	while (mpirun[n])
		n++;
	argv = calloc(n + 4, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	argv[0] = c->program;
	argv[1] = serve;
	argv[2] = how;
	memcpy(argv + 3, mpirun, n * sizeof(*argv));
	return ck_job_start(argv, environment, &c->job);
}

static int run_mpirun(struct ck_cluster *c,
		      const struct ck_launch_options *launch, struct ck_diag *d)
{
	char **argv = ck_launch_argv(launch, c->there);
	char **environment = ck_launch_environment(environ);
	int rc = argv && environment ? 0 : -ENOMEM;

	if (rc == 0)
		rc = job_start(c, argv, environment);
	ck_launch_words_free(argv);
	ck_launch_words_free(environment);
	return rc ? ck_fail(d, -rc, "mpirun: %s", strerror(-rc)) : 0;
}

/* What it had to say is why it ended. */
static int no_mover(struct ck_cluster *c, int rc, struct ck_diag *d)
{
	struct ck_buf said = { 0 };

	ck_job_hear(&c->job, &said);
	log_lines(&said);
	ck_buf_fini(&said);
	if (rc == -ECHILD)
		return ck_fail(d, EIO, "mpirun: it has ended, see above");
	if (rc == -ETIMEDOUT)
		return ck_fail(d, ETIMEDOUT,
			       "mpirun: its processes have not found each "
			       "other in %d s; all hosts have to reach each "
			       "other",
			       COME_MSEC / 1000);
	return ck_fail(d, -rc, "mpirun: no process has come: %s",
		       strerror(-rc));
}

/* The way is the link's then. */
static int link_make(struct ck_cluster *c, struct ck_door_way *way,
		     struct ck_diag *d)
{
	struct ck_link_options link = {
		.sock = way->sock,
		.memory = way->memory,
		.size = way->size,
		.calls = { .npeers = ranks_there(c),
			   .ping_msec = PING_MSEC,
			   .silence_msec = SILENCE_MSEC,
			   .timeout_msec = c->options->timeout * 1000,
			   .window = WINDOW }
	};
	int rc = ck_link_make(&link, &c->link);

	if (rc)
		return ck_fail(d, -rc, "link: %s", strerror(-rc));
	way->sock = way->memory = -1;
	return 0;
}

static int let_in(struct ck_cluster *c, struct ck_diag *d)
{
	struct ck_door_way way;
	int rc = ck_door_wait(&c->door, CK_CLUSTER_MEMORY, c->job.ended,
			      COME_MSEC, &way);

	return rc ? no_mover(c, rc, d) : link_make(c, &way, d);
}

static int meet(struct ck_cluster *c, struct ck_diag *d)
{
	struct ck_hosts_setup hosts = { .list = c->ranks,
					.n = c->nranks,
					.replicas = c->options->replicas,
					.order = c->options->order,
					.norder = c->options->norder };
	int rc;

	hosts.calls = ck_link_calls(c->link);
	c->hosts = ck_hosts_make(&hosts);
	rc = c->hosts ? listen_start(c) : -ENOMEM;
	return rc ? ck_fail(d, -rc, "hosts: %s", strerror(-rc)) : 0;
}

static int start(struct ck_cluster *c, struct ck_diag *d)
{
	const struct ck_hosts_options *o = c->options;
	struct ck_launch_options launch = {
		.hosts = &o->list,
		.agent = o->agent,
		.program = o->program ? o->program : c->program,
		.net = o->net,
		.shardlinks = c->how == CK_BENEATH_SYMLINKS,
		.ownermem = o->ownermem,
		.door = c->door.name
	};
	int rc = ck_launch_find(o->agent, d);

	if (rc == 0 && !launch.program)
		rc = ck_fail(d, ENOMEM, "the path of this program: %s",
			     strerror(errno));
	if (rc == 0)
		rc = ask(c, &launch, d);
	if (rc)
		return rc;
	ck_launch_networks(&launch, CK_LAUNCH_RDMA, &c->networks);
	rc = number(c);
	if (rc == 0)
		rc = ck_door_open(&c->door);
	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	rc = run_mpirun(c, &launch, d);
	if (rc == 0)
		rc = let_in(c, d);
	if (rc == 0)
		rc = meet(c, d);
	ck_door_close(&c->door);
	return rc;
}

static struct ck_cluster *make(const struct ck_hosts_options *options,
			       const struct ck_format_options *format)
{
	struct ck_cluster *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->options = options;
	c->how = format->shardlinks;
	c->stop = c->job.ended = c->job.said = -1;
	return c;
}

/* rc: of that. */
static int started(struct ck_cluster *c, int rc,
		   struct ck_format_options *format, struct ck_cluster **out)
{
	if (rc) {
		ck_cluster_end(c);
		return rc;
	}
	format->elsewhere = ck_hosts_elsewhere(c->hosts);
	*out = c;
	return 0;
}

int ck_cluster_start(struct ck_hosts_options *options,
		     struct ck_format_options *format, const char **source,
		     struct ck_cluster **out, struct ck_diag *d)
{
	struct ck_cluster *c;
	int rc;

	*out = NULL;
	if (!ck_hosts_options_given(options))
		return 0;
	rc = ck_hosts_options_settle(options, *source, d);
	if (rc)
		return rc;
	c = make(options, format);
	if (!c)
		return ck_fail(d, ENOMEM, "out of memory");
	c->program = ck_launch_program();
	rc = started(c, start(c, d), format, out);
	if (rc == 0)
		*source = options->list.hosts[0].path;
	return rc;
}

int ck_cluster_join(struct ck_hosts_options *options, struct ck_handed *handed,
		    struct ck_format_options *format, struct ck_cluster **out,
		    struct ck_diag *d)
{
	int rc = ck_hosts_options_settle_known(options, d);
	struct ck_cluster *c;

	if (rc)
		return rc;
	c = make(options, format);
	if (!c)
		return ck_fail(d, ENOMEM, "out of memory");
	c->joined = true;
	c->ranks = ck_steal(&handed->ranks);
	c->nranks = handed->n;
	c->job.said = handed->rope;
	handed->rope = -1;
	rc = link_make(c, &handed->way, d);
	if (rc == 0)
		rc = meet(c, d);
	return started(c, rc, format, out);
}

void ck_cluster_log_networks(struct ck_cluster *c)
{
	if (c)
		log_lines(&c->networks);
}

struct ck_hosts *ck_cluster_hosts(struct ck_cluster *c)
{
	return c ? c->hosts : NULL;
}

void ck_cluster_end(struct ck_cluster *c)
{
	if (!c)
		return;
	listen_end(c);
	if (c->hosts)
		ck_hosts_hear_end(c->hosts);
	ck_link_free(c->link);
	if (c->job.ended >= 0)
		ck_job_end(&c->job, END_MSEC);
	ck_fd_cleanup(&c->job.said);
	ck_hosts_free(c->hosts);
	ck_buf_fini(&c->networks);
	free(c->ranks);
	free(c->there);
	free(c->program);
	free(c);
}
