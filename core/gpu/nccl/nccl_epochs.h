/* SPDX-License-Identifier: MIT */
/*
 * nccl_epochs: the communicator of each epoch (rounds.h). A thread makes it,
 * and aborts earlier ones: both may take long, and the caller never waits for
 * them. Before a new communicator is up, each two of its ranks have exchanged
 * some bytes: NCCL connects two ranks at their first transfer, which would take
 * time of a round.
 *
 * The thread also aborts a communicator whose running round is not polled for 5
 * s. The caller may be blocked in a call of the driver that waits for all work
 * of the device, for example to free memory, and a round with a dead rank ends
 * only with its communicator.
 */
#ifndef CK_NCCL_EPOCHS_H
#define CK_NCCL_EPOCHS_H

#include "gpu/gpu.h"
#include "nccl_comm.h"
#include "nccl_thread.h"

enum ck_epoch_state {
	CK_EPOCH_NONE,	 /* no communicator, and no request for one */
	CK_EPOCH_WANTED, /* the thread makes it */
	CK_EPOCH_UP,	 /* usable by the caller */
	CK_EPOCH_ENDING, /* the thread aborts it */
	CK_EPOCH_FAILED, /* could not be made */
};

struct ck_epoch {
	uint64_t number;  /* counts the requests */
	uint64_t since;	  /* ms, of ck_msec_now() */
	uint32_t n, self; /* number of ranks, and own index */
	uint8_t token[CK_ROUND_TOKEN];
};

struct ck_nccl_epochs {
	/* Constant: */
	const struct ck_nccl *nccl;

	/* Used by the thread of this struct. While its communicator is up, the
	 * caller uses it, under lock. With a single rank there is no
	 * communicator. */
	struct ck_nccl_comm comm;

	/* Has the lock: */
	struct ck_nccl_thread thread;

	/* Under ck_nccl_thread.lock: */
	/* last poll of the running round, ms; 0 if no round is running */
	uint64_t last_poll;
	bool watching; /* the thread is in watch() */
	enum ck_epoch_state state;
	struct ck_epoch want;
	uint64_t since;	   /* of the state, ms */
	unsigned failures; /* in succession */
};

/* Starts the thread. *e must be zeroed, and the device's context current.
 * Returns 0; or -ENOSPC, -EIO, -ENOMEM, or errors of pthread_create(3), with a
 * message: then ck_nccl_epochs_close() is due, too. */
CK_MUST_USE int ck_nccl_epochs_open(struct ck_nccl_epochs *e,
				    const struct ck_nccl *nccl,
				    struct ck_device *g, struct ck_diag *d);
/* Ends the thread and frees everything; no round may be running. Waits for the
 * communicator's end. False as ck_nccl_thread_close(). */
CK_MUST_USE bool ck_nccl_epochs_close(struct ck_nccl_epochs *e);
/* Requests another communicator: see ck_round_backend.epoch. Never blocks. */
void ck_nccl_epochs_renew(struct ck_nccl_epochs *e, uint32_t n, uint32_t self,
			  const uint8_t token[static CK_ROUND_TOKEN]);
/* Returns 0 if the communicator is up; -EINPROGRESS if not yet; -EIO if it
 * could not be made. */
CK_MUST_USE int ck_nccl_epochs_state(struct ck_nccl_epochs *e);
/* Implements ck_nccl_rounds.is_ready. */
CK_MUST_USE int ck_nccl_epochs_is_ready(struct ck_nccl_epochs *e);
/* Aborts the communicator with all its transfers. Never blocks: see the next
 * function. */
void ck_nccl_epochs_drop(struct ck_nccl_epochs *e);
/* True if no abort is in progress. */
CK_MUST_USE bool ck_nccl_epochs_is_dropped(struct ck_nccl_epochs *e);

/* --- rounds ------------------------------------------------------------------------ */

/* Starts the transfers of a round; members: ranks of the communicator,
 * ascending. Returns 0 if they are in progress; errors of ck_nccl_errno(), or
 * -EIO if it is not up: some transfers may be in progress, and the communicator
 * must be dropped. */
CK_MUST_USE int ck_nccl_epochs_start(struct ck_nccl_epochs *e,
				     const struct ck_gpu_round *round,
				     const uint32_t *members, uint32_t n);
/* Polls the start; must be called repeatedly until ck_nccl_epochs_rest().
 * Returns 0 if all transfers are in the stream; -EINPROGRESS; or errors as
 * above. */
CK_MUST_USE int ck_nccl_epochs_poll(struct ck_nccl_epochs *e);
/* The round has ended. */
void ck_nccl_epochs_rest(struct ck_nccl_epochs *e);
/* The index of a rank among the members, or n if it is not one of them. */
CK_MUST_USE uint32_t ck_nccl_epochs_place(const uint32_t *members, uint32_t n,
					  uint32_t rank);

#endif
