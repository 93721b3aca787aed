/* SPDX-License-Identifier: MIT */
/*
 * rounds: the protocol by which ranks agree on rounds. A round is a set of
 * transfers that all of its ranks must execute together, and in the same order
 * relative to other rounds, as NCCL requires: a rank that enters a round hangs
 * if another rank never enters it. So a rank enters a round only after every
 * rank of the round has reported that it is ready, and after the round has a
 * number.
 *
 *	initiator		participants			sequencer
 *	PREPARE(op)	  ->	allocate memory, read files
 *			  <-	READY(op, counts) | REFUSED(op, errno)
 *	all are READY:
 *	PROPOSE(op, counts)			   ->	do counts agree? next n
 *				GO(n, op)	  <-
 *				run rounds in increasing n
 *			  <-	DONE(op) | REFUSED(op, errno)
 *	OVER(op, 0)	  ->	release the memory
 *
 * The initiator is one of the round's ranks and sends these messages to itself,
 * too. If any participant does not reach DONE, it sends OVER(op, errno); the
 * bytes must then be transferred by another path, outside of this protocol. A
 * round ends at its initiator within prepare_msec + 2 * round_msec, even if
 * ranks die or hang.
 *
 * The sequencer is the lowest rank that is not lost. It numbers rounds within
 * an *epoch*, in which the set of ranks and their communicator stay the same. A
 * rank that sees a lost rank, or a round that fails or times out, sends BROKEN
 * to the sequencer, which begins the next epoch: all ranks abort their running rounds.
 * If the sequencer is lost, the next sequencer begins an epoch. Initiators
 * propose unaffected rounds again, with the memory that their participants
 * still hold; therefore participants release memory only at OVER. An epoch
 * number is congruent to the rank of its sequencer, modulo the number of ranks.
 * If two epochs begin at the same time, the greater number wins.
 *
 * There is no I/O and no clock here: the user (struct ck_round_user) carries
 * messages, in order between two ranks, and passes the time in. One thread. No
 * message is sent while no round is in progress, and ck_rounds_tick() need not
 * be called then.
 */
#ifndef CKPTFS_ROUNDS_H
#define CKPTFS_ROUNDS_H

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
struct ck_round_backend {
	/* An epoch begins, and communicators of earlier epochs are void. No round
	 * runs. members: n ranks, ascending; token: equal on all ranks. Each member
	 * is called, so that together they can make a communicator. An
	 * implementation that must wait for it calls ready() when it is made. */
	void (*epoch)(struct ck_round_backend *m, uint64_t epoch,
		      const uint32_t *members, uint32_t n,
		      const uint8_t token[static CK_ROUND_TOKEN]);
	/* Makes the token of an epoch that this rank begins. NULL: the token is
	 * zeros. */
	void (*token)(struct ck_round_backend *m,
		      uint8_t out[static CK_ROUND_TOKEN]);
	/* Starts all pairs of a round. Never blocks. Returns 0 or an error. An
	 * error costs all ranks an epoch, so a rank that cannot transfer any more
	 * must refuse to prepare. */
	int (*begin)(struct ck_round_backend *m, struct ck_round *r);
	/* State of the round that began last. Returns -EINPROGRESS if it runs; 0 if
	 * the part of this rank is complete; another error if it failed. Unless
	 * -EINPROGRESS, the round does not access its memory any more. */
	int (*poll)(struct ck_round_backend *m, struct ck_round *r);
	/* Cancels a round, whatever its peers do. The caller polls until it has
	 * ended. */
	void (*abort)(struct ck_round_backend *m, struct ck_round *r);
};

enum {
	CK_ROUND_WHAT = 64 << 10,    /* bytes of a transfer list */
	CK_ROUND_MESSAGES = 1 << 20, /* in a round, between two ranks */
	CK_ROUNDS_SIZE = 4096,	     /* ranks of a job */
	CK_ROUNDS_BODY = 144 << 10,  /* bytes of a message, at most */
};

#define CK_ROUND_BYTES (UINT64_C(1) << 40) /* between two ranks, at most */
#define CK_ROUNDS_IDLE UINT32_MAX

/* The callbacks of the user. The functions below call them. They must not call
 * those functions, except that prepare() may call ck_rounds_ready() and
 * ck_rounds_refuse(). */
