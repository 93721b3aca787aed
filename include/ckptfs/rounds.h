/* SPDX-License-Identifier: MIT */
/*
 * rounds: agreement of ranks about rounds. A round is a set of transfers between ranks
 * which all of its ranks have to make together and in the same order as all others, as
 * NCCL wants it: who enters one that another never enters hangs. So nobody enters a round
 * before each of its ranks has said that it can, and before it has a number.
 *
 *	asker			ranks of the round		sequencer
 *	PREPARE(op)	  ->	take memory, read files
 *			  <-	READY(op, counts) | REFUSED(op, errno)
 *	all are READY:
 *	PROPOSE(op, counts)				   ->	do counts agree? next n
 *				GO(n, op)		  <-
 *				run rounds in increasing n
 *			  <-	DONE(op) | REFUSED(op, errno)
 *	OVER(op, 0)	  ->	the memory is free again
 *
 * The asker is one of the round's ranks, and says all this to itself too. With anything
 * but DONE from all it says OVER(op, errno): then the bytes have to come the other way,
 * which is not the business of rounds. A round has come to its end within prepare_msec +
 * 2 * round_msec at the asker, whatever dies or hangs.
 *
 * The sequencer is the lowest rank that lives. It numbers within an *epoch*, in which
 * ranks and their communicator stay the same. When a rank is lost, or a round fails or
 * does not end, whoever has it says BROKEN to the sequencer, which begins the next epoch:
 * all abort what they run. So it is if the sequencer is lost, by the one that takes over.
 * Rounds that were not to blame are proposed again by their askers, with the memory that
 * their ranks still hold for them; that is why nobody frees it before OVER. The number of
 * an epoch says whose it is: it is congruent to the rank of its sequencer, modulo the
 * number of ranks; of two that begin one at a time the greater number holds.
 *
 * No input or output here, and no clock: whoever has this carries messages, which arrive
 * in order between two ranks, and says what time it is. One thread. When nothing is under
 * way nothing is sent, and nobody has to be called.
 */
#ifndef CKPTFS_ROUNDS_H
#define CKPTFS_ROUNDS_H

#include "ckptfs/round.h"

enum {
	CK_ROUND_WHAT = 64 << 10,    /* bytes that say what is wanted */
	CK_ROUND_MESSAGES = 1 << 20, /* in a round, between two ranks */
	CK_ROUNDS_SIZE = 4096,	     /* ranks of a job */
	CK_ROUNDS_BODY = 144 << 10,  /* bytes of a message, at most */
};

#define CK_ROUND_BYTES (UINT64_C(1) << 40) /* between two ranks, at most */
#define CK_ROUNDS_IDLE UINT32_MAX

/* Whoever has this. His functions are called from those below and call none of them,
 * but prepare() may call ck_rounds_ready() and ck_rounds_refuse(). */
struct ck_round_user {
	/* Carries a message to a rank, or to this one. Never waits. What gets lost
	 * makes a round fail when its time is over. */
	void (*send)(struct ck_round_user *u, uint32_t to, struct ck_str body);
	/* A rank wants a round of which this one is to be: what is borrowed. As soon as
	 * all of its bytes are where the mover takes them from, and there is room for
	 * those that come: ck_rounds_ready(); if that cannot be: ck_rounds_refuse(). */
	void (*prepare)(struct ck_round_user *u, struct ck_round *r,
			struct ck_str what);
	/* r is gone when this returns, and what it holds is the user's again; once after
	 * each prepare() that was not refused. 0: all of its transfers were made;
	 * else what it was to bring comes another way. */
	void (*ended)(struct ck_round_user *u, struct ck_round *r, int rc);
	/* What became of an op that was asked for here, once: 0, or why its bytes have
	 * to come another way. This rank's part in it may end later. -EBUSY: a rank is
	 * in too many rounds; -EHOSTDOWN: one is lost; -EBADMSG: counts do not agree;
	 * -ETIMEDOUT; -ECANCELED; what a rank has refused it with. */
	void (*over)(struct ck_round_user *u, uint64_t op, int rc);
};

struct ck_rounds_options {
	uint32_t rank, size;
	uint32_t most; /* rounds that this rank has a part in at a time */
	uint32_t prepare_msec; /* until all ranks are ready */
	uint32_t round_msec;   /* from the begin of a round to its end */
};

struct ck_rounds; /* opaque */

/* now: milliseconds, of a clock that never goes back. ck_rounds_tick() is due. NULL: out
 * of memory, or options that cannot be. */
struct ck_rounds *ck_rounds_make(const struct ck_rounds_options *o,
				 struct ck_round_user *user,
				 struct ck_round_mover *mover, uint64_t now);
/* Nothing is being run: see ck_rounds_end(). NULL is allowed. */
void ck_rounds_free(struct ck_rounds *all);

/* Asks n ranks, ascending, of which this is one, for a round. -EBUSY: too many were asked
 * for; -EHOSTDOWN: one of them is lost, or has not answered for a while, or the sequencer
 * has not; -EINVAL, -ENOMEM. */
CK_MUST_USE int ck_rounds_ask(struct ck_rounds *all, const uint32_t *ranks,
			      uint32_t n, struct ck_str what, uint64_t *op);
/* This rank is ready for a round that it has prepared, or that has ended meanwhile.
 * -EINVAL: what is said cannot be. */
CK_MUST_USE int ck_rounds_ready(struct ck_rounds *all, uint64_t op,
				const struct ck_round_pair *pairs, uint32_t n);
/* It cannot be: err < 0. The ck_round is gone, without ended(). */
void ck_rounds_refuse(struct ck_rounds *all, uint64_t op, int err);

/* A message came from a rank. -EPROTO: it is none that may come; that rank is as lost. */
CK_MUST_USE int ck_rounds_take(struct ck_rounds *all, uint32_t from,
			       struct ck_str body, uint64_t now);
/* A rank is gone for good. */
void ck_rounds_lost(struct ck_rounds *all, uint32_t rank, uint64_t now);
/* To be called when the time is over that it returned last, in milliseconds, after each
 * of the calls above, and when the mover has got on. CK_ROUNDS_IDLE: nothing to be called
 * for. */
CK_MUST_USE uint32_t ck_rounds_tick(struct ck_rounds *all, uint64_t now);
/* There are to be no more rounds: all that are under way fail, what is being run is
 * aborted. False: it has not ended yet, ck_rounds_tick() goes on with it. */
CK_MUST_USE bool ck_rounds_end(struct ck_rounds *all, uint64_t now);

#endif
