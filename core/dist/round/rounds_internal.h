/* SPDX-License-Identifier: MIT */
/*
 * rounds_internal: the state of a rank in the protocol of rounds.h. A rank has
 * three roles: it requests rounds (rounds_initiator.c), it takes part in rounds
 * (rounds_participant.c), and it numbers rounds (rounds_sequencer.c). The roles
 * communicate by messages only, also within one rank.
 *
 * One thread at a time. The files call each other in a cycle: they are one
 * object.
 */
#ifndef CK_ROUNDS_INTERNAL_H
#define CK_ROUNDS_INTERNAL_H

#include "rounds.h"

enum {
	CK_ROUNDS_NUMBERED =
		64,	     /* rounds whose number the sequencer remembers */
	CK_ROUNDS_HEAD = 40, /* bytes of a message before its ranks */
	CK_ROUNDS_ROW = 32,  /* bytes of a ck_round_pair in a message */
};

/* --- messages --------------------------------------------------------------------- */

/*
 * Numbers are little-endian, without gaps:
 *
 *	head	kind u16, 0 u16, err u32, op u64, epoch u64, n u64, nranks u32, rest u32
 *	ranks	nranks x u32, ascending
 *	rest	`rest` bytes. PREPARE: the request of the user; EPOCH: the token;
 *		READY: rows; PROPOSE: nranks x u32, the number of rows of each rank,
 *		and then these rows
 *	row	peer u32, messages sent u32, received u32, 0 u32, bytes sent u64,
 *		received u64
 *
 * Fields that a kind does not use are 0.
 */
enum ck_rounds_kind {
	CK_ROUNDS_PREPARE = 1,
	CK_ROUNDS_READY,
	CK_ROUNDS_REFUSED,
	CK_ROUNDS_PROPOSE,
	CK_ROUNDS_GO,
	CK_ROUNDS_DONE,
	CK_ROUNDS_OVER,
	CK_ROUNDS_BROKEN,
	CK_ROUNDS_EPOCH,
	CK_ROUNDS_KINDS
};

struct ck_rounds_message {
	enum ck_rounds_kind kind;
	uint32_t err; /* a positive errno, or 0 */
	uint64_t op, epoch, n;
	uint32_t nranks;
	const uint8_t *ranks; /* as in the message: read by ck_rounds_rank() */
	struct ck_str rest;
};

/* Parses and checks a message, in a job of `size` ranks; *out borrows body.
 * Returns 0, or -EPROTO if the message is invalid. */
CK_MUST_USE int ck_rounds_parse(struct ck_str body, uint32_t size,
				struct ck_rounds_message *out);
/* Rank i of the message; i < nranks. */
uint32_t ck_rounds_rank(const struct ck_rounds_message *m, uint32_t i);
/* The index of a rank among those of the message, or nranks if it is not one of
 * them. */
uint32_t ck_rounds_place(const struct ck_rounds_message *m, uint32_t rank);
/* Row i of `rows`, which must have more than i. Its peer is UINT32_MAX if it is
 * invalid. */
struct ck_round_pair ck_rounds_row(struct ck_str rows, uint32_t i);
/* Parses the rows of a READY, which must be at most CK_ROUND_RANKS. Returns 0,
 * or -EPROTO if a row is invalid. */
CK_MUST_USE int ck_rounds_rows(struct ck_str rows, uint32_t *n,
			       struct ck_round_pair out[CK_ROUND_RANKS]);
/* True if n pairs are valid: ascending, each with one of these ranks, with
 * messages, and within the limits. */
CK_MUST_USE bool ck_rounds_pairs_are_sound(const struct ck_round_pair *pairs,
					   uint32_t n, const uint32_t *ranks,
					   uint32_t nranks);
/* Overwrites out with a message, except for ranks and rest, which the caller
 * appends. rest: length of the rest, in bytes. */
void ck_rounds_put(struct ck_buf *out, const struct ck_rounds_message *m,
		   uint32_t rest);
/* Appends a row. */
void ck_rounds_put_row(struct ck_buf *out, const struct ck_round_pair *p);

/* The initiator of a round. */
static inline uint32_t ck_rounds_initiator(uint64_t op)
{
	return (uint32_t)(op >> 48);
}

/* --- state ---------------------------------------------------------------- */

/* What this rank knows of another rank, or of itself. */
struct ck_rounds_rank {
	bool lost;
	bool member;	      /* of the current epoch */
	uint64_t quiet_until; /* no round is requested of it before */
	uint64_t last_op; /* latest round that it has requested of this rank */
};

/* The state of a rank, as its messages to the initiator report it. */
struct ck_rounds_report {
	bool ready, done;
	uint32_t n; /* pairs */
	struct ck_round_pair *pairs;
};

/* A round that this rank has requested. */
struct ck_initiated {
	struct ck_initiated *next;
	uint64_t op;
	uint64_t epoch; /* in which it was proposed; 0 if it was not */
	/* when it was requested; once all are ready, when they were */
	uint64_t since;
	uint32_t nready, ndone;
	uint32_t nranks;
	uint32_t ranks[CK_ROUND_RANKS];
	struct ck_rounds_report reports[CK_ROUND_RANKS];
};

