/* SPDX-License-Identifier: MIT */
/*
 * What the three parts that a rank can play in a round share: it asks for it
 * (rounds_initiator.c), it takes part in it (rounds_participant.c), it gives it a number
 * (rounds_sequencer.c). They speak to each other by messages only, also within one rank.
 */
#ifndef CK_ROUNDS_INTERNAL_H
#define CK_ROUNDS_INTERNAL_H

#include "ckptfs/rounds.h"

enum {
	CK_ROUNDS_GIVEN = 64, /* rounds whose number the sequencer remembers */
	CK_ROUNDS_HEAD = 40,  /* bytes of a message before its ranks */
	CK_ROUNDS_ROW = 32,   /* bytes of a ck_round_pair in a message */
};

/* --- messages --------------------------------------------------------------------- */

/*
 * Numbers are little-endian, without gaps:
 *
 *	head	kind u16, 0 u16, err u32, op u64, epoch u64, n u64, nranks u32, rest u32
 *	ranks	nranks x u32, ascending
 *	rest	so many bytes. PREPARE: what is wanted; EPOCH: the token; READY: rows;
 *		PROPOSE: nranks x u32, how many rows each rank has, and those
 *	row	peer u32, messages sent u32, received u32, 0 u32, bytes sent u64,
 *		received u64
 *
 * What a kind has no use for is 0.
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
	const uint8_t *ranks; /* as in the message: see ck_rounds_rank() */
	struct ck_str rest;
};

/* -EPROTO: what it says cannot be, in a job of `size` ranks. Borrows. */
CK_MUST_USE int ck_rounds_parse(struct ck_str body, uint32_t size,
				struct ck_rounds_message *out);
uint32_t ck_rounds_rank(const struct ck_rounds_message *m, uint32_t i);
/* Where a rank stands among those of the message; nranks: it does not. */
uint32_t ck_rounds_place(const struct ck_rounds_message *m, uint32_t rank);
/* Row i of `rows`, which has it. */
struct ck_round_pair ck_rounds_row(struct ck_str rows, uint32_t i);
/* The same of a READY: n rows, of which each is one that can be. -EPROTO. */
CK_MUST_USE int ck_rounds_rows(struct ck_str rows, uint32_t *n,
			       struct ck_round_pair out[CK_ROUND_RANKS]);
/* Whether n pairs can be: ascending, none empty, with one of those ranks each. */
CK_MUST_USE bool ck_rounds_pairs_are_sound(const struct ck_round_pair *pairs,
					   uint32_t n, const uint32_t *ranks,
					   uint32_t nranks);
/* Overwrites out, but not the ranks and the rest, which the caller appends: rest is how
 * long that will be. */
void ck_rounds_put(struct ck_buf *out, const struct ck_rounds_message *m,
		   uint32_t rest);
void ck_rounds_put_row(struct ck_buf *out, const struct ck_round_pair *p);

/* The rank that has asked for it. */
static inline uint32_t ck_rounds_asker(uint64_t op)
{
	return (uint32_t)(op >> 48);
}

/* --- a rank ------------------------------------------------------------------------- */

/* What a rank knows of another, or of itself. */
struct ck_rounds_rank {
	bool lost;
	bool member;	      /* of the present epoch */
	uint64_t quiet_until; /* it is not asked, for it did not answer */
	uint64_t last_op;     /* that it has asked this rank for */
};

/* What a rank of a round has said to its asker. */
struct ck_rounds_said {
	bool ready, done;
	uint32_t n;
	struct ck_round_pair *pairs;
};

/* A round that this rank has asked for. */
struct ck_asked {
	struct ck_asked *next;
	uint64_t op;
	uint64_t epoch; /* in which it was proposed; 0: it is not */
	uint64_t since; /* asked; once all were ready, when they were */
	uint32_t nready, ndone;
	uint32_t nranks;
	uint32_t ranks[CK_ROUND_RANKS];
	struct ck_rounds_said said[CK_ROUND_RANKS];
};

