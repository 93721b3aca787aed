/* SPDX-License-Identifier: MIT */
/*
 * restart: starts another job when hosts are back, beside the current one. The
 * next job has all hosts that are up, and more; it takes over once it is up.
 * States: no next job; starting, with a supervisor; up. The retry policy
 * decides when to try and with which hosts. Used by the listener thread only.
 */
#include "cluster_internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ASK_MSEC = 3000, /* limit for hosts to answer whether they are back */
};

/* --- taking over ---------------------------------------------------------- */

/* A host that answers but cannot take part would keep the other hosts from
 * returning. */
static void log_suspects(struct ck_cluster *c)
{
	struct ck_retry_policy *t = &c->next.tries;

	for (size_t i = ck_retry_policy_log(t); i < t->n;
	     i = ck_retry_policy_log(t))
		ck_log("host %s: it answers, but takes no part: the others come "
		       "back without it; longer and longer pauses before the "
		       "next try, up to %d min",
		       c->options->list.hosts[i].name,
		       CK_RETRY_POLICY_PAUSE_MOST / 60000);
}

/* The next job has ended or failed: calls that wait for it fail, unless another
 * job is due. */
static void next_end(struct ck_cluster *c)
{
	ck_fd_cleanup(&c->next.supervisor);
	c->next.output.len = 0;
	c->next.was_tried = false;
	if (c->next.tries.due > ck_msec_now())
		ck_calls_release(ck_link_calls(c->link));
}

static void next_failed(struct ck_cluster *c)
{
	ck_retry_policy_failed(&c->next.tries,
			       c->next.was_tried ? c->next.tried : NULL,
			       ck_msec_now());
	log_suspects(c);
	next_end(c);
}

/* Hosts of the job that are not up now were refused, or did not answer. */
static void next_is_over(struct ck_cluster *c)
{
	ck_auto_free bool *up = calloc(c->options->list.n, sizeof(*up));

	if (up && ck_hosts_states(c->hosts, up))
		ck_retry_policy_over(&c->next.tries, c->next.there, up,
				     ck_msec_now());
	log_suspects(c);
	next_end(c);
}

/* Replaces the current job. Hosts that have returned are in the next one. */
static void take_over(struct ck_cluster *c, struct ck_link *link)
{
	ck_fd_cleanup(&c->ended);
	c->ended = c->supervisor;
	(void)shutdown(c->ended, SHUT_WR);
	c->supervisor = c->next.supervisor;
	c->next.supervisor = -1;
	memcpy(c->there, c->next.there, c->options->list.n * sizeof(*c->there));
	ck_link_free(c->link);
	c->link = link;
	c->output.len = 0;
	ck_cluster_log_lines(&c->next.output);
	ck_log("hosts: another job has taken over");
	ck_count(&c->stats->restarts, 1);
	next_is_over(c);
}

/* Whether each rank takes part. Caller frees. NULL if out of memory. */
static bool *ranks_there(const struct ck_cluster *c, const bool *there)
{
	const struct ck_host_list *list = &c->options->list;
	bool *ranks = calloc(c->nranks, sizeof(*ranks));
	uint32_t at = 0;

	for (size_t i = 0; ranks && i < list->n; i++)
		for (uint32_t k = 0; k < list->hosts[i].ranks; k++)
			ranks[at++] = there[i];
	return ranks;
}

/* Sets the link that ck_cluster_end() cuts. Returns 0, or -ECANCELED if the
 * cluster is ending. */
static int next_link_set(struct ck_cluster *c, struct ck_link *link)
{
	bool ending;

	pthread_mutex_lock(&c->lock);
	ending = c->ending;
	c->next_link = link;
	pthread_mutex_unlock(&c->lock);
	return ending ? -ECANCELED : 0;
}