enum ck_participant_state {
	CK_PARTICIPANT_PREPARING,
	CK_PARTICIPANT_READY,
	CK_PARTICIPANT_NUMBERED, /* has a number, waits for lower ones */
	CK_PARTICIPANT_RUNNING,
	CK_PARTICIPANT_ABORTING,
	CK_PARTICIPANT_DONE,
};

/* A round in which this rank takes part. */
struct ck_participant {
	struct ck_participant *next;
	struct ck_round r;
	enum ck_participant_state state;
	/* Its number in the current epoch until it has run; 0 if it has no
	 * number. A number may arrive while the run of an earlier epoch is
	 * aborted. */
	uint64_t n;
	bool ran;  /* has run to its end, in this epoch or an earlier one */
	bool over; /* ended by its initiator while it is being aborted */
	int rc;	   /* the result in that case */
	uint64_t since; /* when it was prepared */
	uint64_t begun;
};

struct ck_rounds {
	/* Constant: */
	struct ck_rounds_options o;
	struct ck_round_user *user;
	struct ck_round_backend *backend;

	uint64_t now;
	bool ended;
	struct ck_rounds_rank *ranks;
	uint32_t *members; /* of the current epoch, ascending */
	uint32_t nmembers;
	struct ck_buf out; /* has capacity for any message */

	/* The current epoch; 0 until one has begun: */
	uint64_t epoch;
	bool broken;	    /* cannot go on; BROKEN was sent */
	bool epoch_pending; /* the backend was not notified of it */
	uint64_t last_n;    /* the last number that this rank has received */
	uint8_t token[CK_ROUND_TOKEN];

	/* If this rank is its sequencer: the last number, and the rounds that
	 * have numbers. */
	uint64_t next_n;
	uint64_t numbered[CK_ROUNDS_NUMBERED];

	struct ck_initiated *initiated;
	uint32_t ninitiated;
	uint64_t last_serial;

	struct ck_participant *parts;
	uint32_t nparts;
};

/* The rank that numbers the rounds of the current epoch. */
static inline uint32_t ck_rounds_sequencer(const struct ck_rounds *all)
{
	return (uint32_t)(all->epoch % all->o.size);
}

/* Sends the message in `out`, unless the rank is lost. */
void ck_rounds_send(struct ck_rounds *all, uint32_t to);
/* Sends a message that has neither ranks nor rest. */
void ck_rounds_send_head(struct ck_rounds *all, uint32_t to,
			 const struct ck_rounds_message *m);
/* Appends ranks to the message in `out`. */
void ck_rounds_put_ranks(struct ck_rounds *all, const uint32_t *ranks,
			 uint32_t n);
/* Reports to the sequencer, once, that the current epoch cannot go on. */
void ck_rounds_break(struct ck_rounds *all);

/* --- initiator ------------------------------------------------------------ */

/* Handles READY, REFUSED or DONE. Returns 0, or -EPROTO if the message is
 * invalid. */
CK_MUST_USE int ck_initiated_receive(struct ck_rounds *all, uint32_t from,
				     const struct ck_rounds_message *m);
/* Fails the rounds of a lost rank. */
void ck_initiated_lost(struct ck_rounds *all, uint32_t rank);
/* A new epoch has begun: proposes all rounds again. */
void ck_initiated_renew(struct ck_rounds *all);
/* Fails all rounds with -ECANCELED. */
void ck_initiated_end(struct ck_rounds *all);
/* Fails the rounds whose time is over. */
void ck_initiated_tick(struct ck_rounds *all);

/* --- participant ---------------------------------------------------------- */

/* NULL if this rank takes no part in the round. */
struct ck_participant *ck_participant_find(struct ck_rounds *all, uint64_t op);
/* Handles PREPARE, OVER or GO. Returns 0, or -EPROTO if the message is
 * invalid. */
CK_MUST_USE int ck_participant_receive(struct ck_rounds *all, uint32_t from,
				       const struct ck_rounds_message *m);
/* Ends the rounds of a lost initiator. */
void ck_participant_lost(struct ck_rounds *all, uint32_t rank);
/* A new epoch has begun: aborts the running round; no round has a number. */
void ck_participant_renew(struct ck_rounds *all);
/* Refuses and ends all rounds; one that is running is aborted first. */
void ck_participant_end(struct ck_rounds *all);
/* Expires old rounds, and runs those whose turn it is. */
void ck_participant_tick(struct ck_rounds *all);
/* True if the backend runs or aborts a round. */
bool ck_participant_is_running(const struct ck_rounds *all);

/* --- sequencer ------------------------------------------------------------ */

/* Handles PROPOSE, BROKEN or EPOCH. Returns 0, or -EPROTO if the message is
 * invalid. */
CK_MUST_USE int ck_sequencer_receive(struct ck_rounds *all, uint32_t from,
				     const struct ck_rounds_message *m);
/* A rank is lost. Begins an epoch if it was a member of this rank's epoch, or
 * if this rank takes over from it. */
void ck_sequencer_lost(struct ck_rounds *all, uint32_t rank);
/* Begins the first epoch, if this rank is the lowest one. */
void ck_sequencer_begin(struct ck_rounds *all);

#endif
