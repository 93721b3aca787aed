/* SPDX-License-Identifier: MIT */
/*
 * shared_memory: device memory that other processes open, by a CUDA IPC handle
 * or by a file descriptor.
 */
#ifndef CK_SHARED_MEMORY_H
#define CK_SHARED_MEMORY_H

#include "gpu/driver/cuda_device.h"
#include "gpu/gpu.h"

/* Allocate at least `bytes` bytes: with an IPC handle, or with a descriptor in
 * out->file. The device's context must be current. Return 0, or: -ENOSPC if
 * there is no memory left; errors of ck_device_check(). */
CK_MUST_USE int ck_shared_memory_allocate(struct ck_device *g, uint64_t bytes,
					  struct ck_gpu_memory *out);
CK_MUST_USE int ck_shared_memory_map(struct ck_device *g, uint64_t bytes,
				     struct ck_gpu_memory *out);
/* Frees memory of either kind. The device must no longer use it. */
void ck_shared_memory_free(struct ck_device *g, struct ck_gpu_memory *m);

#endif
