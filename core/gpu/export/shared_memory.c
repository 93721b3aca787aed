/* SPDX-License-Identifier: MIT */
/*
 * shared_memory: device memory that other processes can open. Without a
 * descriptor it is allocated by cuMemAlloc() and exported as CUDA IPC handle;
 * with one, it is mapped by the virtual memory functions of CUDA. No state; the
 * thread of the GPU worker.
 */
#include "shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int ck_shared_memory_allocate(struct ck_device *g, uint64_t bytes,
			      struct ck_gpu_memory *out)
{
	const struct ck_cuda *cuda = g->cuda;
	CUipcMemHandle handle;
	CUdeviceptr at;
	int rc = ck_device_check(g, cuda->cuMemAlloc(&at, bytes));

	if (rc)
		return rc;
	rc = ck_device_check(g, cuda->cuIpcGetMemHandle(&handle, at));
	if (rc) {
		(void)cuda->cuMemFree(at);
		return rc;
	}
	out->at = at;
	out->size = bytes;
	memcpy(out->handle, handle.reserved, sizeof(out->handle));
	return 0;
}

/* --- by a descriptor ------------------------------------------------------------------- */

static CUmemAllocationProp properties(const struct ck_device *g)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = g->device },
	};
}

/* Creates the memory. Its size is rounded up to the granularity of the
 * device. */
static CUresult create(const struct ck_device *g, uint64_t bytes,
		       struct ck_gpu_memory *out)
{
	const struct ck_cuda *cuda = g->cuda;
	const CUmemAllocationProp prop = properties(g);
	size_t piece;
	CUresult rc = cuda->cuMemGetAllocationGranularity(
		&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (rc != CUDA_SUCCESS)
		return rc;
	if (!ck_add(&out->size, bytes, piece - 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	out->size = out->size / piece * piece;
	return cuda->cuMemCreate(&out->mapped, out->size, &prop, 0);
}

static CUresult map(const struct ck_device *g, struct ck_gpu_memory *out)
{
	const struct ck_cuda *cuda = g->cuda;
	const CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = g->device },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUdeviceptr at;
	CUresult rc = cuda->cuMemAddressReserve(&at, out->size, 0, 0, 0);

	if (rc != CUDA_SUCCESS)
		return rc;
	rc = cuda->cuMemMap(at, out->size, 0, out->mapped, 0);
	if (rc != CUDA_SUCCESS) {
		(void)cuda->cuMemAddressFree(at, out->size);
		return rc;
	}
	out->at = at;
	rc = cuda->cuMemSetAccess(at, out->size, &access, 1);
	if (rc == CUDA_SUCCESS)
		rc = cuda->cuMemExportToShareableHandle(
			&out->file, out->mapped,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (rc == CUDA_SUCCESS)
		(void)fcntl(out->file, F_SETFD, FD_CLOEXEC);
	return rc;
}

static void unmap(const struct ck_device *g, const struct ck_gpu_memory *m)
{
	const struct ck_cuda *cuda = g->cuda;

	if (m->at) {
		(void)cuda->cuMemUnmap(m->at, m->size);
		(void)cuda->cuMemAddressFree(m->at, m->size);
	}
	(void)cuda->cuMemRelease(m->mapped);
}

int ck_shared_memory_map(struct ck_device *g, uint64_t bytes,
			 struct ck_gpu_memory *out)
{
	int rc = ck_device_check(g, create(g, bytes, out));

	if (rc)
		return rc;
	out->file = -1;
	rc = ck_device_check(g, map(g, out));
	if (rc)
		unmap(g, out);
	return rc;
}

void ck_shared_memory_free(struct ck_device *g, struct ck_gpu_memory *m)
{
	if (m->file < 0) {
		(void)g->cuda->cuMemFree(m->at);
		return;
	}
	unmap(g, m);
	close(m->file);
	m->file = -1;
}
