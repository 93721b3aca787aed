/* SPDX-License-Identifier: MIT */
/* errors: names of the driver's errors, those that ckptfs may see. */
#include "standin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckptfs/base.h"

#define NAME(name)                                                             \
	{                                                                      \
		CUDA_ERROR_##name, "CUDA_ERROR_" #name                         \
	}

static const struct {
	CUresult code;
	const char *name;
} names[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS" },
	NAME(INVALID_VALUE),
	NAME(OUT_OF_MEMORY),
	NAME(NOT_INITIALIZED),
	NAME(DEINITIALIZED),
	NAME(STUB_LIBRARY),
	NAME(DEVICE_UNAVAILABLE),
	NAME(NO_DEVICE),
	NAME(INVALID_DEVICE),
	NAME(INVALID_IMAGE),
	NAME(INVALID_CONTEXT),
	NAME(MAP_FAILED),
	NAME(UNMAP_FAILED),
	NAME(NO_BINARY_FOR_GPU),
	NAME(ECC_UNCORRECTABLE),
	NAME(UNSUPPORTED_LIMIT),
	NAME(PEER_ACCESS_UNSUPPORTED),
	NAME(INVALID_PTX),
	NAME(NVLINK_UNCORRECTABLE),
	NAME(UNSUPPORTED_PTX_VERSION),
	NAME(JIT_COMPILATION_DISABLED),
	NAME(OPERATING_SYSTEM),
	NAME(INVALID_HANDLE),
	NAME(ILLEGAL_STATE),
	NAME(NOT_FOUND),
	NAME(NOT_READY),
	NAME(ILLEGAL_ADDRESS),
	NAME(LAUNCH_OUT_OF_RESOURCES),
	NAME(LAUNCH_TIMEOUT),
	NAME(CONTEXT_IS_DESTROYED),
	NAME(HOST_MEMORY_ALREADY_REGISTERED),
	NAME(HOST_MEMORY_NOT_REGISTERED),
	NAME(HARDWARE_STACK_ERROR),
	NAME(ILLEGAL_INSTRUCTION),
	NAME(MISALIGNED_ADDRESS),
	NAME(LAUNCH_FAILED),
	NAME(NOT_PERMITTED),
	NAME(NOT_SUPPORTED),
	NAME(SYSTEM_NOT_READY),
	NAME(SYSTEM_DRIVER_MISMATCH),
	NAME(COMPAT_NOT_SUPPORTED_ON_DEVICE),
	NAME(UNKNOWN),
};

static const char *name_of(CUresult code)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		if (names[i].code == code)
			return names[i].name;
	return NULL;
}

int standin_code(const char *text, CUresult *code)
{
	char *end;

	if (strcmp(text, "NEVER") == 0) {
		*code = STANDIN_NEVER;
		return 0;
	}
	for (size_t i = 1; i < CK_ARRAY_SIZE(names); i++) {
		const char *name = names[i].name;

		if (strcmp(name, text) == 0 ||
		    strcmp(name + strlen("CUDA_ERROR_"), text) == 0) {
			*code = names[i].code;
			return 0;
		}
	}
	*code = (CUresult)strtoul(text, &end, 10);
	return end == text || *end || *code == CUDA_SUCCESS ? -EINVAL : 0;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
	*text = name_of(error);
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The driver has sentences. */
CUresult cuGetErrorString(CUresult error, const char **text)
{
	return cuGetErrorName(error, text);
}
