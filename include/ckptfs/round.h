/* SPDX-License-Identifier: MIT */
/*
 * round: a set of transfers between ranks that all its ranks make together, and the
 * interface that runs it. Ranks agree on the order of rounds in rounds.h. A part of
 * io.
 */
#ifndef CKPTFS_ROUND_H
#define CKPTFS_ROUND_H

#include "ckptfs/base.h"

enum {
	CK_ROUND_RANKS = 64,  /* most ranks of a round */
	CK_ROUND_TOKEN = 128, /* bytes, as many as an ncclUniqueId has */
};

struct ck_round_count {
	uint64_t bytes;
	uint32_t messages;
};

/* Bytes that a rank sends to a peer in a round, and bytes that it receives. */
struct ck_round_pair {
	uint32_t peer;
	struct ck_round_count sent, received;
};

/* A round as one of its ranks has it. */
struct ck_round {
	uint64_t op; /* number of the round, unique in a job */
	/* Set while the round runs: its sequence number, and the epoch of that
	 * number. */
	uint64_t n, epoch;
	uint32_t nranks;
	uint32_t ranks[CK_ROUND_RANKS]; /* in ascending order */
	/* pairs of this rank, set when it is ready */
	uint32_t npairs;
	struct ck_round_pair pairs[CK_ROUND_RANKS]; /* by ascending peer */
	void *arg;				    /* for the user */
};

/* Runs rounds, one at a time, in the order that all ranks agree on. NCCL implements
 * it; the tests have an implementation over an xport. */
struct ck_round_mover {
	/* An epoch begins, and communicators of earlier epochs are void. No round
	 * runs. members: n ranks, ascending; token: equal on all ranks. Each member
	 * is called, so that together they can make a communicator. An
	 * implementation that must wait for it calls ready() when it is made. */
	void (*epoch)(struct ck_round_mover *m, uint64_t epoch,
		      const uint32_t *members, uint32_t n,
		      const uint8_t token[static CK_ROUND_TOKEN]);
	/* Makes the token of an epoch that this rank begins. NULL: the token is
	 * zeros. */
	void (*token)(struct ck_round_mover *m,
		      uint8_t out[static CK_ROUND_TOKEN]);
	/* Starts all pairs of a round. Never blocks. Returns 0 or an error. An
	 * error costs all ranks an epoch, so a rank that cannot transfer any more
	 * must refuse to prepare. */
	int (*begin)(struct ck_round_mover *m, struct ck_round *r);
	/* State of the round that began last. Returns -EINPROGRESS if it runs; 0 if
	 * the part of this rank is complete; another error if it failed. Unless
	 * -EINPROGRESS, the round does not access its memory any more. */
	int (*poll)(struct ck_round_mover *m, struct ck_round *r);
	/* Cancels a round, whatever its peers do. The caller polls until it has
	 * ended. */
	void (*abort)(struct ck_round_mover *m, struct ck_round *r);
};

#endif
