/* SPDX-License-Identifier: MIT */
/*
 * nccl_rounds: a round backend that makes each round as one group of NCCL, with
 * a communicator for each epoch.
 */
#ifndef CK_NCCL_ROUNDS_H
#define CK_NCCL_ROUNDS_H

#include "gpu/driver/cuda_device.h"
#include "gpu/gpu.h"

/* One thread. The arg of its rounds is a struct ck_gpu_round. */
struct ck_nccl_rounds {
	struct ck_round_backend backend; /* first */
	/* Returns 1 if rounds can be run, or if an attempt is due, which costs
	 * an epoch if it fails; 0 if not yet; -EIO if probably not in this
	 * epoch. */
	int (*is_ready)(struct ck_nccl_rounds *x);
	/* True if the device has failed. */
	bool (*is_broken)(const struct ck_nccl_rounds *x);
	/* Frees it; no round may be running, and the device's context must be
	 * current. False if NCCL does not return: then everything stays
	 * allocated until the process ends. */
	bool (*end)(struct ck_nccl_rounds *x);
	char nccl[512]; /* version and file of NCCL */
};

/* The device's context must be current. Returns 0, or errors as of ck_gpu.join,
 * with a message. */
CK_MUST_USE int ck_nccl_rounds_make(struct ck_device *g, uint32_t rank,
				    struct ck_nccl_rounds **out,
				    struct ck_diag *d);

#endif