struct ck_round_user {
	/* Sends a message to a rank, which may be this one. Borrows body. Never
	 * blocks. A round fails by timeout if one of its messages is lost. */
	void (*send)(struct ck_round_user *u, uint32_t to, struct ck_str body);
	/* A rank has requested a round with this rank in it. Borrows what, its
	 * transfer list. The user calls ck_rounds_ready() once all bytes to
	 * send are in place and the memory to receive is allocated, or
	 * ck_rounds_refuse(). */
	void (*prepare)(struct ck_round_user *u, struct ck_round *r,
			struct ck_str what);
	/* Ends this rank's part in r: called once after each prepare() that was
	 * not refused. r is freed when this returns, and its memory is the
	 * user's again. rc: 0 if all of its transfers were executed; else an
	 * error, and the bytes must be transferred by another path. */
	void (*ended)(struct ck_round_user *u, struct ck_round *r, int rc);
	/* Completes an op of ck_rounds_request(), once. This rank's own part in
	 * it may end later. rc: 0, or: -EBUSY if a rank is in too many rounds;
	 * -EHOSTDOWN if a rank is lost; -EBADMSG if the counts of two ranks
	 * differ; -ETIMEDOUT; -ECANCELED; -ENOMEM; the error with which a rank
	 * has refused it. */
	void (*over)(struct ck_round_user *u, uint64_t op, int rc);
};

struct ck_rounds_options {
	uint32_t rank, size;
	/* Rounds in which this rank may take part at a time, and rounds that it
	 * may have requested. */
	uint32_t most;
	uint32_t prepare_msec; /* timeout until all ranks are ready */
	uint32_t round_msec;   /* timeout of a round that has begun */
};

struct ck_rounds; /* opaque */

/* Borrows user and backend. now: milliseconds of a monotonic clock. The caller
 * must call ck_rounds_tick() next. Returns NULL if out of memory or the options
 * are invalid. */
struct ck_rounds *ck_rounds_make(const struct ck_rounds_options *o,
				 struct ck_round_user *user,
				 struct ck_round_backend *backend,
				 uint64_t now);
/* No round may be running, see ck_rounds_end(). NULL is allowed. */
void ck_rounds_free(struct ck_rounds *all);

/* Requests a round of n ranks, ascending, of which this rank is one. Copies
 * ranks and what, the transfer list. *op identifies the round. Returns 0, and
 * over() is called later, or: -EBUSY if too many rounds are requested;
 * -EHOSTDOWN if a rank or the sequencer is lost or did not reply lately;
 * -ECANCELED after ck_rounds_end(); -EINVAL; -ENOMEM. */
CK_MUST_USE int ck_rounds_request(struct ck_rounds *all, const uint32_t *ranks,
				  uint32_t n, struct ck_str what, uint64_t *op);
/* This rank is ready for a round: pairs are the n peers with which it has
 * transfers. Does nothing if the round has ended. Returns 0, or: -EINVAL if the
 * round is not being prepared or the pairs are invalid. */
CK_MUST_USE int ck_rounds_ready(struct ck_rounds *all, uint64_t op,
				const struct ck_round_pair *pairs, uint32_t n);
/* Refuses a round that is being prepared. err: negative. Frees the ck_round
 * without a call of ended(). */
void ck_rounds_refuse(struct ck_rounds *all, uint64_t op, int err);

/* Handles a message from a rank; borrows body. Returns 0, or: -EPROTO if the
 * message is invalid; the caller must then treat the rank as lost. */
CK_MUST_USE int ck_rounds_receive(struct ck_rounds *all, uint32_t from,
				  struct ck_str body, uint64_t now);
/* The rank is lost, permanently. */
void ck_rounds_lost(struct ck_rounds *all, uint32_t rank, uint64_t now);
/* Applies timeouts and runs rounds. Must be called after each of the calls
 * above, when the backend has made progress, and when the returned time has
 * passed. Returns milliseconds, or CK_ROUNDS_IDLE if no round is in
 * progress. */
CK_MUST_USE uint32_t ck_rounds_tick(struct ck_rounds *all, uint64_t now);
/* Ends all rounds: those in progress fail with -ECANCELED, a running one is
 * aborted. Returns true if all have ended; false if the abort is not complete,
 * and ck_rounds_tick() must be called until it is. */
CK_MUST_USE bool ck_rounds_end(struct ck_rounds *all, uint64_t now);

#endif
