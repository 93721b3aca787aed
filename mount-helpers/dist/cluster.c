/* SPDX-License-Identifier: MIT */
/*
 * cluster: starts, watches and ends the job of a mount's hosts.
 *
 * States: starting, until the job's supervisor reports success and the link is
 * made; up; replaced by another job (restart.c); ending. Threads: the caller
 * starts and ends it. In between a listener thread receives messages of the
 * supervisor, revalidates files, logs hosts that go down or return, and starts
 * other jobs. ck_cluster.lock guards the link that is cut at the end.
 */
#include "cluster.h"
#include "cluster_internal.h"
#include "inherit_fds.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	END_MSEC = 4000, /* limit for a supervisor to end its job */
	WINDOW = 16 << 20,
	PING_MSEC = 1000,
	PINGS = 8,	     /* at least, within the timeout of a read */
	SILENCE_MSEC = 5000, /* limit of silence until a host is down */
	HEAR_MSEC = 2000,    /* interval to revalidate files */
	STATE_MSEC = 500,    /* interval to check which hosts are up */
	HOLD_MSEC = 9500, /* for which reads wait for a job that takes over */
};

/* --- messages of the job's processes -------------------------------------- */

/* A harmless warning: both the parent and the child of OpenMPI set the process
 * group of the child, and the parent reports if it is second. */
static bool is_noise(struct ck_str line)
{
	static const char late[] = "plm:rsh: Warning: setpgid(";

	return memmem(line.p, line.len, late, sizeof(late) - 1) != NULL;
}

/* Lines of this program have their prefix already. */
static void log_line(struct ck_str line)
{
	static const char ours[] = "ckptfs: ";
	size_t len = sizeof(ours) - 1;

	if (line.len > len && memcmp(line.p, ours, len) == 0)
		line = (struct ck_str){ line.p + len, line.len - len };
	if (line.len && !is_noise(line))
		ck_log("%s", ck_show(line));
}

void ck_cluster_log_lines(struct ck_buf *output)
{
	struct ck_cur c = ck_cur_make(output->data, output->len);
	struct ck_str line;

	while (ck_cur_line(&c, &line))
		log_line(line);
	if (ck_cur_left(&c)) {
		size_t left = ck_cur_left(&c);

		memmove(output->data, output->data + output->len - left, left);
		output->len = left;
	} else {
		output->len = 0;
	}
}

/* Receives a message of the supervisor of a job that is up. False if the job
 * has ended. */
static bool receive_supervisor(struct ck_cluster *c)
{
	struct ck_control_msg n;

	if (ck_control_msg_take(c->supervisor, &n, c->room))
		return false;
	ck_control_msg_close(&n);
	if (n.kind != CK_CONTROL_MSG_SAID)
		return false;
	ck_buf_add(&c->output, n.bytes.p, n.bytes.len);
	ck_cluster_log_lines(&c->output);
	return true;
}

/* --- start ---------------------------------------------------------------- */

static int check_all(const struct ck_cluster *c, struct ck_diag *d)
{
	const struct ck_host_list *list = &c->options->list;

	for (size_t i = 0; c->options->allhosts && i < list->n; i++)
		if (!c->there[i])
			return ck_fail(
				d, EIO, "option allhosts: %s is missing",
				ck_show(ck_str_from(list->hosts[i].name)));
	return 0;
}

/* Makes the ranks of all hosts, as they would be if all took part. */
static int ranks_make(struct ck_cluster *c)
{
	const struct ck_host_list *list = &c->options->list;
	uint32_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += list->hosts[i].ranks;
	c->ranks = calloc(n, sizeof(*c->ranks));
	if (!c->ranks)
		return -ENOMEM;
	for (size_t i = 0; i < list->n; i++)
		for (uint32_t k = 0; k < list->hosts[i].ranks; k++) {
			c->ranks[c->nranks] = (struct ck_host_rank){
				.name = list->hosts[i].name,
				.path = list->hosts[i].path,
				.rank = c->nranks,
				.missing = !c->there[i],
			};
			c->nranks++;
		}
	return 0;
}

static int stats_make(struct ck_cluster *c)
{
	c->stats = ck_stats_make(c->nranks);
	for (uint32_t i = 0; c->stats && i < c->nranks; i++)
		c->stats->hosts[i].name = c->ranks[i].name;
	return c->stats ? 0 : -ENOMEM;
}

