/* SPDX-License-Identifier: MIT */
/*
 * nccl_team: a communicator of NCCL for each device of this process, all of one job. A thread
 * makes them and ends them, for both can take long; no caller waits for it. Each two devices
 * have exchanged something before they are up, for NCCL connects two when they first do so.
 *
 * The thread also ends them if what is moved is not over in time, whatever the caller does, who
 * may be in a call of the driver that waits for it. After a while it makes them anew.
 */
#ifndef CK_NCCL_TEAM_H
#define CK_NCCL_TEAM_H

#include "ckptfs/gpu.h"
#include "nccl_lane.h"
#include "nccl_spread.h"
#include "nccl_thread.h"

enum ck_team_state {
	CK_TEAM_WANTED, /* the thread makes them */
	CK_TEAM_UP,	/* the caller has them */
	CK_TEAM_ENDING, /* the thread ends them */
	CK_TEAM_OFF,	/* there are none */
};

struct ck_nccl_team {
	/* Constant: */
	const struct ck_nccl *nccl;
	uint32_t n;

	/* One thread, the caller's; their communicators: that one's, but when it is up, under
	 * lock, the caller's: */
	struct ck_nccl_lane lanes[CK_GPUS_MOST];

	/* One thread, the caller's: */
	uint32_t used; /* the time in which it moves something */

	/* Locks itself: */
	struct ck_nccl_thread thread;

	/* Under ck_nccl_thread.lock: */
	enum ck_team_state state;
	uint64_t since;	    /* of the state, in ms */
	uint64_t moving;    /* since when something is, in ms; 0: nothing is */
	uint32_t times;	    /* how often it was up */
	struct ck_diag why; /* it is off */
};

/* Zeros before. -ENOSPC, -EIO, or as of pthread_create(3); then it is to be closed, too. */
CK_MUST_USE int ck_nccl_team_open(struct ck_nccl_team *t,
				  const struct ck_nccl *nccl,
				  struct ck_device *const *devices, uint32_t n,
				  struct ck_diag *d);
/* Ends what it moves. False: NCCL does not return to the thread. Then it has all of this for as
 * long as the process lives, and what NCCL is. */
CK_MUST_USE bool ck_nccl_team_close(struct ck_nccl_team *t);
/* Waits until it is up, for the first time. -EIO: it cannot be, as it seems. */
CK_MUST_USE int ck_nccl_team_await(struct ck_nccl_team *t, struct ck_diag *d);
CK_MUST_USE bool ck_nccl_team_is_up(struct ck_nccl_team *t);
void ck_nccl_team_why(struct ck_nccl_team *t, char *out, size_t size);

/* All of the list, as one group. 0: they are on their way; errors of ck_nccl_errno(): some of
 * them may be, and the communicators can only be dropped. */
CK_MUST_USE int ck_nccl_team_start(struct ck_nccl_team *t,
				   const struct ck_transfer *list);
/* To be called again and again until they are over. 0: all are in the streams; -EINPROGRESS;
 * errors of ck_nccl_errno(), the same. */
CK_MUST_USE int ck_nccl_team_look(struct ck_nccl_team *t);
/* They are over. */
void ck_nccl_team_rest(struct ck_nccl_team *t);
/* The communicators are ended by force, if they have not ended. */
void ck_nccl_team_drop(struct ck_nccl_team *t);
/* They have ended. */
CK_MUST_USE bool ck_nccl_team_is_dropped(struct ck_nccl_team *t);
/* `done` comes behind all that is in the streams. With an error, as of ck_device_check(), *which
 * is the device that has it, by its place. */
CK_MUST_USE int ck_nccl_team_mark(struct ck_nccl_team *t, uint32_t *which);
/* 0: all have come; -EINPROGRESS: not yet; as that. */
CK_MUST_USE int ck_nccl_team_is_marked(struct ck_nccl_team *t, uint32_t *which);

#endif
