/* SPDX-License-Identifier: MIT */
/*
 * rank_rounds: a rank without a mount has a process beside it that makes rounds by NCCL, a
 * mover of GPUs (gpus.h). It is started before the rank gives up what that takes, and ends
 * with it, however it ends.
 */
#ifndef CKPTFS_RANK_ROUNDS_H
#define CKPTFS_RANK_ROUNDS_H

#include "ckptfs/rendezvous.h"
#include "ckptfs/subprocess.h"

struct ck_rank_rounds {
	struct ck_rendezvous_way way; /* the rank's end; of -1: there is none */
	int sock;		      /* to what forks the process */
	struct ck_subprocess job;     /* that */
};

#define CK_RANK_NO_ROUNDS                                                      \
	{                                                                      \
		CK_RENDEZVOUS_NO_WAY, -1, { .ended = -1, .said = -1 },         \
	}

/* devices, net: see ck_launch_options. There is none, and that is no error, where another
 * rank of the host has one: NCCL takes no GPU twice. Errors with a message. */
CK_MUST_USE int ck_rank_rounds_start(struct ck_rank_rounds *r,
				     const char *devices, const char *net,
				     struct ck_diag *d);
/* Waits, but not for long, until it is gone. */
void ck_rank_rounds_end(struct ck_rank_rounds *r);

#endif
