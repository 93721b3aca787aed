/* SPDX-License-Identifier: MIT */
/*
 * gpuserve: what a mover of GPUs does: it gathers what lies in the slots of its memory, as a
 * mount beside it asks. One thread.
 */
#ifndef CKPTFS_GPUSERVE_H
#define CKPTFS_GPUSERVE_H

#include "ckptfs/gpu.h"

struct ck_gpuserve_options {
	/* One end of a pair of ck_control_msg_sockets(), and memory that the mount has too, whose
	 * size nobody can change. Stay the caller's. */
	int sock, memory;	 /* -1: there is no mount */
	const uint32_t *devices; /* numbers of the driver's; n 0: all of them */
	uint32_t n;
	/* The same of a link to a rank, for rounds; -1: there is none, or the mount hands
	 * it over later. */
	int rounds_sock, rounds_memory;
	uint64_t rounds_size; /* bytes */
	/* Called when the devices are open, before the memory is read. May be NULL. An
	 * error ends the worker. */
	int (*opened)(struct ck_diag *d);
};

/* Serves until the mount is gone, or the rank if there is none, or the GPUs are: what it was
 * about is said to the mount.
 * 0; -EPROTO: what it is asked cannot be; -EIO: a GPU is lost; errors of
 * ck_gpu_open(), mmap(2) and sockets. The process has to end soon. */
CK_MUST_USE int ck_gpuserve_run(const struct ck_gpuserve_options *options);

#endif
