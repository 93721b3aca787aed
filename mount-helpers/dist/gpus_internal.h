/* SPDX-License-Identifier: MIT */
/*
 * What the parts of gpus share: gpus.c (the mover), gpus_rounds.c (which hosts' bytes come
 * to it by NCCL).
 */
#ifndef CK_GPUS_INTERNAL_H
#define CK_GPUS_INTERNAL_H

#include "ckptfs/gpu.h"
#include "ckptfs/gpulink.h"
#include "ckptfs/hosts.h"
#include "ckptfs/rendezvous.h"
#include "ckptfs/subprocess.h"
#include "gpus.h"

#include <pthread.h>

/* One of the hosts' processes. */
struct ck_gpus_peer {
	uint32_t rank; /* in the job; UINT32_MAX: it is not in it */
	struct ck_gpulink_rate rate; /* 0: NCCL is not used */
	bool measured;
};

struct ck_gpus_rounds {
	/* Constant once it is made: */
	struct ck_rounds_taker taker;
	char devices[CK_GPUS_TEXT]; /* for the ranks, as text */
	/* Constant once the thread runs: */
	struct ck_hosts *hosts;
	pthread_t thread;
	bool started;

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct ck_rendezvous_way way; /* to the rank, while there is no link */
	uint32_t set;		      /* the job's number; 0: there is none */
	uint32_t settled; /* the one of which it is known who is used */
	uint32_t npeers;
	struct ck_gpus_peer *peers;
	bool ending;
};

struct ck_gpus {
	struct ck_mount_options *options;
	struct ck_subprocess job; /* what forks movers */
	int sock;		  /* to that */
	struct ck_gpulink *link;
	struct ck_stats *stats;
	char host[256];
	bool counts; /* nobody else does */
	struct ck_gpus_rounds rounds;
};

/* Has hosts' ranks be started for rounds, if the options want them. */
void ck_gpus_rounds_make(struct ck_gpus *g);
/* The link is there. */
void ck_gpus_rounds_link(struct ck_gpus *g);
void ck_gpus_rounds_print(struct ck_gpus *g, struct ck_buf *out);
void ck_gpus_rounds_free(struct ck_gpus *g);

#endif
