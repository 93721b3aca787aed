/* SPDX-License-Identifier: MIT */
/*
 * rank_rounds: the process that runs NCCL rounds for a rank without mount: a
 * GPU worker (gpus.h). It is started before the rank drops its privileges, and
 * ends with the rank, for whatever reason.
 */
#ifndef CKPTFS_RANK_ROUNDS_H
#define CKPTFS_RANK_ROUNDS_H

#include "dist/launch/rendezvous.h"
#include "dist/launch/subprocess.h"

struct ck_rank_rounds {
	/* the rank's end of the link; sock is -1 without a process */
	struct ck_rendezvous_link link_fds;
	int sock;		  /* of the process that forks the worker */
	struct ck_subprocess job; /* that process */
};

#define CK_RANK_NO_ROUNDS                                                      \
	{                                                                      \
		CK_RENDEZVOUS_NO_LINK, -1, { .ended = -1, .errors = -1 },      \
	}

/* Starts it. devices, net: as in ck_launch_options. Only the first rank of a
 * host starts one, since NCCL cannot use a GPU twice; others return 0 without a
 * process. Returns 0, or an errno with a message. */
CK_MUST_USE int ck_rank_rounds_start(struct ck_rank_rounds *r,
				     const char *devices, const char *net,
				     struct ck_diag *d);
/* Ends it, and waits at most 1 s. */
void ck_rank_rounds_end(struct ck_rank_rounds *r);

#endif
