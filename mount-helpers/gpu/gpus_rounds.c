/* SPDX-License-Identifier: MIT */
/*
 * gpus_rounds: the hosts from which NCCL transfers bytes to the GPU. For each
 * job a thread transfers some bytes from every other host. NCCL is used for a
 * host from which they arrive; MPI is used for the others, and until then. A
 * mount fails if a host is not used at its start.
 *
 * States of a job: handed over; settled, once all hosts have been measured. The
 * thread that starts the cluster, or its listener, hands over jobs; a thread of
 * this object measures.
 */
#include "ckptfs/launch.h"
#include "dist/client/remote_client.h"
#include "dist/rpc/link.h"
#include "gpus_internal.h"

#include <errno.h>
#include <stdio.h>

enum {
	JOIN_MSEC = 60000, /* limit for the worker to take part */
	LOOK_MSEC = 200,
	SETTLE_MSEC = 90000, /* limit for a mount to wait at its start */
};

/* --- a job ---------------------------------------------------------------- */

/* Passes on the link, which takes the descriptors. Must hold the lock. */
static void hand_over(struct ck_gpus *g)
{
	struct ck_gpus_rounds *r = &g->rounds;

	if (r->link_fds.sock < 0 || !g->link)
		return;
	ck_gpulink_join(g->link, &r->link_fds, r->set);
	r->link_fds = (struct ck_rendezvous_link)CK_RENDEZVOUS_NO_LINK;
}

