/* SPDX-License-Identifier: MIT */
/*
 * round: a set of transfers between ranks which all of its ranks have to make together, and
 * what moves it. Ranks agree about rounds by what rounds.h has. A part of move.
 */
#ifndef CKPTFS_ROUND_H
#define CKPTFS_ROUND_H

#include "ckptfs/base.h"

enum {
	CK_ROUND_RANKS = 64,  /* at most, in a round */
	CK_ROUND_TOKEN = 128, /* bytes, as ncclUniqueId has */
};

struct ck_round_count {
	uint64_t bytes;
	uint32_t messages;
};

/* What a rank says that it sends to another in a round, and receives from it. */
struct ck_round_pair {
	uint32_t peer;
	struct ck_round_count sent, received;
};

/* A round as one of its ranks has it. */
struct ck_round {
	uint64_t op; /* unique in a job */
	/* While it is being run: its number, and of which epoch that is. */
	uint64_t n, epoch;
	uint32_t nranks;
	uint32_t ranks[CK_ROUND_RANKS]; /* ascending */
	uint32_t npairs;		/* of this rank, once it is ready */
	struct ck_round_pair pairs[CK_ROUND_RANKS]; /* by ascending peer */
	void *arg;				    /* the user's */
};

/* Moves rounds. NCCL does; the tests have one that keeps its rules over an
 * xport. It is told one round at a time, in the order that all ranks agree on. */
struct ck_round_mover {
	/* An epoch has begun: what was made for an earlier one is of no use any more.
	 * members: n ranks, ascending; token: the same for all. Nothing is being run.
	 * Each member is told, so that they can make a communicator together; whoever
	 * has one to wait for says ready() only when it is there. */
	void (*epoch)(struct ck_round_mover *m, uint64_t epoch,
		      const uint32_t *members, uint32_t n,
		      const uint8_t token[static CK_ROUND_TOKEN]);
	/* The token of an epoch that this rank begins; NULL: zeros. */
	void (*token)(struct ck_round_mover *m,
		      uint8_t out[static CK_ROUND_TOKEN]);
	/* Starts to move all pairs of a round, and never waits: 0, or an error. An error
	 * costs all ranks an epoch: who can move nothing any more refuses to prepare. */
	int (*begin)(struct ck_round_mover *m, struct ck_round *r);
	/* Of the round begun last. -EINPROGRESS: it goes on; 0: this rank's part has
	 * come to its end; other errors: it never will. Any of these but the first says
	 * that its memory is not used any more. */
	int (*poll)(struct ck_round_mover *m, struct ck_round *r);
	/* It is not to go on, whatever others do: it is polled until it does not. */
	void (*abort)(struct ck_round_mover *m, struct ck_round *r);
};

#endif
