/* SPDX-License-Identifier: MIT */
/*
 * device: one GPU, with the kernels on it.
 */
#ifndef CK_DEVICE_H
#define CK_DEVICE_H

#include "ckptfs/tiles.h"
#include "driver.h"

/* Each is done in order; one waits for another where it is told so, by an event. */
enum ck_way {
	CK_WAY_UP,   /* copies to the device */
	CK_WAY_WORK, /* kernels */
	CK_WAY_DOWN, /* copies from it */
	CK_WAYS
};

struct ck_device {
	/* Constant: */
	const struct ck_cuda *cuda;
	int ordinal; /* of the driver, in this process */
	CUdevice device;
	CUcontext context; /* the primary one */
	CUmodule module;
	CUfunction kernels[CK_TILE_KINDS];
	CUstream ways[CK_WAYS];
	CUuuid uuid;
	char name[128];
	bool compiled_here; /* the kernels are of the carried PTX */

	int lost; /* atomic: CUresult of the first sticky error; 0: none */
};

/* How many devices the driver shows. */
CK_MUST_USE int ck_device_count(const struct ck_cuda *cuda, int *count,
				struct ck_diag *d);
/* Takes the device's primary context, which is current in this thread then, and loads
 * the kernels: the machine code of this build, or what the driver compiles of the PTX.
 * -ENODEV: there is none of that number; -ENOSPC: it has no room; -EIO; -ENOMEM. Why is in
 * d. */
CK_MUST_USE int ck_device_open(const struct ck_cuda *cuda, int ordinal,
			       struct ck_device **out, struct ck_diag *d);
/* NULL is allowed. Waits for what it is still doing. */
void ck_device_close(struct ck_device *g);
/* What a call of the driver came to: 0 or an errno, as of ck_cuda_errno(). A sticky one is
 * noted: -EOPNOTSUPP from then on, whatever comes. Any thread. */
CK_MUST_USE int ck_device_check(struct ck_device *g, CUresult rc);
/* Its context is current in this thread from now on. As of ck_device_check(). */
int ck_device_use(struct ck_device *g);
/* Pins memory of the host, of so many bytes, for all devices; of 0 bytes nothing. *pinned:
 * that, for cuMemHostUnregister(). -ENOSPC, with a message. */
CK_MUST_USE int ck_device_pin(const struct ck_device *g, void *memory,
			      size_t size, void **pinned, struct ck_diag *d);
/* Waits for all that it was asked for. */
void ck_device_settle(const struct ck_device *g);
CK_MUST_USE bool ck_device_is_lost(const struct ck_device *g);

#endif
