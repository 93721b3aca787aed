/* SPDX-License-Identifier: MIT */
/*
 * nccl_group: a group of NCCL transfers from its start to its end. A group that
 * makes no progress is ended by aborting its communicator. One thread.
 */
#ifndef CK_NCCL_GROUP_H
#define CK_NCCL_GROUP_H

#include "nccl_epochs.h"

struct ck_nccl_group {
	struct ck_nccl_epochs *epochs; /* with the communicator */
	/* result once it is over: 0; -EIO; or the reason of giving it up */
	int rc;
	/* Permanent: it is unknown whether transfers have ended, because the
	 * device has failed or NCCL does not abort them. */
	bool broken;

	/* Private: */
	enum {
		CK_NCCL_GROUP_OVER,
		CK_NCCL_GROUP_LAUNCHES, /* by NCCL */
		CK_NCCL_GROUP_RUNS,
		CK_NCCL_GROUP_DROPS, /* the communicator */
		CK_NCCL_GROUP_DRAINS,
	} step;

	uint64_t since; /* when step DROPS began, ms */
};

/* Begins with a group that was started with result rc. */
void ck_nccl_group_begin(struct ck_nccl_group *f, int rc);
/* Advances as far as possible. Returns 0 if the group is over, or
 * -EINPROGRESS. */
CK_MUST_USE int ck_nccl_group_advance(struct ck_nccl_group *f);
/* Aborts the group; it is over with rc when its transfers have ended. Does
 * nothing if it is being aborted or over. */
void ck_nccl_group_abort(struct ck_nccl_group *f, int rc);

#endif
