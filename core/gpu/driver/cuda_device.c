/* SPDX-License-Identifier: MIT */
/*
 * device: opens a GPU: its primary context, the kernels, and a stream for each
 * direction. States: open; lost, after the first sticky error: from then on
 * every call returns -EOPNOTSUPP. One thread, except for ck_device_check() and
 * ck_device_is_lost().
 */
#include "cuda_device.h"
#include "kernels.h"

#include <errno.h>

int ck_device_count(const struct ck_cuda *cuda, int *count, struct ck_diag *d)
{
	CUresult rc = cuda->cuDeviceGetCount(count);

	if (rc == CUDA_SUCCESS)
		return 0;
	return ck_fail(d, -ck_cuda_errno(rc), "how many GPUs there are: %s",
		       ck_cuda_error(cuda, rc));
}

/* --- errors -------------------------------------------------------------------------- */

bool ck_device_is_lost(const struct ck_device *g)
{
	return __atomic_load_n(&g->lost, __ATOMIC_ACQUIRE) != 0;
}

int ck_device_check(struct ck_device *g, CUresult rc)
{
	int none = 0;

	if (ck_cuda_is_sticky(rc))
		(void)__atomic_compare_exchange_n(&g->lost, &none, (int)rc,
						  false, __ATOMIC_ACQ_REL,
						  __ATOMIC_ACQUIRE);
	return ck_device_is_lost(g) ? -EOPNOTSUPP : ck_cuda_errno(rc);
}

static int fail(const struct ck_device *g, CUresult rc, const char *what,
		struct ck_diag *d)
{
	return ck_fail(d, -ck_cuda_errno(rc), "GPU %d: %s: %s", g->ordinal,
		       what, ck_cuda_error(g->cuda, rc));
}

/* --- kernels ------------------------------------------------------------------------- */

/* True if another form of the kernels may be accepted. */
static bool is_refused(CUresult rc)
{
	switch ((int)rc) {
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_JIT_COMPILER_NOT_FOUND: return true;
	default: return false;
	}
}

static CUresult load(struct ck_device *g)
{
	const struct ck_cuda *cuda = g->cuda;
	CUresult rc = CUDA_ERROR_NO_BINARY_FOR_GPU;

	if (ck_kernels_fatbin.len > 0)
		rc = cuda->cuModuleLoadData(&g->module,
					    ck_kernels_fatbin.bytes);
	if (!is_refused(rc))
		return rc;
	g->compiled_here = true;
	return cuda->cuModuleLoadData(&g->module, ck_kernels_ptx.bytes);
}

static int load_kernels(struct ck_device *g, struct ck_diag *d)
{
	CUresult rc = load(g);

	if (rc != CUDA_SUCCESS) {
		g->module = NULL;
		return fail(g, rc, "the kernels cannot be loaded", d);
	}
	for (unsigned kind = 0; kind < CK_TILE_KINDS; kind++) {
		const char *name = ck_tile_kernel((enum ck_tile_kind)kind);

		rc = g->cuda->cuModuleGetFunction(&g->kernels[kind], g->module,
						  name);
		if (rc != CUDA_SUCCESS)
			return fail(g, rc, name, d);
	}
	return 0;
}

/* --- a device --------------------------------------------------------------------------- */

static int name_device(struct ck_device *g, struct ck_diag *d)
{
	const struct ck_cuda *cuda = g->cuda;
	CUresult rc = cuda->cuDeviceGet(&g->device, g->ordinal);

	if (rc == CUDA_SUCCESS)
		rc = cuda->cuDeviceGetUuid(&g->uuid, g->device);
	if (rc == CUDA_SUCCESS)
		rc = cuda->cuDeviceGetName(g->name, sizeof(g->name), g->device);
	return rc == CUDA_SUCCESS ? 0 : fail(g, rc, "which one it is", d);
}

static int open_context(struct ck_device *g, struct ck_diag *d)
{
	CUresult rc = g->cuda->cuDevicePrimaryCtxRetain(&g->context, g->device);

	if (rc != CUDA_SUCCESS) {
		g->context = NULL;
		return fail(g, rc, "no context", d);
	}
	rc = g->cuda->cuCtxSetCurrent(g->context);
	return rc == CUDA_SUCCESS ? 0 : fail(g, rc, "no current context", d);
}

static int open_ways(struct ck_device *g, struct ck_diag *d)
{
	for (unsigned i = 0; i < CK_GPU_STREAMS; i++) {
		CUresult rc = g->cuda->cuStreamCreate(&g->streams[i],
						      CU_STREAM_NON_BLOCKING);

		if (rc != CUDA_SUCCESS) {
			g->streams[i] = NULL;
			return fail(g, rc, "no stream", d);
		}
	}
	return 0;
}

int ck_device_open(const struct ck_cuda *cuda, int ordinal,
		   struct ck_device **out, struct ck_diag *d)
{
	struct ck_device *g = calloc(1, sizeof(*g));
	int rc;

	*out = NULL;
	if (!g)
		return -ENOMEM;
	g->cuda = cuda;
	g->ordinal = ordinal;
	rc = name_device(g, d);
	if (rc == 0)
		rc = open_context(g, d);
	if (rc == 0)
		rc = load_kernels(g, d);
	if (rc == 0)
		rc = open_ways(g, d);
	if (rc)
		ck_device_close(g);
	else
		*out = g;
	return rc;
}

int ck_device_use(struct ck_device *g)
{
	return ck_device_check(g, g->cuda->cuCtxSetCurrent(g->context));
}

int ck_device_pin(const struct ck_device *g, void *memory, size_t size,
		  void **pinned, struct ck_diag *d)
{
	CUresult rc;

	if (size == 0)
		return 0;
	rc = g->cuda->cuMemHostRegister(memory, size,
					CU_MEMHOSTREGISTER_PORTABLE);
	if (rc != CUDA_SUCCESS)
		return ck_fail(d, ENOSPC, "%zu bytes cannot be pinned: %s",
			       size, ck_cuda_error(g->cuda, rc));
	*pinned = memory;
	return 0;
}

/* Errors of a lost device are ignored. */
void ck_device_settle(const struct ck_device *g)
{
	for (unsigned i = 0; i < CK_GPU_STREAMS; i++)
		if (g->streams[i])
			(void)g->cuda->cuStreamSynchronize(g->streams[i]);
}

void ck_device_close(struct ck_device *g)
{
	if (!g)
		return;
	ck_device_settle(g);
	for (unsigned i = 0; i < CK_GPU_STREAMS; i++)
		if (g->streams[i])
			(void)g->cuda->cuStreamDestroy(g->streams[i]);
	if (g->module)
		(void)g->cuda->cuModuleUnload(g->module);
	if (g->context)
		(void)g->cuda->cuDevicePrimaryCtxRelease(g->device);
	free(g);
}
