/* SPDX-License-Identifier: MIT */
/*
 * cluster_internal: struct ck_cluster; cluster.c has the current job, restart.c
 * the next one, which may replace it.
 */
#ifndef CK_CLUSTER_INTERNAL_H
#define CK_CLUSTER_INTERNAL_H

#include "cluster.h"
#include "dist/launch/rendezvous.h"
#include "dist/launch/retry_policy.h"
#include "dist/rpc/link.h"
#include "spawn_helper.h"

#include <pthread.h>

/* A job that may take over. */
struct ck_next_job {
	/* socket of its supervisor; -1 if there is no such job */
	int supervisor;
	struct ck_buf output; /* received from it */
	/* no hosts if there cannot be other jobs */
	struct ck_retry_policy tries;
	/* by host: enum ck_tried, as the supervisor reports it */
	uint8_t *tried;
	bool was_tried; /* was received */
	bool *there;	/* by host: takes part */
};

struct ck_cluster {
	/* Used by one thread at a time: the one that starts and ends the
	 * cluster, and in between the listener. The listener receives and logs
	 * messages of the job's processes, revalidates files and hosts, and
	 * restarts: */
	const struct ck_hosts_options *options;
	enum ck_beneath how;
	bool *there; /* by host of the list: takes part */
	int wanted;  /* argument of ck_cluster_start() */
	struct ck_host_rank *ranks;
	uint32_t nranks;
	struct ck_spawn_helper spawn_helper;
	int supervisor; /* socket of the job's supervisor; -1 without a job */
	int ended;	/* the same of a job that was replaced */
	struct ck_next_job next;
	uint32_t links; /* links made so far */
	/* liveness pipe of the rank, if an external launcher started the job;
	 * else -1 */
	int liveness;
	/* received from the supervisor; the last line may be incomplete */
	struct ck_buf output;
	char *room; /* receive buffer for messages */
	struct ck_link *link;
	struct ck_hosts *hosts;
	struct ck_stats *stats; /* by rank */
	bool measures; /* atomic: the listener is to measure hosts, too */
	pthread_t listener;
	int stop; /* eventfd that ends the listener; -1 if it was not started */
	struct ck_buf networks; /* log lines */

	pthread_mutex_t lock;
	/* Under lock: */
	/* link of a job that may take over or has; NULL without one */
	struct ck_link *next_link;
	bool ending; /* no further requests on any link */
};

/* Logs complete lines, and removes them. */
void ck_cluster_log_lines(struct ck_buf *output);
/* Returns the rank that mpirun gives to each host in `there`, by host. Caller
 * frees. NULL if out of memory. */
uint32_t *ck_cluster_numbers(const struct ck_cluster *c, const bool *there);
/* Makes a link, and takes ownership of *link_fds. numbers: of the ranks; NULL
 * means out of memory. Returns 0, or an errno with a message. */
CK_MUST_USE int ck_cluster_link_make(struct ck_cluster *c,
				     struct ck_rendezvous_link *link_fds,
				     const uint32_t *numbers,
				     struct ck_link **out, struct ck_diag *d);
/* Passes the link for rounds of the same job to the process that runs rounds,
 * if both exist. */
void ck_cluster_rounds_give(const struct ck_cluster *c,
			    struct ck_rendezvous_link *link_fds,
			    const uint32_t *numbers);
/* Takes the links out of a message that a job is up. */
struct ck_cluster_links ck_cluster_links_of(const struct ck_control_msg *n);

/* --- the next job; listener only, except for the first function ----------- */

/* Prepares the retry policy, if other jobs are possible. Returns 0 or
 * -ENOMEM. */
CK_MUST_USE int ck_restart_prepare(struct ck_cluster *c);
/* Starts another job if it is time to. */
void ck_restart_poll(struct ck_cluster *c);
/* Receives a message of its supervisor. */
void ck_restart_receive(struct ck_cluster *c);

#endif
