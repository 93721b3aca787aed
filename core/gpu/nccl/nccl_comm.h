/* SPDX-License-Identifier: MIT */
/*
 * nccl_comm: an NCCL communicator on a device, with a stream for its transfers.
 * One thread at a time.
 */
#ifndef CK_NCCL_COMM_H
#define CK_NCCL_COMM_H

#include "gpu/driver/cuda_device.h"
#include "nccl_load.h"

enum {
	CK_NCCL_COMM_APART = 16
}; /* bytes per rank in the first exchange of a new communicator */

struct ck_nccl_comm {
	struct ck_device *device;
	CUstream stream;
	CUevent done;
	CUdeviceptr bytes; /* buffer of the first exchange */
	ncclComm_t comm;   /* NULL if there is no communicator */
};

/* Makes stream, event and buffer, for `exchanges` times CK_NCCL_COMM_APART
 * bytes. *l must be zeroed. The device's context is current afterwards, as
 * it must be in the functions below. Returns 0; or -ENOSPC, or another errno
 * as ck_device_check(), with a message: ck_nccl_comm_close() is due in both
 * cases. */
CK_MUST_USE int ck_nccl_comm_open(struct ck_nccl_comm *l, struct ck_device *g,
				  uint32_t exchanges, struct ck_diag *d);
/* Frees it; there must be no communicator. A zeroed one is allowed. */
void ck_nccl_comm_close(struct ck_nccl_comm *l);
/* The state of the last call on the communicator; convert it by
 * ck_nccl_errno(). */
CK_MUST_USE ncclResult_t ck_nccl_comm_state(const struct ck_nccl_comm *l,
					    const struct ck_nccl *nccl);
/* Ends a group whose calls had the result rc. Returns the first error;
 * otherwise ncclSuccess or ncclInProgress. */
CK_MUST_USE ncclResult_t ck_nccl_group_end(const struct ck_nccl *nccl,
					   ncclResult_t rc);
/* Aborts the communicator, if there is one. May block. */
void ck_nccl_comm_abort(struct ck_nccl_comm *l, const struct ck_nccl *nccl);
/* Records the event behind all work in the stream. Returns as
 * ck_device_check(). */
CK_MUST_USE int ck_nccl_comm_mark(struct ck_nccl_comm *l);
/* Returns 0 if the stream has passed the event; -EINPROGRESS if not yet; or
 * errors of ck_device_check(). */
CK_MUST_USE int ck_nccl_comm_is_marked(struct ck_nccl_comm *l);

#endif
