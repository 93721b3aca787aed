/* SPDX-License-Identifier: MIT */
/*
 * driver: loads libcuda.so.1 with dlopen(3), and converts its errors. State:
 * struct ck_cuda, constant once loaded.
 */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>

#define LIBRARY "libcuda.so.1"

/* --- results of calls ----------------------------------------------------- */

const char *ck_cuda_error(const struct ck_cuda *cuda, CUresult rc)
{
	const char *name = NULL;

	if (cuda->cuGetErrorName(rc, &name) != CUDA_SUCCESS || !name)
		return "an error that the driver has no name for";
	return name;
}

int ck_cuda_errno(CUresult rc)
{
	switch ((int)rc) {
	case CUDA_SUCCESS: return 0;
	case CUDA_ERROR_OUT_OF_MEMORY: return -ENOSPC;
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE: return -ENODEV;
	default: return -EIO;
	}
}

/* Source: the descriptions of these errors in cuda.h, "any future CUDA call
 * will fail". After the last three of them, too, every further call has
 * failed. */
bool ck_cuda_is_sticky(CUresult rc)
{
	switch ((int)rc) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_DEVICE_UNAVAILABLE: return true;
	default: return false;
	}
}

/* --- loading --------------------------------------------------------------------------- */

/* Looks up a function; `function` points to a function pointer. */
static int find(const struct ck_cuda *cuda, const char *name, void *function,
		struct ck_diag *d)
{
	void *found = dlsym(cuda->library, name);

	if (!found)
		return ck_fail(d, ENOSYS, "%s has no %s: the driver is too old",
			       LIBRARY, name);
	memcpy(function, &found, sizeof(found));
	return 0;
}

/* the versioned name that cuda.h maps it to */
#define TEXT(name)    TEXT_OF(name)
#define TEXT_OF(name) #name

static int find_all(struct ck_cuda *cuda, struct ck_diag *d)
{
	int rc = 0;

#define FIND(name)                                                             \
	if (rc == 0)                                                           \
		rc = find(cuda, TEXT(name), &cuda->name, d);
	CK_CUDA_FUNCTIONS(FIND)
#undef FIND
	return rc;
}

static int begin(struct ck_cuda *cuda, struct ck_diag *d)
{
	CUresult rc = cuda->cuInit(0);

	if (rc == CUDA_SUCCESS)
		rc = cuda->cuDriverGetVersion(&cuda->version);
	if (rc == CUDA_SUCCESS)
		return 0;
	return ck_fail(d, -ck_cuda_errno(rc), "the driver of CUDA: %s",
		       ck_cuda_error(cuda, rc));
}

int ck_cuda_load(struct ck_cuda *cuda, struct ck_diag *d)
{
	int rc;

	*cuda = (struct ck_cuda){ .library = dlopen(LIBRARY,
						    RTLD_NOW | RTLD_LOCAL) };
	if (!cuda->library)
		return ck_fail(d, ENOENT, "no driver of CUDA: %s", dlerror());
	rc = find_all(cuda, d);
	if (rc == 0)
		rc = begin(cuda, d);
	if (rc)
		ck_cuda_unload(cuda);
	return rc;
}

void ck_cuda_unload(struct ck_cuda *cuda)
{
	if (cuda->library)
		dlclose(cuda->library);
	*cuda = (struct ck_cuda){ 0 };
}