/* The hosts that take part, in order, have the numbers from 0. */
uint32_t *ck_cluster_numbers(const struct ck_cluster *c, const bool *there)
{
	const struct ck_host_list *list = &c->options->list;
	uint32_t *numbers = calloc(c->nranks, sizeof(*numbers)), n = 0, at = 0;

	for (size_t i = 0; numbers && i < list->n; i++)
		for (uint32_t k = 0; k < list->hosts[i].ranks; k++)
			numbers[at++] = there[i] ? n++ : CK_LINK_NO_RANK;
	return numbers;
}

/* The same for ranks of an external launcher. */
static uint32_t *numbers_of(const struct ck_cluster *c)
{
	uint32_t *numbers = calloc(c->nranks, sizeof(*numbers));

	for (uint32_t i = 0; numbers && i < c->nranks; i++)
		numbers[i] = c->ranks[i].rank;
	return numbers;
}

int ck_cluster_link_make(struct ck_cluster *c,
			 struct ck_rendezvous_link *link_fds,
			 const uint32_t *numbers, struct ck_link **out,
			 struct ck_diag *d)
{
	uint32_t timeout_msec = c->options->timeout * 1000;
	struct ck_link_options link = {
		.sock = link_fds->sock,
		.memory = link_fds->memory,
		.size = link_fds->size,
		.calls = { .npeers = c->nranks,
			   .ping_msec = (uint32_t)ck_min(PING_MSEC,
							 timeout_msec / PINGS),
			   .silence_msec = (uint32_t)ck_min(SILENCE_MSEC,
							    timeout_msec / 2),
			   .timeout_msec = timeout_msec,
			   .window = WINDOW,
			   .epoch = ++c->links,
			   .hold_msec = c->next.tries.n ? HOLD_MSEC : 0,
			   .stats = c->stats },
		.ranks = numbers,
	};
	int rc;

	/* Later links are made by the listener, which has dropped its
	 * privileges. */
	if (c->links == 1)
		link.thread_init = c->options->thread_init;
	rc = numbers ? ck_link_make(&link, out) : -ENOMEM;
	if (rc)
		return ck_fail(d, -rc, "link: %s", strerror(-rc));
	link_fds->sock = link_fds->memory = -1;
	return 0;
}

void ck_cluster_rounds_give(const struct ck_cluster *c,
			    struct ck_rendezvous_link *link_fds,
			    const uint32_t *numbers)
{
	const struct ck_rounds_taker *taker = c->options->rounds;
	struct ck_rendezvous_link given = *link_fds;

	if (!taker || link_fds->sock < 0)
		return;
	link_fds->sock = link_fds->memory = -1;
	taker->take(taker->arg, &given, c->links, numbers, c->nranks);
}

struct ck_cluster_links ck_cluster_links_of(const struct ck_control_msg *n)
{
	return (struct ck_cluster_links){
		.link = { n->files[0], n->files[1], n->size },
		.rounds = { n->files[2], n->files[3], CK_CLUSTER_ROUNDS },
	};
}

/* Makes the first link, and passes on the one for rounds. */
static int link_start(struct ck_cluster *c, struct ck_rendezvous_link *link_fds,
		      struct ck_rendezvous_link *rounds, uint32_t *numbers,
		      struct ck_diag *d)
{
	int rc = ck_cluster_link_make(c, link_fds, numbers, &c->link, d);

	if (rc == 0)
		ck_cluster_rounds_give(c, rounds, numbers);
	free(numbers);
	return rc;
}

/* The supervisor's last message. */
static int take_failed(const struct ck_control_msg *n, struct ck_diag *d)
{
	return ck_fail(d, n->err ? (int)n->err : EIO, "%.*s", (int)n->bytes.len,
		       n->bytes.p);
}

/* Waits for a message. -ECANCELED if the caller has given up. */
static int await_note(const struct ck_cluster *c, struct ck_diag *d)
{
	struct pollfd fds[] = { { .fd = c->supervisor, .events = POLLIN },
				{ .fd = c->wanted } };

	while (poll(fds, CK_ARRAY_SIZE(fds), -1) < 0)
		; /* a signal */
	return fds[1].revents ? ck_fail(d, ECANCELED, "nobody waits for it")
			      : 0;
}

/* Returns 0 if the job is up; -EAGAIN after any other message; or an errno with
 * a message. */
static int take_note(struct ck_cluster *c, struct ck_cluster_links *links,
		     struct ck_diag *d)
{
	struct ck_control_msg n;
	int rc = await_note(c, d);

