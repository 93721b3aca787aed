/* SPDX-License-Identifier: MIT */
/*
 * calls: requests on their way to peers, and what becomes of each: its answer, or an
 * error within a time. Peers that are silent are asked whether they are there, and are
 * down if they do not say so; what only they could answer fails at once then, until they
 * answer what they were asked since. No input or output here, and no clock: a line carries messages and says what time it is.
 *
 * A line that ends is not replaced: whoever sent calls sends them to those of another.
 */
#ifndef CKPTFS_CALLS_H
#define CKPTFS_CALLS_H

#include "ckptfs/wire.h"

/* Carries messages. It has one thread, which calls whatever says so below; send() and
 * wake() may be called by any. */
struct ck_line {
	/* 0: it is on its way, or lost. -EAGAIN: there is no room now; then the
	 * line's thread calls ck_calls_tick() when there may be. Never waits. The
	 * request is the caller's when it returns. Not called at the same time by two
	 * threads. */
	int (*send)(struct ck_line *l, uint32_t peer, const struct ck_ask *a);
	/* The line's thread is to call ck_calls_tick() soon. */
	void (*wake)(struct ck_line *l);
};

struct ck_calls; /* opaque */

struct ck_calls_options {
	uint32_t npeers;
	uint32_t ping_msec;    /* who is silent that long is asked */
	uint32_t silence_msec; /* and is down after so long */
	/* A call that was sent so long ago is given up, and one that waits so long
	 * while its peer answers none. */
	uint32_t timeout_msec;
	uint64_t window; /* bytes of answers asked of one peer at a time; a
				* single call may have more */
	uint32_t epoch;	 /* of what is sent; answers of another are no one's */
	/* So long after a peer was heard last, patient calls to it wait for another
	 * line; 0: nobody waits for one. */
	uint32_t hold_msec;
	struct ck_stats *stats; /* what comes is counted; NULL: it is not */
};

/* A request to one peer, of whoever waits for its answer. */
struct ck_call {
	/* Set by the caller, and his until it is sent and after it came: */
	struct ck_ask ask; /* but its head's id and epoch */
	uint32_t peer;
	bool patient; /* it waits while the peer is down, see hold_msec */
	bool brief;   /* it takes 2 s at most, of those that are left */
	uint64_t
		spent; /* milliseconds of its time that are over already, since it
			 * was sent to another peer before; with those it took when
			 * it came */
	/* Called once, in the line's thread, which holds no lock. m: the answer, for
	 * the ck_take_ function of the request, good until this returns; NULL: there
	 * is none, and rc says why: -EIO (the peer is down, or makes no progress),
	 * -EINTR (it was dropped). Returns -EPROTO if m is no answer to it, else 0. */
	int (*came)(struct ck_call *c, const struct ck_message *m, int rc);
	/* Private, under ck_calls.lock: */
	struct ck_call *next, *prev;
	struct ck_call *same; /* in its bucket */
	uint64_t since;	      /* when it was sent, or began to wait */
	uint8_t state;
	int rc;
};

/* All peers are up at first. now: milliseconds, of a clock that never goes back. NULL:
 * out of memory. */
struct ck_calls *ck_calls_make(const struct ck_calls_options *options,
			       struct ck_line *line, uint64_t now);
/* Nothing is on its way. NULL is allowed. */
void ck_calls_free(struct ck_calls *all);

/* Sends it, or has it wait for those before. Any thread, which may hold a lock that
 * came() does not take. */
void ck_calls_send(struct ck_calls *all, struct ck_call *c);
/* Nobody waits for it any more: came() is called soon, if it was not yet. Until it is
 * the call must be there. Any thread. */
void ck_calls_drop(struct ck_calls *all, struct ck_call *c);
/* There will be no other line for now: calls that wait for one fail, and later ones too,
 * until another peer goes down. Any thread. */
void ck_calls_release(struct ck_calls *all);
bool ck_calls_is_up(struct ck_calls *all, uint32_t peer);
/* As of its options. */
uint32_t ck_calls_epoch(const struct ck_calls *all);

/* --- the line's thread only ------------------------------------------------------- */

/* A message came from a peer; it is borrowed. -EPROTO: it is none that may come, and
 * nobody should have to do with that peer any more. */
CK_MUST_USE int ck_calls_take(struct ck_calls *all, uint32_t peer,
			      const struct ck_message *m, uint64_t now);
/* To be called when the time is over that it returned last, in milliseconds. */
CK_MUST_USE uint32_t ck_calls_tick(struct ck_calls *all, uint64_t now);
/* A peer is known to be gone. */
void ck_calls_lost(struct ck_calls *all, uint32_t peer);
/* Nothing is sent any more: all calls fail, later ones too, but for those that wait for
 * another line. */
void ck_calls_end(struct ck_calls *all);

/* --- asking, for those who may wait ------------------------------------------------ */

/* Sends a request and waits until take() was called with its answer, or there is none.
 * Errors of take(), and of ck_call. */
CK_MUST_USE int ck_calls_wait(struct ck_calls *all, uint32_t peer,
			      struct ck_ask *a,
			      int (*take)(const struct ck_ask *a,
					  const struct ck_message *m,
					  void *arg),
			      void *arg);
/* What a peer says of n names; several LOOKs are on their way at a time. */
CK_MUST_USE int ck_calls_look(struct ck_calls *all, uint32_t peer,
			      struct ck_ids shown, const struct ck_str *names,
			      size_t n, struct ck_looked *out);

#endif
