/* SPDX-License-Identifier: MIT */
/*
 * What the parts of a cluster share: cluster.c has the job that there is, restart.c the
 * one that may take over.
 */
#ifndef CK_CLUSTER_INTERNAL_H
#define CK_CLUSTER_INTERNAL_H

#include "ckptfs/link.h"
#include "ckptfs/rendezvous.h"
#include "ckptfs/retry_policy.h"
#include "cluster.h"
#include "spawn_helper.h"

#include <pthread.h>

/* A job that may take over. */
struct ck_next_job {
	int keeper;		      /* -1: there is none */
	struct ck_buf said;	      /* by it */
	struct ck_retry_policy tries; /* of no hosts: there are no other jobs */
	uint8_t *tried; /* by host, of enum ck_tried, by the keeper */
	bool was_tried; /* that was said */
	bool *there;	/* by host: who takes part */
};

struct ck_cluster {
	/* Of one thread at a time, that which starts and ends it, and in between that
	 * which listens, logs what processes say, asks hosts again what they have, and
	 * whether they are back: */
	const struct ck_hosts_options *options;
	enum ck_beneath how;
	bool *there; /* by host of the list */
	int wanted;  /* see ck_cluster_start() */
	struct ck_host_rank *ranks;
	uint32_t nranks;
	struct ck_spawn_helper starter;
	int keeper; /* of the job; -1: there is none */
	int ended;  /* the same of one that was taken over */
	struct ck_next_job next;
	uint32_t links; /* that were made */
	int rope; /* to a rank of a job that is another's; -1: it is not */
	struct ck_buf
		said; /* by the keeper, of which the last line may not be whole */
	char *room;   /* for its notes */
	struct ck_link *link;
	struct ck_hosts *hosts;
	struct ck_stats *stats; /* by rank */
	bool measures; /* atomic: who listens is to measure hosts, too */
	pthread_t listener;
	int stop; /* an eventfd that ends it; -1: it was not started */
	struct ck_buf networks; /* lines for the log */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_link
		*asked; /* of a job that may take over, or has; or NULL */
	bool ending;	/* none is to be asked any more */
};

/* Logs whole lines; what is left waits for its end. */
void ck_cluster_log_lines(struct ck_buf *said);
/* What mpirun numbers the ranks if those hosts are there. Owned; NULL: out of memory. */
uint32_t *ck_cluster_numbers(const struct ck_cluster *c, const bool *there);
/* The way is the link's then. numbers: of the ranks; NULL: out of memory. Errors with a
 * message. */
CK_MUST_USE int ck_cluster_link_make(struct ck_cluster *c,
				     struct ck_rendezvous_way *way,
				     const uint32_t *numbers,
				     struct ck_link **out, struct ck_diag *d);
/* Gives the way of the same job's rounds to whoever takes it, if there is one. */
void ck_cluster_rounds_give(const struct ck_cluster *c,
			    struct ck_rendezvous_way *way,
			    const uint32_t *numbers);
/* What a note says that a job is up with. */
struct ck_cluster_ways ck_cluster_ways_of(const struct ck_control_msg *n);

/* --- another job; by the thread that listens, but for the first ------------------------- */

/* Whether there may be one. -ENOMEM. */
CK_MUST_USE int ck_restart_prepare(struct ck_cluster *c);
/* Tries one if it is time to. */
void ck_restart_look(struct ck_cluster *c);
/* What its keeper says. */
void ck_restart_hear(struct ck_cluster *c);

#endif
