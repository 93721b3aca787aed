/* SPDX-License-Identifier: MIT */
/*
 * driver: the functions of the CUDA driver, loaded at run time, so that the
 * program also runs on machines without it. The CUDA runtime is not used.
 */
#ifndef CK_DRIVER_H
#define CK_DRIVER_H

#include "ckptfs/base.h"

#include <cuda.h>

/* Names as cuda.h defines them for the version compiled for. */
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
	int version; /* version of the driver: 1000 * major + 10 * minor */
#define CK_CUDA_POINTER(name) __typeof__(name) *name;
	CK_CUDA_FUNCTIONS(CK_CUDA_POINTER)
#undef CK_CUDA_POINTER
};

/* Loads libcuda.so.1 and initialises CUDA. Returns 0, or: -ENOENT if there is
 * no driver; -ENOSYS if it lacks a function; -ENODEV if it has no device;
 * -ENOSPC or -EIO, as ck_cuda_errno(). d has the reason. Once in a process,
 * since CUDA cannot be shut down. */
CK_MUST_USE int ck_cuda_load(struct ck_cuda *cuda, struct ck_diag *d);
/* Unloads the driver. No function of it may be in use. */
void ck_cuda_unload(struct ck_cuda *cuda);
/* The driver's name of a result. Static text. */
const char *ck_cuda_error(const struct ck_cuda *cuda, CUresult rc);
/* Returns 0, or: -ENOSPC if the device has no memory left; -ENODEV if there is
 * no such device; -EIO for all other errors. */
CK_MUST_USE int ck_cuda_errno(CUresult rc);
/* True if every later call in this process fails with this result, in all
 * contexts: the device is lost. */
CK_MUST_USE bool ck_cuda_is_sticky(CUresult rc);

#endif
