/* SPDX-License-Identifier: MIT */
/*
 * What the parts of gpurounds share: gpurounds.c (the link, messages and time),
 * gpurounds_initiator.c (rounds that are asked for here), gpurounds_participant.c (bytes for rounds that
 * others ask for).
 */
#ifndef CK_GPUROUNDS_INTERNAL_H
#define CK_GPUROUNDS_INTERNAL_H

#include "ckptfs/rounds.h"
#include "gpurounds.h"
#include "link_internal.h"
#include "no_rounds.h"

enum {
	GPU_BATCH = 8,	 /* gatherings that one round brings bytes for */
	GPU_ASKED = 2,	 /* rounds that are asked for at a time */
	GPU_PLACES = 8,	 /* of the link's memory, a parcel each */
	GPU_TURNED = 16, /* rounds that this rank has a part in at a time */
};

/* A message of this rank to itself. */
struct ck_gpurounds_letter {
	struct ck_gpurounds_letter *next;
	size_t len;
	char bytes[];
};

/* Gatherings whose bytes come by one round. */
struct ck_gpurounds_batch {
	uint64_t op; /* 0: none */
	struct ck_gpurounds_wish *wishes[GPU_BATCH];
	uint32_t n;
	struct ck_buf what;
	struct ck_round *round; /* while this rank has its part in it */
	bool ready, over;
	struct ck_gpu_transfer *list; /* ntransfers */
	size_t ntransfers;
	struct ck_gpu_round arg;
};

enum ck_gpurounds_parcel {
	GPU_PARCEL_READING,
	GPU_PARCEL_READ,
	GPU_PARCEL_PACKED, /* on its way up, or there */
	GPU_PARCEL_READY,
};

/* What another rank wants of this one. It is there until its READs are answered. */
struct ck_gpurounds_part {
	struct ck_gpurounds_part *next;
	struct ck_round *round; /* NULL: it has ended, or was refused */
	uint64_t op;
	enum ck_gpurounds_parcel state;
	uint32_t asker;
	uint32_t place;	  /* of the link's memory */
	uint64_t bytes;	  /* in it */
	uint64_t first;	  /* id of its first READ */
	uint32_t nreads;  /* READs that it has sent, with ids that follow */
	uint32_t answers; /* of them */
	int err;
	uint64_t *expected; /* bytes of each READ; behind the list */
	uint64_t waits;	    /* for a parcel, since then, ms; 0: it does not */
	struct ck_gpu_parcel *parcel;
	struct ck_gpu_round arg;
	size_t n;
	struct ck_gpu_transfer list[]; /* `at` from 0 on, until it is packed */
};

struct ck_gpurounds {
	struct ck_round_user user; /* first */
	struct ck_gpurounds_options options;
	struct ck_frames frames;
	uint8_t *memory;
	bool joined;
	uint32_t rank, size, msec;
	bool *lost;		  /* by rank: it takes no part any more */
	struct ck_rounds *rounds; /* NULL: it takes no part */
	struct ck_gpurounds_letter *first, **last;
	uint32_t due; /* milliseconds until ck_rounds_tick() is */
	uint64_t ticked;
	int rc; /* of the link */

	/* Asking: */
	struct ck_gpurounds_wish *waiting, **waiting_end;
	struct ck_gpurounds_batch batches[GPU_ASKED];
	uint64_t quiet_until; /* nothing is asked for: it did not work */
	uint32_t pause;	      /* milliseconds, of the last time */
	uint32_t open;	      /* wishes that were added, and have not gone on */

	/* Joining: */
	struct ck_gpurounds_part *parts;
	bool taken[GPU_PLACES];
	uint64_t next_id;
};

/* Sends a message, or keeps it until there is room. */
void ck_gpurounds_put(struct ck_gpurounds *r, const struct ck_frame *frame,
		      const struct ck_wire_head *head, struct ck_str body);

/* --- gpurounds_initiator.c ------------------------------------------------------------------- */

/* Asks for what waits, as far as there is room. */
void ck_gpurounds_ask(struct ck_gpurounds *r);
/* Those whose bytes are up say so. */
void ck_gpurounds_ask_turn(struct ck_gpurounds *r);
/* Of rounds that were asked for here. False: it was not. */
bool ck_gpurounds_ask_prepare(struct ck_gpurounds *r, struct ck_round *round);
bool ck_gpurounds_ask_ended(struct ck_gpurounds *r,
			    const struct ck_round *round, int rc);
void ck_gpurounds_ask_over(struct ck_gpurounds *r, uint64_t op, int rc);
/* Nothing comes by rounds any more. */
void ck_gpurounds_ask_end(struct ck_gpurounds *r, int rc);

/* --- gpurounds_participant.c ------------------------------------------------------------------ */

/* What the ranks of a round are asked for, behind which wants follow. */
enum { CK_GPU_WHAT = 4 }; /* bytes: who asks */

void ck_gpurounds_join_prepare(struct ck_gpurounds *r, struct ck_round *round,
			       struct ck_str what);
void ck_gpurounds_join_ended(struct ck_gpurounds *r,
			     const struct ck_round *round);
/* A READ was answered. -EPROTO: none was asked. */
CK_MUST_USE int ck_gpurounds_join_answer(struct ck_gpurounds *r,
					 const struct ck_framed *f);
void ck_gpurounds_join_turn(struct ck_gpurounds *r);
void ck_gpurounds_join_end(struct ck_gpurounds *r);
/* What a rank says of transfers. n: how many pairs. */
uint32_t ck_gpurounds_pairs(const struct ck_gpu_transfer *list, size_t n,
			    struct ck_round_pair out[static CK_ROUND_RANKS]);

#endif