static void next_is_up(struct ck_cluster *c, struct ck_cluster_links *links)
{
	ck_auto_free bool *ranks = ranks_there(c, c->next.there);
	ck_auto_free uint32_t *numbers = ck_cluster_numbers(c, c->next.there);
	struct ck_link *link = NULL;
	struct ck_diag d = { 0 };
	int rc = ck_cluster_link_make(c, &links->link, numbers, &link, &d);

	if (rc == 0)
		rc = next_link_set(c, link);
	if (rc == 0)
		rc = ranks ? ck_hosts_renew(c->hosts, ck_link_calls(link),
					    ranks)
			   : -ENOMEM;
	(void)next_link_set(c, NULL);
	if (rc == 0) {
		ck_cluster_rounds_give(c, &links->rounds, numbers);
		ck_cluster_links_fini(links);
		take_over(c, link);
		return;
	}
	ck_cluster_links_fini(links);
	ck_link_free(link);
	ck_log("hosts: another job has not taken over: %s", strerror(-rc));
	next_failed(c);
}

static void receive_failed(struct ck_cluster *c, const struct ck_control_msg *n)
{
	if (n->err == EALREADY) {
		ck_retry_policy_silent(&c->next.tries, ck_msec_now());
		next_end(c);
		return;
	}
	ck_log("hosts: no other job: %.*s", (int)n->bytes.len, n->bytes.p);
	next_failed(c);
}

/* Handles output, success or failure of the next job. */
void ck_restart_receive(struct ck_cluster *c)
{
	struct ck_cluster_links links;
	struct ck_control_msg n;

	if (ck_control_msg_take(c->next.supervisor, &n, c->room)) {
		next_failed(c);
		return;
	}
	if (n.kind == CK_CONTROL_MSG_SAID) {
		ck_buf_add(&c->next.output, n.bytes.p, n.bytes.len);
	} else if (n.kind == CK_CONTROL_MSG_TRIED &&
		   n.bytes.len == c->options->list.n) {
		memcpy(c->next.tried, n.bytes.p, n.bytes.len);
		c->next.was_tried = true;
	} else if (n.kind == CK_CONTROL_MSG_UP &&
		   n.bytes.len == c->options->list.n) {
		memcpy(c->next.there, n.bytes.p, n.bytes.len);
		links = ck_cluster_links_of(&n);
		next_is_up(c, &links);
	} else {
		receive_failed(c, &n);
	}
}

/* The spawn helper was killed, and this process cannot start another one. */
static void no_more(struct ck_cluster *c)
{
	ck_log("hosts: the process that starts others has ended: no host "
	       "comes back before the next mount");
	ck_retry_policy_fini(&c->next.tries);
	ck_calls_release(ck_link_calls(c->link));
}

static void begin(struct ck_cluster *c)
{
	size_t n = c->options->list.n;
	ck_auto_free uint8_t *how = calloc(n, sizeof(*how));
	int rc = how ? 0 : -ENOMEM;

	if (rc == 0) {
		ck_retry_policy_choose(&c->next.tries, ck_msec_now(), how);
		rc = ck_spawn_helper_begin(&c->spawn_helper, how, n, ASK_MSEC,
					   &c->next.supervisor);
	}
	if (rc == -EPIPE)
		no_more(c);
	else if (rc)
		next_failed(c);
}

/* A job is tried as soon as a host goes down, and then at intervals of the
 * retry policy. */
void ck_restart_poll(struct ck_cluster *c)
{
	ck_auto_free bool *up = calloc(c->options->list.n, sizeof(*up));

	if (!c->next.tries.n || !up || !ck_hosts_states(c->hosts, up))
		return;
	if (ck_retry_policy_update(&c->next.tries, up, ck_msec_now()) &&
	    c->next.supervisor < 0)
		begin(c);
}

int ck_restart_prepare(struct ck_cluster *c)
{
	size_t n = c->options->list.n;

	if (c->options->rejoin == CK_RESTART_OFF)
		return 0;
	c->next.tried = calloc(n, sizeof(*c->next.tried));
	c->next.there = calloc(n, sizeof(*c->next.there));
	if (!c->next.tried || !c->next.there)
		return -ENOMEM;
	return ck_retry_policy_make(&c->next.tries, c->there, n,
				    (uint64_t)c->options->rejoin * 1000,
				    ck_msec_now());
}
