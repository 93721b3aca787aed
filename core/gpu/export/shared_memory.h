/* SPDX-License-Identifier: MIT */
/*
 * shared_memory: memory of a device that other processes open: by an IPC handle, or by a descriptor.
 */
#ifndef CK_SHARED_MEMORY_H
#define CK_SHARED_MEMORY_H

#include "ckptfs/gpu.h"
#include "device.h"

/* The device's context is current. Both: -ENOSPC: there is no room; as of
 * ck_device_check(). */
CK_MUST_USE int ck_shared_memory_allocate(struct ck_device *g, uint64_t bytes,
					  struct ck_gpu_memory *out);
CK_MUST_USE int ck_shared_memory_map(struct ck_device *g, uint64_t bytes,
				     struct ck_gpu_memory *out);
/* Either. Nothing of the device uses it. */
void ck_shared_memory_free(struct ck_device *g, struct ck_gpu_memory *m);

#endif
