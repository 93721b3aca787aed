/* SPDX-License-Identifier: MIT */
/*
 * nccl_comm: a communicator of NCCL on a device, with a stream for what it moves.
 */
#ifndef CK_NCCL_LANE_H
#define CK_NCCL_LANE_H

#include "device.h"
#include "nccl_load.h"

enum {
	CK_NCCL_COMM_APART = 16
}; /* bytes, in what new communicators exchange */

struct ck_nccl_lane {
	struct ck_device *device;
	CUstream stream;
	CUevent done;
	CUdeviceptr bytes; /* for what a new one exchanges */
	ncclComm_t comm;   /* NULL: there is none */
};

/* Zeros before. Memory for so many exchanges, of CK_NCCL_COMM_APART bytes each. The device's context
 * is current from then on, as in all that follow. -ENOSPC, -EIO; then it is to be closed, too. */
CK_MUST_USE int ck_nccl_lane_open(struct ck_nccl_lane *l, struct ck_device *g,
				  uint32_t exchanges, struct ck_diag *d);
/* There is no communicator. One of zeros is allowed. */
void ck_nccl_lane_close(struct ck_nccl_lane *l);
/* What the last call of the communicator has come to: errors of ck_nccl_errno(). */
CK_MUST_USE ncclResult_t ck_nccl_lane_state(const struct ck_nccl_lane *l,
					    const struct ck_nccl *nccl);
/* Whether a group has begun that was ended so, after its calls came to `rc`. */
CK_MUST_USE ncclResult_t ck_nccl_group_end(const struct ck_nccl *nccl,
					   ncclResult_t rc);
/* Ends the communicator by force, if there is one. */
void ck_nccl_lane_abort(struct ck_nccl_lane *l, const struct ck_nccl *nccl);
/* `done` comes behind all that is in the stream. As of ck_device_check(). */
CK_MUST_USE int ck_nccl_lane_mark(struct ck_nccl_lane *l);
/* 0: it has come; -EINPROGRESS: not yet; as of ck_device_check(). */
CK_MUST_USE int ck_nccl_lane_is_marked(struct ck_nccl_lane *l);

#endif
