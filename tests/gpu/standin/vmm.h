/* SPDX-License-Identifier: MIT */
/* vmm: virtual memory of devices: what there is, apart from where it is mapped. */
#ifndef STANDIN_VMM_H
#define STANDIN_VMM_H

#include "standin.h"

/* Of cuMemCreate, in this process or another: it is there as long as it has handles or
 * mappings. */
struct vmm_memory {
	struct vmm_memory *next;
	struct standin_device *device;
	uint64_t size, inode;
	int fd; /* a head, and the bytes */
	bool imported;
	bool may_leave; /* by a descriptor */
	unsigned refs;
};

enum { VMM_GRANULARITY = 2 << 20, VMM_HEAD = 4096 };

/* Ends the program if it is no multiple of the granularity. */
void vmm_granular(const char *call, const char *what, uint64_t value);
/* Under the lock. Ends the program if there is no such handle. */
struct vmm_memory *vmm_find(const char *call,
			    CUmemGenericAllocationHandle handle);
void vmm_put(struct vmm_memory *memory);
/* How many ranges there are, and mappings in them. */
unsigned vmm_ranges_left(unsigned *mappings);

#endif