	if (rc)
		return rc;
	rc = ck_control_msg_take(c->supervisor, &n, c->room);
	if (rc)
		return ck_fail(d, EIO, "what starts processes has ended");
	switch (n.kind) {
	case CK_CONTROL_MSG_SAID:
		ck_buf_add(&c->output, n.bytes.p, n.bytes.len);
		ck_cluster_log_lines(&c->output);
		return -EAGAIN;
	case CK_CONTROL_MSG_UP:
		if (n.bytes.len != c->options->list.n)
			return ck_fail(d, EPROTO, "hosts: %s",
				       strerror(EPROTO));
		memcpy(c->there, n.bytes.p, n.bytes.len);
		*links = ck_cluster_links_of(&n);
		return 0;
	case CK_CONTROL_MSG_TRIED: return -EAGAIN;
	case CK_CONTROL_MSG_FAILED:
	case CK_CONTROL_MSG_START:
	case CK_CONTROL_MSG_ROUNDS:
	default: return take_failed(&n, d);
	}
}

/* Waits until the job is up or has failed. */
static int let_in(struct ck_cluster *c, struct ck_cluster_links *links,
		  struct ck_diag *d)
{
	int rc;

	c->room = malloc(CK_CONTROL_MSG_MOST);
	c->there = calloc(c->options->list.n, sizeof(*c->there));
	if (!c->there || !c->room)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = ck_spawn_helper_begin(&c->spawn_helper, (const uint8_t *)c->there,
				   c->options->list.n, 0, &c->supervisor);
	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	do
		rc = take_note(c, links, d);
	while (rc == -EAGAIN);
	return rc;
}

/* --- the listener --------------------------------------------------------- */

/* Runs the due tasks. Returns ms until the next time. */
static int work(struct ck_cluster *c, uint64_t *next)
{
	uint64_t now = ck_msec_now();

	if (now >= *next) {
		ck_hosts_revalidate(c->hosts);
		*next = now + HEAR_MSEC;
	}
	ck_restart_poll(c);
	if (__atomic_load_n(&c->measures, __ATOMIC_ACQUIRE) &&
	    ck_hosts_measure(c->hosts))
		return 0;
	return (int)ck_min(*next - now, STATE_MSEC);
}

static void *listen_run(void *arg)
{
	struct ck_cluster *c = arg;
	uint64_t next = ck_msec_now() + HEAR_MSEC;
	struct pollfd fds[] = { { .fd = c->stop, .events = POLLIN },
				{ .fd = c->liveness, .events = POLLIN },
				{ .fd = c->supervisor, .events = POLLIN },
				{ .events = POLLIN } };

	while (!fds[0].revents) {
		int wait = work(c, &next);

		fds[3].fd = c->next.supervisor;
		if (poll(fds, CK_ARRAY_SIZE(fds), wait) <= 0)
			continue;
		if (fds[1].revents) {
			(void)kill(getpid(), SIGTERM);
			fds[1].fd = -1;
		}
		if (fds[2].revents && !receive_supervisor(c))
			fds[2].fd = -1;
		if (fds[3].revents) {
			ck_restart_receive(c);
			fds[2].fd = c->supervisor;
		}
	}
	return NULL;
}

static int listen_start(struct ck_cluster *c)
{
	int stop = eventfd(0, EFD_CLOEXEC), rc;

	if (stop < 0)
		return -errno;
	c->stop = stop;
	rc = ck_thread_start_init(&c->listener, &c->options->thread_init,
				  listen_run, c);
	if (rc)
		ck_fd_cleanup(&c->stop);
	return rc;
}

static void listen_end(struct ck_cluster *c)
{
	if (c->stop < 0)
		return;
	pthread_mutex_lock(&c->lock);
	c->ending = true;
	if (c->next_link)
		ck_link_cut(c->next_link);
	pthread_mutex_unlock(&c->lock);
	(void)eventfd_write(c->stop, 1);
	pthread_join(c->listener, NULL);
	ck_fd_cleanup(&c->stop);
}

static int meet(struct ck_cluster *c, struct ck_diag *d)
{
	struct ck_hosts_setup hosts = { .list = c->ranks,
					.n = c->nranks,
					.replicas = c->options->replicas,
					.order = c->options->order,
					.norder = c->options->norder,
					.stats = c->stats };
	int rc;

	hosts.calls = ck_link_calls(c->link);
	c->hosts = ck_hosts_make(&hosts);
	rc = c->hosts ? listen_start(c) : -ENOMEM;
	return rc ? ck_fail(d, -rc, "hosts: %s", strerror(-rc)) : 0;
}

