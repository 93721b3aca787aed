/* SPDX-License-Identifier: MIT */
/*
 * device: one GPU of this process, with its streams and the kernels of tiles
 * (tiles.h).
 */
#ifndef CK_DEVICE_H
#define CK_DEVICE_H

#include "driver.h"
#include "tiles.h"

/* Streams. Each executes in order; events order them among each other. */
enum ck_gpu_stream {
	CK_GPU_STREAM_UP,   /* copies to the device */
	CK_GPU_STREAM_WORK, /* kernels */
	CK_GPU_STREAM_DOWN, /* copies from it */
	CK_GPU_STREAMS
};

struct ck_device {
	/* Constant: */
	const struct ck_cuda *cuda;
	int ordinal; /* number of the driver, in this process */
	CUdevice device;
	CUcontext context; /* the primary one */
	CUmodule module;
	CUfunction kernels[CK_TILE_KINDS];
	CUstream streams[CK_GPU_STREAMS];
	CUuuid uuid;
	char name[128];
	/* the kernels were compiled from the checked-in PTX */
	bool compiled_here;

	int lost; /* atomic: CUresult of the first sticky error, or 0 */
};

/* Returns 0, and the number of devices that the driver shows; or an errno as
 * ck_cuda_errno(), with a message. */
CK_MUST_USE int ck_device_count(const struct ck_cuda *cuda, int *count,
				struct ck_diag *d);
/* Retains the primary context of a device, makes it current in this thread, and
 * loads the kernels: the machine code of this build, or else the PTX, which the
 * driver compiles. Returns 0, or: -ENODEV if there is no such device; -ENOSPC
 * if it has no memory left; -EIO; -ENOMEM. All but -ENOMEM have a message in d.
 * Caller closes *out. */
CK_MUST_USE int ck_device_open(const struct ck_cuda *cuda, int ordinal,
			       struct ck_device **out, struct ck_diag *d);
/* Waits for pending work, and frees the device. NULL is allowed. */
void ck_device_close(struct ck_device *g);
/* Converts the result of a driver call: 0, or an errno as ck_cuda_errno(). A
 * sticky error marks the device as lost; then each call returns -EOPNOTSUPP.
 * Any thread. */
CK_MUST_USE int ck_device_check(struct ck_device *g, CUresult rc);
/* Makes the device's context current in this thread. Returns as
 * ck_device_check(). */
int ck_device_use(struct ck_device *g);
/* Pins `size` bytes of host memory for all devices; does nothing for 0 bytes.
 * *pinned: argument of cuMemHostUnregister(). Returns 0, or -ENOSPC with a
 * message. */
CK_MUST_USE int ck_device_pin(const struct ck_device *g, void *memory,
			      size_t size, void **pinned, struct ck_diag *d);
/* Waits until all streams are idle. Blocks. */
void ck_device_settle(const struct ck_device *g);
/* True after a sticky error. Any thread. */
CK_MUST_USE bool ck_device_is_lost(const struct ck_device *g);

#endif
