/* SPDX-License-Identifier: MIT */
/*
 * rejoin: when hosts are back, another job is started beside the one that there is, and
 * takes over. It has all hosts that are up, and more.
 */
#include "cluster_internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ASK_MSEC = 3000, /* for hosts to say whether they are back */
	SOON_MSEC = 2000,
	SOON_MOST = 3,		    /* times, then there is more in the way */
	PAUSE_MOST = 5 * 60 * 1000, /* milliseconds */
};

/* --- taking over ---------------------------------------------------------------------- */

/* A host that answers and cannot take part would cost all others a job each time. */
static uint64_t longer_pause(const struct ck_cluster *c, uint64_t msec)
{
	for (unsigned i = SOON_MOST; i < c->next.failed && msec < PAUSE_MOST;
	     i++)
		msec = ck_min(2 * msec, PAUSE_MOST);
	return msec;
}

/* Until it is tried again: soon where there is no job any more, and where hosts have
 * answered that could not take part yet. */
static uint64_t pause_msec(const struct ck_cluster *c)
{
	uint64_t msec = (uint64_t)c->options->rejoin * 1000;
	bool soon = !c->next.up[0] ||
		    (c->next.failed && c->next.failed <= SOON_MOST);

	return soon ? ck_min(msec, SOON_MSEC) : longer_pause(c, msec);
}

/* Whoever waits for it does not any more. */
static void next_end(struct ck_cluster *c, bool failed)
{
	c->next.failed = failed ? c->next.failed + 1 : 0;
	if (c->next.failed == SOON_MOST + 1)
		ck_log("hosts: another job has failed %d times: longer and "
		       "longer pauses before the next, up to %d min",
		       SOON_MOST + 1, PAUSE_MOST / 60000);
	ck_fd_cleanup(&c->next.keeper);
	c->next.said.len = 0;
	c->next.due = ck_msec_now() + pause_msec(c);
	ck_calls_release(ck_link_calls(c->link));
}

/* Hosts that are there again, too, are in it. */
static void take_over(struct ck_cluster *c, struct ck_link *link)
{
	ck_fd_cleanup(&c->ended);
	c->ended = c->keeper;
	(void)shutdown(c->ended, SHUT_WR);
	c->keeper = c->next.keeper;
	c->next.keeper = -1;
	memcpy(c->there, c->next.there, c->options->list.n * sizeof(*c->there));
	ck_link_free(c->link);
	c->link = link;
	c->said.len = 0;
	ck_cluster_log_lines(&c->next.said);
	ck_log("hosts: another job has taken over");
	ck_count(&c->stats->restarts, 1);
	next_end(c, false);
}

/* By rank. NULL: out of memory. */
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

/* It is cut when all ends. -ECANCELED: it is not to be asked. */
static int asked_set(struct ck_cluster *c, struct ck_link *link)
{
	bool ending;

	pthread_mutex_lock(&c->lock);
	ending = c->ending;
	c->asked = link;
	pthread_mutex_unlock(&c->lock);
	return ending ? -ECANCELED : 0;
}

static void next_is_up(struct ck_cluster *c, struct ck_door_way *way)
{
	ck_auto_free bool *ranks = ranks_there(c, c->next.there);
	struct ck_link *link = NULL;
	struct ck_diag d = { 0 };
	int rc = ck_cluster_link_make(
		c, way, ck_cluster_numbers(c, c->next.there), &link, &d);

	ck_fd_cleanup(&way->sock);
	ck_fd_cleanup(&way->memory);
	if (rc == 0)
		rc = asked_set(c, link);
	if (rc == 0)
		rc = ranks ? ck_hosts_renew(c->hosts, ck_link_calls(link),
					    ranks)
			   : -ENOMEM;
	(void)asked_set(c, NULL);
	if (rc == 0) {
		take_over(c, link);
		return;
	}
	ck_link_free(link);
	ck_log("hosts: another job has not taken over: %s", strerror(-rc));
	next_end(c, true);
}

/* Whoever ends all of it does not wait for that. */
bool ck_rejoin_compare(struct ck_cluster *c)
{
	bool more = asked_set(c, c->link) == 0 && ck_hosts_compare(c->hosts);

	(void)asked_set(c, NULL);
	return more;
}

/* What it says, or that it is there, or has failed. */
void ck_rejoin_hear(struct ck_cluster *c)
{
	struct ck_door_way way = { -1, -1, 0 };
	struct ck_note n;

	if (ck_note_take(c->next.keeper, &n, c->room)) {
		next_end(c, true);
		return;
	}
	if (n.kind == CK_NOTE_SAID) {
		ck_buf_add(&c->next.said, n.bytes.p, n.bytes.len);
	} else if (n.kind == CK_NOTE_UP && n.bytes.len == c->options->list.n) {
		memcpy(c->next.there, n.bytes.p, n.bytes.len);
		way = (struct ck_door_way){ n.files[0], n.files[1], n.size };
		next_is_up(c, &way);
	} else {
		if (n.err != EALREADY)
			ck_log("hosts: no other job: %.*s", (int)n.bytes.len,
			       n.bytes.p);
		next_end(c, n.err != EALREADY);
	}
}

/* Whether hosts have gone down since it was looked last; *missing: whether any is not
 * up. */
static bool has_lost(struct ck_cluster *c, const bool *up, bool *missing)
{
	size_t n = c->options->list.n;
	bool lost = false;

	*missing = false;
	for (size_t i = 0; i < n; i++) {
		lost |= c->next.up[i] && !up[i];
		*missing |= !up[i];
		c->next.up[i] = up[i];
	}
	return lost;
}

/* Who starts them was killed, and this process may not start another one. */
static void no_more(struct ck_cluster *c)
{
	ck_log("hosts: the process that starts others has ended: no host "
	       "comes back before the next mount");
	free(c->next.up);
	c->next.up = NULL;
	ck_calls_release(ck_link_calls(c->link));
}

/* One is tried as soon as a host goes down, and then from time to time. */
void ck_rejoin_look(struct ck_cluster *c)
{
	ck_auto_free bool *up = calloc(c->options->list.n, sizeof(*up));
	bool missing;
	int rc;

	if (!c->next.up || !up || !ck_hosts_states(c->hosts, up))
		return;
	if (has_lost(c, up, &missing))
		c->next.due = 0;
	if (!missing || c->next.keeper >= 0 || ck_msec_now() < c->next.due)
		return;
	rc = ck_starter_begin(&c->starter, up, c->options->list.n, ASK_MSEC,
			      &c->next.keeper);
	if (rc == -EPIPE)
		no_more(c);
	else if (rc)
		next_end(c, true);
}

/* Whether there may be other jobs. */
int ck_rejoin_prepare(struct ck_cluster *c)
{
	size_t n = c->options->list.n;

	if (c->options->rejoin == CK_REJOIN_OFF)
		return 0;
	c->next.up = calloc(n, sizeof(*c->next.up));
	c->next.there = calloc(n, sizeof(*c->next.there));
	if (!c->next.up || !c->next.there)
		return -ENOMEM;
	memcpy(c->next.up, c->there, n * sizeof(*c->there));
	c->next.due = ck_msec_now() + pause_msec(c);
	return 0;
}
