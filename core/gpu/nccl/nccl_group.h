/* SPDX-License-Identifier: MIT */
/*
 * nccl_group: a group of transfers from when it was started until it is over: until NCCL has put
 * them into streams, which it does when it likes, then until they are done. One that does not go
 * on any more is over when its communicators are ended, and the streams empty.
 */
#ifndef CK_NCCL_FLIGHT_H
#define CK_NCCL_FLIGHT_H

#include "nccl_epochs.h"

/* One thread. */
struct ck_nccl_flight {
	struct ck_nccl_epochs *epochs; /* has the communicator */
	int rc; /* once it is over: -EIO, or why it was given up */
	/* Of some it is not known whether it has ended: a device fails, or NCCL does not
	 * end it. For good. */
	bool broken;

	/* Private: */
	enum {
		CK_FLIGHT_OVER,
		CK_FLIGHT_LAUNCHES, /* by NCCL */
		CK_FLIGHT_RUNS,
		CK_FLIGHT_DROPS, /* its communicators */
		CK_FLIGHT_DRAINS,
	} step;

	uint64_t since; /* it drops, in ms */
};

/* It was started, or what that came to. */
void ck_nccl_flight_begin(struct ck_nccl_flight *f, int rc);
/* Goes on. 0: it is over; -EINPROGRESS. */
CK_MUST_USE int ck_nccl_flight_turn(struct ck_nccl_flight *f);
/* It is over with that, as soon as nothing of it is moved any more. Nothing, if it is given up,
 * or over. */
void ck_nccl_flight_give_up(struct ck_nccl_flight *f, int rc);
/* It is being given up. */
CK_MUST_USE bool ck_nccl_flight_ends(const struct ck_nccl_flight *f);

#endif
