/* SPDX-License-Identifier: MIT */
/*
 * nccl_epochs: the communicator of each epoch. A thread makes it and ends those before it, for
 * both can take long; no caller waits for it. A new one has exchanged something between each
 * two of its ranks before it is up, for NCCL connects two ranks when they first do so, which
 * is to take none of a round's time.
 *
 * The thread also ends one whose round nobody has looked after for a while: the caller's may be
 * in a call of the driver that waits for all that the device does, as giving back memory is, and
 * a round with a rank that died is not done before the communicator has ended.
 */
#ifndef CK_NCCL_EPOCHS_H
#define CK_NCCL_EPOCHS_H

#include "ckptfs/gpu.h"
#include "nccl_comm.h"
#include "nccl_thread.h"

enum ck_epoch_state {
	CK_EPOCH_NONE,	 /* there is no communicator, and none is wanted */
	CK_EPOCH_WANTED, /* the thread makes it */
	CK_EPOCH_UP,	 /* the caller has it */
	CK_EPOCH_ENDING, /* the thread ends it */
	CK_EPOCH_FAILED, /* there is none */
};

struct ck_epoch {
	uint64_t number;  /* of those that were wanted here */
	uint64_t since;	  /* ck_msec_now() */
	uint32_t n, self; /* how many ranks, and which of them this is */
	uint8_t token[CK_ROUND_TOKEN];
};

struct ck_nccl_epochs {
	/* Constant: */
	const struct ck_nccl *nccl;

	/* One thread, the caller's; its communicator: that one's, but when it is up, under
	 * lock, the caller's. There is none of one rank, either: */
	struct ck_nccl_lane lane;

	/* Locks itself: */
	struct ck_nccl_thread thread;

	/* Under ck_nccl_thread.lock: */
	uint64_t looked; /* when after what is moved; 0: nothing is */
	bool watching;	 /* the thread sees to it that somebody looks */
	enum ck_epoch_state state;
	struct ck_epoch want;
	uint64_t since;	   /* of the state */
	unsigned failures; /* one after the other */
};

/* Zeros before. The device's context is current. -ENOSPC, -EIO, -ENOMEM, or as of
 * pthread_create(3); then it is to be closed, too. */
CK_MUST_USE int ck_nccl_epochs_open(struct ck_nccl_epochs *e,
				    const struct ck_nccl *nccl,
				    struct ck_device *g, struct ck_diag *d);
/* Nothing is being moved. Waits for the communicator's end. False: as of
 * ck_nccl_thread_close(). */
CK_MUST_USE bool ck_nccl_epochs_close(struct ck_nccl_epochs *e);
/* Another one from now on: see ck_round_mover.epoch. */
void ck_nccl_epochs_renew(struct ck_nccl_epochs *e, uint32_t n, uint32_t self,
			  const uint8_t token[static CK_ROUND_TOKEN]);
/* 0: it is up; -EINPROGRESS: not yet; -EIO: it will not be. */
CK_MUST_USE int ck_nccl_epochs_state(struct ck_nccl_epochs *e);
/* As ck_nccl_rounds.is_ready. */
CK_MUST_USE int ck_nccl_epochs_is_ready(struct ck_nccl_epochs *e);
/* Ends it by force, with all that it moves, if it has not ended. */
void ck_nccl_epochs_drop(struct ck_nccl_epochs *e);
/* It has ended. */
CK_MUST_USE bool ck_nccl_epochs_is_dropped(struct ck_nccl_epochs *e);

/* --- rounds ------------------------------------------------------------------------ */

/* Moves all of that; members: the ranks' numbers, ascending. 0: it is on its way; errors of
 * ck_nccl_errno(): some of it may be, and the communicator can only be dropped. */
CK_MUST_USE int ck_nccl_epochs_start(struct ck_nccl_epochs *e,
				     const struct ck_gpu_round *round,
				     const uint32_t *members, uint32_t n);
/* To be called again and again until it is over. 0: all of it is in the stream; -EINPROGRESS;
 * errors of ck_nccl_errno(), the same. */
CK_MUST_USE int ck_nccl_epochs_look(struct ck_nccl_epochs *e);
/* It is over. */
void ck_nccl_epochs_rest(struct ck_nccl_epochs *e);
/* Which of the members a rank is; n: none. */
CK_MUST_USE uint32_t ck_nccl_epochs_place(const uint32_t *members, uint32_t n,
					  uint32_t rank);

#endif