enum ck_joined_state {
	CK_JOINED_PREPARING,
	CK_JOINED_READY,
	CK_JOINED_TURN, /* it has a number, and waits for those before */
	CK_JOINED_RUNNING,
	CK_JOINED_ABORTING,
	CK_JOINED_DONE,
};

/* A round in which this rank has a part. */
struct ck_joined {
	struct ck_joined *next;
	struct ck_round r;
	enum ck_joined_state state;
	/* In the present epoch, until it was run: 0: none. It may come while the run of
	 * an earlier epoch is being aborted. */
	uint64_t n;
	bool ran;	/* to its end, in some epoch */
	bool over;	/* its asker has said so, while it is being aborted */
	int rc;		/* and with this */
	uint64_t since; /* prepared */
	uint64_t begun;
};

struct ck_rounds {
	/* Constant: */
	struct ck_rounds_options o;
	struct ck_round_user *user;
	struct ck_round_mover *mover;

	uint64_t now;
	bool ended;
	struct ck_rounds_rank *ranks;
	uint32_t *members; /* of the present epoch, ascending */
	uint32_t nmembers;
	struct ck_buf out; /* has room for any message */

	/* The epoch: 0 until one has begun. */
	uint64_t epoch;
	bool broken;	 /* and was said to be */
	bool untold;	 /* the mover does not know of it */
	uint64_t last_n; /* of a round that this rank was told to run */
	uint8_t token[CK_ROUND_TOKEN];

	/* Of its sequencer: */
	uint64_t next_n;
	uint64_t given[CK_ROUNDS_GIVEN];

	struct ck_asked *asked;
	uint32_t nasked;
	uint64_t last_serial;

	struct ck_joined *parts;
	uint32_t nparts;
};

static inline uint32_t ck_rounds_sequencer(const struct ck_rounds *all)
{
	return (uint32_t)(all->epoch % all->o.size);
}

/* Sends what is in `out`, if the rank is not lost. */
void ck_rounds_send(struct ck_rounds *all, uint32_t to);
/* Sends a message without ranks and rest. */
void ck_rounds_say(struct ck_rounds *all, uint32_t to,
		   const struct ck_rounds_message *m);
void ck_rounds_put_ranks(struct ck_rounds *all, const uint32_t *ranks,
			 uint32_t n);
/* The present epoch cannot go on. */
void ck_rounds_break(struct ck_rounds *all);

/* --- the asker ------------------------------------------------------------------------ */

/* What it says to a round that it has asked for. */
CK_MUST_USE int ck_asked_take(struct ck_rounds *all, uint32_t from,
			      const struct ck_rounds_message *m);
void ck_asked_lost(struct ck_rounds *all, uint32_t rank);
/* Another epoch has begun. */
void ck_asked_renew(struct ck_rounds *all);
void ck_asked_end(struct ck_rounds *all);
/* Gives up those whose time is over. */
void ck_asked_tick(struct ck_rounds *all);

/* --- who takes part -------------------------------------------------------------------- */

struct ck_joined *ck_joined_find(struct ck_rounds *all, uint64_t op);
/* PREPARE, OVER, GO. */
CK_MUST_USE int ck_joined_take(struct ck_rounds *all, uint32_t from,
			       const struct ck_rounds_message *m);
void ck_joined_lost(struct ck_rounds *all, uint32_t rank);
void ck_joined_renew(struct ck_rounds *all);
void ck_joined_end(struct ck_rounds *all);
void ck_joined_tick(struct ck_rounds *all);
/* Whether the mover has one. */
bool ck_joined_is_moving(const struct ck_rounds *all);

/* --- the sequencer ---------------------------------------------------------------------- */

/* PROPOSE, BROKEN, EPOCH. */
CK_MUST_USE int ck_sequencer_take(struct ck_rounds *all, uint32_t from,
				  const struct ck_rounds_message *m);
/* Begins an epoch, if that is now up to this rank. */
void ck_sequencer_lost(struct ck_rounds *all, uint32_t rank);
void ck_sequencer_begin(struct ck_rounds *all);

#endif
