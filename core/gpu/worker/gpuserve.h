/* SPDX-License-Identifier: MIT */
/*
 * gpuserve: the GPU worker process. It gathers the data in the slots of the
 * shared memory, as the mount requests, and executes rounds with the workers of
 * other ranks. One thread. It serves until the mount, its rank or a GPU is
 * gone; then the process must exit.
 */
#ifndef CK_GPUSERVE_H
#define CK_GPUSERVE_H

#include "gpu/gpu.h"

struct ck_gpuserve_options {
	/* One end of a pair of ck_control_msg_sockets(), and the memory that is
	 * shared with the mount, sealed against any change of its size. The
	 * caller keeps both. -1: there is no mount. */
	int sock, memory;
	/* The driver's numbers of the devices to use; n 0: all devices. */
	const uint32_t *devices;
	uint32_t n;
	/* The same of a link to a rank, for rounds; -1: without rounds, or the
	 * mount passes it later. */
	int rounds_sock, rounds_memory;
	uint64_t rounds_size; /* bytes */
	/* Called when the devices are open, before the memory is read. May be
	 * NULL. An error ends the worker. */
	int (*opened)(struct ck_diag *d);
};

/* Serves until the mount is gone, or the rank if there is no mount, or a GPU is
 * lost. Sends the reason of a failure to the mount. Returns 0, or: -EPROTO if a
 * request is invalid; -EIO if a GPU is lost; errors of ck_gpu_open(), mmap(2)
 * and sockets. */
CK_MUST_USE int ck_gpuserve_run(const struct ck_gpuserve_options *options);

#endif
