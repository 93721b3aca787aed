/* SPDX-License-Identifier: MIT */
/*
 * driver: the functions of CUDA's driver, found when the program runs: a machine without
 * one is none of our business. No function of CUDA's runtime is used.
 */
#ifndef CK_DRIVER_H
#define CK_DRIVER_H

#include "ckptfs/base.h"

#include <cuda.h>

/* By the names that cuda.h has for the versions that we are compiled for. */
#define CK_CUDA_FUNCTIONS(F)                                                   \
	F(cuInit)                                                              \
	F(cuDriverGetVersion)                                                  \
	F(cuGetErrorName)                                                      \
	F(cuDeviceGetCount)                                                    \
	F(cuDeviceGet)                                                         \
	F(cuDeviceGetName)                                                     \
	F(cuDeviceGetUuid)                                                     \
	F(cuDevicePrimaryCtxRetain)                                            \
	F(cuDevicePrimaryCtxRelease)                                           \
	F(cuCtxSetCurrent)                                                     \
	F(cuModuleLoadData)                                                    \
	F(cuModuleUnload)                                                      \
	F(cuModuleGetFunction)                                                 \
	F(cuLaunchKernel)                                                      \
	F(cuMemGetInfo)                                                        \
	F(cuMemAlloc)                                                          \
	F(cuMemFree)                                                           \
	F(cuMemHostAlloc)                                                      \
	F(cuMemFreeHost)                                                       \
	F(cuMemHostRegister)                                                   \
	F(cuMemHostUnregister)                                                 \
	F(cuIpcGetMemHandle)                                                   \
	F(cuMemGetAllocationGranularity)                                       \
	F(cuMemCreate)                                                         \
	F(cuMemRelease)                                                        \
	F(cuMemAddressReserve)                                                 \
	F(cuMemAddressFree)                                                    \
	F(cuMemMap)                                                            \
	F(cuMemUnmap)                                                          \
	F(cuMemSetAccess)                                                      \
	F(cuMemExportToShareableHandle)                                        \
	F(cuMemcpyHtoDAsync)                                                   \
	F(cuMemcpyDtoHAsync)                                                   \
	F(cuMemcpyDtoDAsync)                                                   \
	F(cuMemsetD8Async)                                                     \
	F(cuStreamCreate)                                                      \
	F(cuStreamDestroy)                                                     \
	F(cuStreamSynchronize)                                                 \
	F(cuStreamWaitEvent)                                                   \
	F(cuEventCreate)                                                       \
	F(cuEventDestroy)                                                      \
	F(cuEventRecord)                                                       \
	F(cuEventQuery)

struct ck_cuda {
	void *library;
	int version; /* of the driver: 1000 * major + 10 * minor */
#define CK_CUDA_POINTER(name) __typeof__(name) *name;
	CK_CUDA_FUNCTIONS(CK_CUDA_POINTER)
#undef CK_CUDA_POINTER
};

/* Loads libcuda.so.1 and begins. -ENOENT: there is no driver; -ENOSYS: it lacks a
 * function; -ENODEV: it has no device; -EIO: it says something else. Why is in d. Once in a
 * process: CUDA does not end before that does. */
CK_MUST_USE int ck_cuda_load(struct ck_cuda *cuda, struct ck_diag *d);
/* Only where nothing of it is used any more. */
void ck_cuda_unload(struct ck_cuda *cuda);
/* The driver's name for what a call came to. */
const char *ck_cuda_error(const struct ck_cuda *cuda, CUresult rc);
/* 0, or the errno for it: -ENOSPC (no room on the device), -ENODEV, else -EIO. */
CK_MUST_USE int ck_cuda_errno(CUresult rc);
/* Whether all calls will come to this from now on, in all contexts of the process: the
 * device is lost for it. */
CK_MUST_USE bool ck_cuda_is_sticky(CUresult rc);

#endif
