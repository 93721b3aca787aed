/* SPDX-License-Identifier: MIT */
/*
 * rounds_harm: protocol violations of one rank of a job. The rank dies or stops in
 * some phase of a round, runs two rounds in the wrong order, or states other
 * counts than its peers. The plan of a job selects the violation.
 */
#ifndef CK_ROUNDS_HARM_H
#define CK_ROUNDS_HARM_H

#include "dist/round/rounds_internal.h"
#include "xport_case.h"
#include "xport_ordered.h"

#include <signal.h>

enum harm_kind { NO_HARM, DIES, STOPS, SWAPS, LIES };

/* Trigger: a message was received from another rank; a message is being sent to one, the
 * last one of that rank; or a round began. */
enum harm_when { COMES, GOES, BEGINS };

/* Each rank requests rounds until this event; FAILURE: or until `who` is lost. */
enum rank_until { ENOUGH, LATER_EPOCH, FAILURE };

struct rank_plan {
	uint64_t seed, rounds; /* requested by each rank, at least */
	enum rank_until until;
	uint32_t prepare_msec, round_msec;
	unsigned late_one_in, refuse_one_in;
	uint64_t late_usec;
	bool everybody; /* every rank sends to all in each round */
	enum harm_kind harm;
	uint32_t who;
	enum harm_when when;
	enum ck_rounds_kind message;
	unsigned
		after; /* number of triggers to skip; SWAPS, LIES: one in so many */
};

enum { HARM_GO = 40 /* bytes of a GO */ };

struct harm {
	const struct rank_plan *plan;
	bool mine; /* this rank does it */
	bool due;  /* the violation is due now */
	bool swapped;
	unsigned seen;
	const struct ordered *ordered;
	uint64_t random;
	uint32_t from;
	size_t held; /* bytes of a GO that is held back */
	char go[2][HARM_GO];
};

static inline void harm_init(struct harm *h, const struct rank_plan *plan,
			     uint32_t rank, const struct ordered *ordered)
{
	*h = (struct harm){ .plan = plan,
			    .mine = plan->harm && plan->who == rank,
			    .ordered = ordered,
			    .random = plan->seed | 1 };
}

static inline bool harm_kills(const struct harm *h)
{
	return h->mine && (h->plan->harm == DIES || h->plan->harm == STOPS);
}

static inline _Noreturn void harm_die(const struct harm *h)
{
	if (h->plan->harm == STOPS)
		raise(SIGSTOP);
	_exit(9);
}

static inline enum ck_rounds_kind harm_kind_of(struct ck_str body)
{
	return (enum ck_rounds_kind)(uint8_t)body.p[0];
}

static inline bool harm_counts(struct harm *h, enum harm_when when,
			       struct ck_str body)
{
	return harm_kills(h) && h->plan->when == when &&
	       harm_kind_of(body) == h->plan->message &&
	       h->seen++ >= h->plan->after;
}

/* A message was received. */
static inline void harm_see(struct harm *h, bool own, struct ck_str body)
{
	if (!own && harm_counts(h, COMES, body))
		harm_die(h);
}

/* True if a message is sent: the triggering one is the last. */
static inline bool harm_may_send(struct harm *h, bool own, struct ck_str body)
{
	if (h->due)
		return false;
	if (!own)
		h->due = harm_counts(h, GOES, body);
	return true;
}

/* Called after sending: dies if the violation is due. */
static inline void harm_happens(struct harm *h)
{
	bool begun = harm_kills(h) && h->plan->when == BEGINS &&
		     h->ordered->r && h->ordered->moved >= h->plan->after;

	if (h->due || begun)
		harm_die(h);
}

static inline bool harm_lies(struct harm *h)
{
	return h->mine && h->plan->harm == LIES &&
	       tap_random(&h->random) % h->plan->after == 0;
}

/* --- swapping --------------------------------------------------------------------------- */

static inline void harm_swap_ops(struct harm *h)
{
	char op[8];

	memcpy(op, h->go[0] + 8, sizeof(op));
	memcpy(h->go[0] + 8, h->go[1] + 8, sizeof(op));
	memcpy(h->go[1] + 8, op, sizeof(op));
}

/* True if a message is held back. With the second message both are delivered, each with
 * the round of the other. */
static inline bool harm_hold(struct harm *h, uint32_t from, struct ck_str body,
			     struct ck_str *first, struct ck_str *second)
{
	*first = *second = (struct ck_str){ NULL, 0 };
	if (!h->mine || h->plan->harm != SWAPS ||
	    harm_kind_of(body) != CK_ROUNDS_GO || body.len != HARM_GO)
		return false;
	if (!h->held) {
		/* One swap suffices: each lasts until a round times out. */
		if (h->swapped || tap_random(&h->random) % h->plan->after)
			return false;
		memcpy(h->go[0], body.p, HARM_GO);
		h->held = HARM_GO;
		h->from = from;
		return true;
	}
	memcpy(h->go[1], body.p, HARM_GO);
	/* A new epoch began: the held message is obsolete. */
	h->held = 0;
	if (memcmp(h->go[0] + 16, h->go[1] + 16, 8))
		return false;
	h->swapped = true;
	harm_swap_ops(h);
	*first = (struct ck_str){ h->go[0], HARM_GO };
	*second = (struct ck_str){ h->go[1], HARM_GO };
	return true;
}

#endif
