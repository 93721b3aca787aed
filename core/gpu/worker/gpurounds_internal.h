/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_internal: gpurounds.c has the link, messages and time;
 * gpurounds_initiator.c has rounds requested here; gpurounds_participant.c has
 * bytes for rounds of other ranks. One thread; the files call each other in a
 * cycle: they are one object.
 */
#ifndef CK_GPUROUNDS_INTERNAL_H
#define CK_GPUROUNDS_INTERNAL_H

#include "dist/round/no_rounds.h"
#include "dist/round/rounds.h"
#include "dist/rpc/link_internal.h"
#include "gpurounds.h"

enum {
	GPU_BATCH = 8,	   /* gather requests per round */
	GPU_INITIATED = 2, /* rounds requested at a time */
	GPU_PLACES = 8,	   /* parts of the link's memory, each for one parcel */
	/* rounds that this rank takes part in at a time */
	GPU_PARTICIPATING = 16,
};

/* A message of this rank to itself. */
struct ck_gpurounds_local_message {
	struct ck_gpurounds_local_message *next;
	size_t len;
	char bytes[];
};

/* Gather requests that one round serves. */
struct ck_gpurounds_batch {
	uint64_t op; /* 0 if unused */
	struct ck_gpurounds_request *requests[GPU_BATCH];
	uint32_t n;
	struct ck_buf what;
	struct ck_round *round; /* while this rank takes part in it */
	bool ready, over;
	struct ck_gpu_transfer *list; /* has ntransfers elements */
	size_t ntransfers;
	struct ck_gpu_round arg;
};

enum ck_gpurounds_parcel {
	GPU_PARCEL_READING,
	GPU_PARCEL_READ,
	GPU_PARCEL_PACKED, /* being copied to the device, or there */
	GPU_PARCEL_READY,
};

/* The bytes that this rank sends in a round of another one. Kept until its
 * READs have replies. */
struct ck_gpurounds_part {
	struct ck_gpurounds_part *next;
	struct ck_round *round; /* NULL if it has ended or was refused */
	uint64_t op;
	enum ck_gpurounds_parcel state;
	uint32_t initiator;
	uint32_t place;	  /* index in the link's memory */
	uint64_t bytes;	  /* bytes there */
	uint64_t first;	  /* id of its first READ */
	uint32_t nreads;  /* READs sent, with consecutive ids */
	uint32_t answers; /* replies received */
	int err;
	uint64_t *expected; /* bytes of each READ; lies behind the list */
	/* since when it waits for a parcel, ms; 0 if it does not */
	uint64_t waits;
	struct ck_gpu_parcel *parcel;
	struct ck_gpu_round arg;
	size_t n;
	/* `at` are offsets in the parcel until it is packed */
	struct ck_gpu_transfer list[];
};

struct ck_gpurounds {
	struct ck_round_user user; /* first */
	struct ck_gpurounds_options options;
	struct ck_frames frames;
	uint8_t *memory;
	bool joined;
	uint32_t rank, size, msec;
	bool *lost;		  /* by rank: it takes no part any more */
	struct ck_rounds *rounds; /* NULL if this process takes no part */
	struct ck_gpurounds_local_message *first, **last;
	uint32_t due; /* ms from `ticked` until ck_rounds_tick() */
	uint64_t ticked;
	int rc; /* of the link */

	/* Initiator: */
	struct ck_gpurounds_request *waiting, **waiting_end;
	struct ck_gpurounds_batch batches[GPU_INITIATED];
	/* no round is requested before, after a failure */
	uint64_t quiet_until;
	uint32_t pause; /* length of the last pause, ms */
	uint32_t open;	/* requests that have neither failed nor proceeded */

	/* Participant: */
	struct ck_gpurounds_part *parts;
	bool taken[GPU_PLACES];
	uint64_t next_id;
};

/* Sends or queues a frame; an error is kept in r->rc. */
void ck_gpurounds_put(struct ck_gpurounds *r, const struct ck_frame *frame,
		      const struct ck_wire_head *head, struct ck_str body);

/* --- gpurounds_initiator.c ------------------------------------------------------------------- */

/* Requests rounds for waiting requests, as far as there is room. */
void ck_gpurounds_initiate(struct ck_gpurounds *r);
/* Reports rounds as ready whose bytes have reached the device. */
void ck_gpurounds_initiator_advance(struct ck_gpurounds *r);
/* These handle rounds requested here. False if the round is of another rank. */
bool ck_gpurounds_initiator_prepare(struct ck_gpurounds *r,
				    struct ck_round *round);
bool ck_gpurounds_initiator_ended(struct ck_gpurounds *r,
				  const struct ck_round *round, int rc);
void ck_gpurounds_initiator_over(struct ck_gpurounds *r, uint64_t op, int rc);
/* Fails all waiting requests with rc. */
void ck_gpurounds_initiator_end(struct ck_gpurounds *r, int rc);

/* --- gpurounds_participant.c ------------------------------------------------------------------ */

/* The request that PREPARE carries: the initiator, u32, and a transfer list. */
enum { CK_GPU_WHAT = 4 }; /* bytes before the list */

/* Begins to read this rank's bytes for a round, or refuses it. */
void ck_gpurounds_participant_prepare(struct ck_gpurounds *r,
				      struct ck_round *round,
				      struct ck_str what);
/* The round no longer uses its parcel. */
void ck_gpurounds_participant_ended(struct ck_gpurounds *r,
				    const struct ck_round *round);
/* Handles the reply to a READ. Returns 0, or -EPROTO if no such READ is in
 * flight. */
CK_MUST_USE int ck_gpurounds_participant_answer(struct ck_gpurounds *r,
						const struct ck_framed *f);
/* Advances all rounds of other ranks. */
void ck_gpurounds_participant_advance(struct ck_gpurounds *r);
/* Frees everything; the link must not be used any more. */
void ck_gpurounds_participant_end(struct ck_gpurounds *r);
/* Sums up transfers, which are ordered by peer, into pairs. Returns the number
 * of pairs. */
uint32_t ck_gpurounds_pairs(const struct ck_gpu_transfer *list, size_t n,
			    struct ck_round_pair out[static CK_ROUND_RANKS]);

#endif
