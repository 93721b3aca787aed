/* SPDX-License-Identifier: MIT */
/*
 * gpus_internal: struct ck_gpus; gpus.c has the worker, gpus_rounds.c the hosts
 * whose bytes arrive by NCCL.
 */
#ifndef CK_GPUS_INTERNAL_H
#define CK_GPUS_INTERNAL_H

#include "ckptfs/hosts.h"
#include "dist/launch/rendezvous.h"
#include "dist/launch/subprocess.h"
#include "gpu/worker/gpulink.h"
#include "gpus.h"

#include <pthread.h>

/* A process of a host. */
struct ck_gpus_peer {
	uint32_t rank; /* in the job; UINT32_MAX if it takes no part */
	struct ck_gpulink_rate rate; /* zeros if NCCL is not used */
	bool measured;
};

struct ck_gpus_rounds {
	/* Constant after ck_gpus_rounds_make(): */
	struct ck_rounds_taker taker;
	char devices[CK_GPUS_TEXT]; /* for the ranks, as text */
	/* Constant while the thread runs: */
	struct ck_hosts *hosts;
	pthread_t thread;
	bool started;

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	/* link to a rank, while there is no gpulink */
	struct ck_rendezvous_link link_fds;
	uint32_t set;	  /* number of the job; 0 without a job */
	uint32_t settled; /* the job for which all hosts have been measured */
	uint32_t npeers;
	struct ck_gpus_peer *peers;
	bool ending;
};

struct ck_gpus {
	struct ck_mount_options *options;
	struct ck_subprocess job; /* the process that forks workers */
	int sock;		  /* its socket */
	struct ck_gpulink *link;
	char host[256];
	bool alone; /* all files are on this host */
	struct ck_gpus_rounds rounds;
};

/* Requests rounds from the ranks of hosts, if the options ask for them. */
void ck_gpus_rounds_make(struct ck_gpus *g);
/* The gpulink exists: hands over a job that has come earlier. */
void ck_gpus_rounds_link(struct ck_gpus *g);
/* With nccl=force, waits until NCCL has transferred bytes from every host; hosts may
 * be NULL. -EIO if a host cannot. */
CK_MUST_USE int ck_gpus_rounds_meet(struct ck_gpus *g, struct ck_hosts *hosts,
				    struct ck_diag *d);
/* Prints a row for each host. */
void ck_gpus_rounds_print(struct ck_gpus *g, struct ck_buf *out);
/* Ends the thread, and frees the state. */
void ck_gpus_rounds_free(struct ck_gpus *g);

#endif
