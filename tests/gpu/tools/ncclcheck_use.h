/* SPDX-License-Identifier: MIT */
/*
 * ncclcheck_use: a process that uses NCCL on the first GPU, with the code of ckptfs. The first
 * failure is reported.
 */
#ifndef NCCLCHECK_USE_H
#define NCCLCHECK_USE_H

#include "gpu/nccl/nccl_epochs.h"
#include "ncclcheck.h"

struct use {
	struct ck_cuda cuda;
	struct ck_device *device;
	struct ck_nccl nccl;
	CUstream stream;
	ncclComm_t comm;
};

bool use_open(struct checks *c, struct use *u);
bool use_good(struct checks *c, const struct use *u, CUresult rc);
bool use_nccl(struct checks *c, const struct use *u, ncclResult_t rc,
	      const char *what);
/* Makes a non-blocking communicator. */
bool use_comm(struct checks *c, struct use *u, const ncclUniqueId *id,
	      int ranks, int rank, ncclConfig_t config);
/* Puts a send to a rank, and a receive of as many bytes, into the stream. */
bool use_exchange(struct checks *c, struct use *u, int peer, CUdeviceptr from,
		  CUdeviceptr to, size_t bytes);
/* Ends the communicator, and waits for the device. */
bool use_end(struct checks *c, struct use *u);
/* Stores the free bytes of the device. */
bool use_free_bytes(struct checks *c, const struct use *u, size_t *bytes);

#endif
