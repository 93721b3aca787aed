/* SPDX-License-Identifier: MIT */
/*
 * nccl_rounds: a mover of rounds that makes each as one group of NCCL, with a communicator for
 * each epoch.
 */
#ifndef CK_NCCL_ROUNDS_H
#define CK_NCCL_ROUNDS_H

#include "ckptfs/gpu.h"
#include "device.h"

/* One thread. Its rounds have a struct ck_gpu_round. */
struct ck_nccl_rounds {
	struct ck_round_mover mover; /* first */
	/* 1: rounds can be moved, or whether they can has to be tried again, which costs an
	 * epoch; 0: not yet; -EIO: not in this epoch, as it seems. */
	int (*is_ready)(struct ck_nccl_rounds *x);
	/* The device does what it must not. */
	bool (*is_broken)(const struct ck_nccl_rounds *x);
	/* Nothing is being run. The device's context is current. False: NCCL does not
	 * return: then it has what it uses for as long as the process lives. */
	bool (*end)(struct ck_nccl_rounds *x);
	char nccl[512]; /* the version, and the file */
};

/* The device's context is current. Errors as of ck_gpu.join. */
CK_MUST_USE int ck_nccl_rounds_make(struct ck_device *g, uint32_t rank,
				    struct ck_nccl_rounds **out,
				    struct ck_diag *d);

#endif