static void take(void *arg, struct ck_rendezvous_link *link_fds, uint32_t epoch,
		 const uint32_t *numbers, uint32_t npeers)
{
	struct ck_gpus *g = arg;
	struct ck_gpus_rounds *r = &g->rounds;
	struct ck_gpus_peer *peers = calloc(npeers, sizeof(*peers));

	pthread_mutex_lock(&r->lock);
	ck_rendezvous_link_fini(&r->link_fds);
	r->link_fds = *link_fds;
	free(r->peers);
	r->peers = peers;
	r->npeers = peers ? npeers : 0;
	for (uint32_t i = 0; i < r->npeers; i++)
		r->peers[i].rank = numbers[i] == CK_LINK_NO_RANK ? UINT32_MAX
								 : numbers[i];
	r->set = epoch;
	hand_over(g);
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

void ck_gpus_rounds_link(struct ck_gpus *g)
{
	pthread_mutex_lock(&g->rounds.lock);
	hand_over(g);
	pthread_mutex_unlock(&g->rounds.lock);
}

static bool is_used(const struct ck_gpus_peer *p)
{
	return p->rate.gbps > 0;
}

/* --- which hosts are used ------------------------------------------------- */

/* True if the job is still the current one. Must hold the lock. */
static bool goes_on(const struct ck_gpus_rounds *r, uint32_t set)
{
	return !r->ending && r->set == set;
}

static bool is_on(struct ck_gpus_rounds *r, uint32_t set)
{
	bool on;

	pthread_mutex_lock(&r->lock);
	on = goes_on(r, set);
	pthread_mutex_unlock(&r->lock);
	return on;
}

/* Sets the ranks to use, for the remote client. */
static void set_ranks(struct ck_gpus_rounds *r, uint32_t set)
{
	struct ck_round_routes by = { .set = set };
	uint32_t *ranks;

	pthread_mutex_lock(&r->lock);
	ranks = calloc(r->npeers + 1UL, sizeof(*ranks));
	for (uint32_t i = 0; ranks && i < r->npeers; i++)
		ranks[i] = is_used(&r->peers[i]) ? r->peers[i].rank
						 : UINT32_MAX;
	by.ranks = ranks;
	by.n = ranks ? r->npeers : 0;
	if (!goes_on(r, set))
		by.n = 0;
	pthread_mutex_unlock(&r->lock);
	if (by.n && ck_hosts_rounds(r->hosts, &by))
		ck_log("out of memory: no bytes come by NCCL");
	free(ranks);
}

static void measure_peer(struct ck_gpus *g, uint32_t set, uint32_t i,
			 uint32_t rank)
{
	struct ck_gpus_rounds *r = &g->rounds;
	struct ck_gpus_peer found = { .rank = rank, .measured = true };

	if (!ck_gpulink_measure_rank(g->link, set, rank, &found.rate))
		found.rate.gbps = 0;
	pthread_mutex_lock(&r->lock);
	if (goes_on(r, set))
		r->peers[i] = found;
	pthread_mutex_unlock(&r->lock);
	set_ranks(r, set);
}

/* False if there is no such peer in the job, or if it is on this host. */
static bool rank_of(struct ck_gpus_rounds *r, uint32_t set, uint32_t i,
		    uint32_t *rank)
{
	struct ck_hosts_peer peer;

	*rank = UINT32_MAX;
	pthread_mutex_lock(&r->lock);
	if (goes_on(r, set) && i < r->npeers)
		*rank = r->peers[i].rank;
	pthread_mutex_unlock(&r->lock);
	if (*rank == UINT32_MAX)
		return false;
	ck_hosts_peer(r->hosts, i, &peer);
	return !peer.here;
}

static int join(struct ck_gpus *g, uint32_t set)
{
	uint64_t end = ck_msec_now() + JOIN_MSEC;
	struct ck_diag why = { 0 };
	int rc;

	do
		rc = ck_gpulink_joined(g->link, set, LOOK_MSEC, &why);
	while (rc == -ETIMEDOUT && ck_msec_now() < end &&
	       is_on(&g->rounds, set));
	return rc;
}

static void settle(struct ck_gpus *g, uint32_t set, uint32_t npeers)
{
	struct ck_gpus_rounds *r = &g->rounds;
	bool there = join(g, set) == 0;
	uint32_t rank;

	for (uint32_t i = 0; i < npeers && there; i++)
		if (rank_of(r, set, i, &rank))
			measure_peer(g, set, i, rank);
	pthread_mutex_lock(&r->lock);
	r->settled = set;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

static void *run(void *arg)
{
	struct ck_gpus *g = arg;
	struct ck_gpus_rounds *r = &g->rounds;

	pthread_mutex_lock(&r->lock);
	while (!r->ending) {
		uint32_t set = r->set, npeers = r->npeers;

		if (set == r->settled) {
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		settle(g, set, npeers);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* --- the mount ------------------------------------------------------------ */

void ck_gpus_rounds_make(struct ck_gpus *g)
{
	struct ck_gpus_rounds *r = &g->rounds;
	struct ck_mount_options *o = g->options;

	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	r->link_fds = (struct ck_rendezvous_link)CK_RENDEZVOUS_NO_LINK;
	if (!ck_gpu_choice_has_rounds(&o->gpu) ||
	    !ck_hosts_options_given(&o->hosts))
		return;
	ck_gpu_choice_text(&o->gpu, r->devices);
	r->taker = (struct ck_rounds_taker){ take, g };
	o->hosts.nccl = r->devices;
	o->hosts.rounds = &r->taker;
}

/* Why a measured peer is not used; NULL if unknown. text: buffer for the
 * result. Must hold the lock. */
static const char *why_not(struct ck_gpus *g, uint32_t i, char text[static 512])
{
	const struct ck_gpus_rounds *r = &g->rounds;
	const struct ck_gpus_peer *p = &r->peers[i];

	if (p->rank == UINT32_MAX)
		return "missing";
	if (!p->measured || is_used(p))
		return NULL;
	if (ck_gpulink_why_absent(g->link, r->set, p->rank, text, 512))
		return text;
	return "nothing has come";
}

/* A host's GPUs can be used by one process only. Must hold the lock. */
static int check_single(struct ck_gpus *g, struct ck_diag *d)
{
	struct ck_gpus_rounds *r = &g->rounds;

	for (uint32_t i = 0; i < r->npeers; i++) {
		struct ck_hosts_peer peer;

		ck_hosts_peer(r->hosts, i, &peer);
		if (peer.again && !peer.here)
			return ck_fail(d, EIO,
				       "option nccl=force: host %s: only the "
				       "first of its processes can: no :N",
				       ck_show(ck_str_from(peer.name)));
	}
	return 0;
}

/* Fails for the first peer that is not used. Must hold the lock. */
static int check_peers(struct ck_gpus *g, struct ck_diag *d)
{
	struct ck_gpus_rounds *r = &g->rounds;
	char text[512], peers[512];
	bool there = ck_gpulink_nccl(g->link, text, sizeof(text));

	for (uint32_t i = 0; i < r->npeers; i++) {
		struct ck_hosts_peer peer;
		const char *why = there ? why_not(g, i, peers) : text;

		ck_hosts_peer(r->hosts, i, &peer);
		if (peer.here || is_used(&r->peers[i]) ||
		    r->peers[i].rank == UINT32_MAX)
			continue;
		return ck_fail(d, EIO, "option nccl=force: host %s: %s",
			       ck_show(ck_str_from(peer.name)),
			       ck_show(ck_str_from(
				       why ? why : "it was not looked at")));
	}
	return 0;
}

/* Waits until all hosts have been measured. */
static int wait_settled(struct ck_gpus *g, struct ck_diag *d)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME, SETTLE_MSEC);
	struct ck_gpus_rounds *r = &g->rounds;
	int rc, waits = 0;

	pthread_mutex_lock(&r->lock);
	rc = check_single(g, d);
	while (rc == 0 && r->settled != r->set && waits == 0)
		waits = pthread_cond_timedwait(&r->changed, &r->lock, &end);
	if (rc == 0 && r->set == 0)
		rc = ck_fail(d, EIO,
			     "option nccl=force: no job of hosts has NCCL");
	else if (rc == 0)
		rc = check_peers(g, d);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

int ck_gpus_rounds_meet(struct ck_gpus *g, struct ck_hosts *hosts,
			struct ck_diag *d)
{
	struct ck_gpus_rounds *r = &g->rounds;
	struct ck_thread_init thread_init;
	int rc;

	if (!hosts || !g->options->hosts.rounds)
		return 0;
	r->hosts = hosts;
	thread_init = ck_fs_thread_init(g->options);
	rc = ck_thread_start_init(&r->thread, &thread_init, run, g);
	if (rc)
		return ck_fail(d, -rc, "GPUs: %s", strerror(-rc));
	r->started = true;
	return wait_settled(g, d);
}

void ck_gpus_part(struct ck_gpus *g)
{
	struct ck_gpus_rounds *r;

	if (!g || !g->rounds.started)
		return;
	r = &g->rounds;
	pthread_mutex_lock(&r->lock);
	r->ending = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	ck_gpulink_stop(g->link);
	pthread_join(r->thread, NULL);
	r->started = false;
}

void ck_gpus_rounds_print(struct ck_gpus *g, struct ck_buf *out)
{
	struct ck_gpus_rounds *r = &g->rounds;
	char text[512], peers[512];
	bool there = ck_gpulink_nccl(g->link, text, sizeof(text));

	pthread_mutex_lock(&r->lock);
	for (uint32_t i = 0; r->hosts && i < r->npeers; i++) {
		const struct ck_gpus_peer *p = &r->peers[i];
		struct ck_hosts_peer peer;

		ck_hosts_peer(r->hosts, i, &peer);
		if (peer.here || peer.again)
			continue;
		ck_stats_print_path(
			&(struct ck_stats_path){
				.host = peer.name,
				.path = "nccl",
				.gbps = p->rate.gbps,
				.usec = p->rate.usec,
				.used = is_used(p) && there,
				.reason = there ? why_not(g, i, peers) : text },
			out);
	}
	pthread_mutex_unlock(&r->lock);
}

void ck_gpus_rounds_free(struct ck_gpus *g)
{
	struct ck_gpus_rounds *r = &g->rounds;

	ck_rendezvous_link_fini(&r->link_fds);
	free(r->peers);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
}