static int start(struct ck_cluster *c, struct ck_diag *d)
{
	const struct ck_hosts_options *o = c->options;
	ck_auto_free char *program = ck_subprocess_program();
	struct ck_launch_options launch = {
		.hosts = &o->list,
		.agent = o->agent,
		.program = o->program ? o->program : program,
		.net = o->net,
		.shardlinks = c->how == CK_BENEATH_SYMLINKS,
		.ownermem = o->ownermem,
		.nccl = o->nccl,
		.timeout = o->timeout,
	};
	struct ck_cluster_links links = CK_CLUSTER_NO_LINKS;
	int rc = ck_launch_find(o->agent, d);

	if (rc == 0 && !launch.program)
		rc = ck_fail(d, ENOMEM, "the path of this program: %s",
			     strerror(errno));
	if (rc)
		return rc;
	ck_launch_networks(&launch, CK_LAUNCH_RDMA, &c->networks);
	rc = ck_spawn_helper_make(&launch, &c->spawn_helper);
	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	rc = let_in(c, &links, d);
	if (rc)
		return rc;
	rc = ranks_make(c) || stats_make(c) || ck_restart_prepare(c)
		     ? ck_fail(d, ENOMEM, "out of memory")
		     : check_all(c, d);
	if (rc == 0)
		rc = link_start(c, &links.link, &links.rounds,
				ck_cluster_numbers(c, c->there), d);
	ck_cluster_links_fini(&links);
	return rc ? rc : meet(c, d);
}

static struct ck_cluster *make(const struct ck_hosts_options *options,
			       const struct ck_format_options *format)
{
	struct ck_cluster *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->options = options;
	c->how = format->shardlinks;
	c->spawn_helper = (struct ck_spawn_helper){
		.job = { .ended = -1, .errors = -1 }, .sock = -1
	};
	pthread_mutex_init(&c->lock, NULL);
	c->stop = c->supervisor = c->liveness = c->ended = c->next.supervisor =
		-1;
	return c;
}

/* rc: of the start. */
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
		     int wanted, struct ck_cluster **out, struct ck_diag *d)
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
	c->wanted = wanted;
	rc = started(c, start(c, d), format, out);
	if (rc == 0)
		*source = options->list.hosts[0].path;
	return rc;
}

int ck_cluster_join(struct ck_hosts_options *options,
		    struct ck_inherited *handed,
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
	c->ranks = ck_steal(&handed->ranks);
	c->nranks = handed->n;
	c->liveness = handed->liveness;
	handed->liveness = -1;
	rc = stats_make(c) ? ck_fail(d, ENOMEM, "out of memory")
			   : link_start(c, &handed->link_fds, &handed->rounds,
					numbers_of(c), d);
	if (rc == 0)
		rc = meet(c, d);
	return started(c, rc, format, out);
}

void ck_cluster_ready(struct ck_cluster *c)
{
	if (!c)
		return;
	ck_cluster_log_lines(&c->networks);
	__atomic_store_n(&c->measures, true, __ATOMIC_RELEASE);
}

struct ck_hosts *ck_cluster_hosts(struct ck_cluster *c)
{
	return c ? c->hosts : NULL;
}

/* Waits until a supervisor and its job have ended. */
static void wait_for(struct ck_cluster *c, int *supervisor, uint64_t end)
{
	struct pollfd fd = { .fd = *supervisor, .events = POLLIN };
	uint64_t now;
	struct ck_control_msg n;

	while (fd.fd >= 0 && (now = ck_msec_now()) < end) {
		if (poll(&fd, 1, (int)(end - now)) <= 0)
			continue;
		if (ck_control_msg_take(*supervisor, &n, c->room))
			fd.fd = -1;
		else
			ck_control_msg_close(&n);
	}
	ck_fd_cleanup(supervisor);
}

static void supervisors_end(struct ck_cluster *c)
{
	uint64_t end = ck_msec_now() + END_MSEC;
	int *const all[] = { &c->supervisor, &c->next.supervisor, &c->ended };

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++)
		if (*all[i] >= 0)
			(void)shutdown(*all[i], SHUT_WR);
	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++)
		wait_for(c, all[i], end);
}

void ck_cluster_end(struct ck_cluster *c)
{
	if (!c)
		return;
	listen_end(c);
	if (c->hosts)
		ck_hosts_revalidate_end(c->hosts);
	ck_link_free(c->link);
	supervisors_end(c);
	ck_spawn_helper_end(&c->spawn_helper);
	ck_fd_cleanup(&c->liveness);
	ck_hosts_free(c->hosts);
	ck_buf_fini(&c->networks);
	ck_buf_fini(&c->output);
	ck_buf_fini(&c->next.output);
	ck_retry_policy_fini(&c->next.tries);
	free(c->next.tried);
	free(c->next.there);
	free(c->room);
	free(c->stats);
	free(c->ranks);
	free(c->there);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
