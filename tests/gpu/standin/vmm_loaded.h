/* SPDX-License-Identifier: MIT */
/* vmm_loaded: virtual memory as tests of the stand-in make it. */
#ifndef STANDIN_VMM_LOADED_H
#define STANDIN_VMM_LOADED_H

#include "loaded.h"

#define VMM_UNIT (UINT64_C(2) << 20)
#define VMM_FD	 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

typedef CUmemGenericAllocationHandle vmm_handle;

static inline CUmemAllocationProp vmm_prop(void)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .requestedHandleTypes = VMM_FD,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE,
						    0 } };
}

static inline vmm_handle vmm_create(uint64_t size)
{
	const CUmemAllocationProp prop = vmm_prop();
	vmm_handle handle;

	must(cu.cuMemCreate(&handle, size, &prop, 0));
	return handle;
}

static inline CUdeviceptr vmm_reserve(uint64_t size)
{
	CUdeviceptr at;

	must(cu.cuMemAddressReserve(&at, size, 0, 0, 0));
	return at;
}

static inline CUresult vmm_access(CUdeviceptr at, uint64_t size,
				  CUmemAccess_flags flags)
{
	const CUmemAccessDesc desc = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				       flags };

	return cu.cuMemSetAccess(at, size, &desc, 1);
}

/* In a range of its own, to be read and written. */
static inline CUdeviceptr vmm_map(vmm_handle handle, uint64_t size)
{
	CUdeviceptr at = vmm_reserve(size);

	must(cu.cuMemMap(at, size, 0, handle, 0));
	must(vmm_access(at, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	return at;
}

static inline void vmm_unmap(CUdeviceptr at, uint64_t size)
{
	must(cu.cuMemUnmap(at, size));
	must(cu.cuMemAddressFree(at, size));
}

static inline int vmm_export(vmm_handle handle)
{
	int fd = -1;

	must(cu.cuMemExportToShareableHandle(&fd, handle, VMM_FD, 0));
	return fd;
}

static inline CUresult vmm_import(vmm_handle *handle, int fd)
{
	return cu.cuMemImportFromShareableHandle(handle, (void *)(intptr_t)fd,
						 VMM_FD);
}

#endif
