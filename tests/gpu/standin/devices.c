/* SPDX-License-Identifier: MIT */
/* devices: a configurable number of devices, and the primary context of each. */
#include "standin.h"

#include <stdio.h>
#include <string.h>

#include "ckptfs/base.h"

static struct standin_device devices[STANDIN_DEVICES];
static bool initialized; /* under the lock */
static _Thread_local struct standin_device *current;

bool standin_is_initialized(void)
{
	return initialized;
}

unsigned standin_device_number(const struct standin_device *device)
{
	return (unsigned)(device - devices);
}

struct standin_device *standin_device_at(int number)
{
	return number < 0 || (unsigned)number >= standin_faults.devices
		       ? NULL
		       : &devices[number];
}

struct standin_device *standin_current(CUresult *why)
{
	if (!current)
		*why = CUDA_ERROR_INVALID_CONTEXT;
	else if (!current->retained)
		*why = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return *why ? NULL : current;
}

unsigned standin_devices_leaked(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < STANDIN_DEVICES; i++)
		n += devices[i].retained;
	return n;
}

/* Begins a call about a device number. */
static CUresult enter(const char *call, CUdevice device)
{
	CUresult code = standin_enter(call, NULL);

	if (code)
		return code;
	return device < 0 || (unsigned)device >= standin_faults_now().devices
		       ? CUDA_ERROR_INVALID_DEVICE
		       : CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
	CUresult code = standin_enter(__func__, NULL);

	if (code)
		return code;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!standin_faults_now().devices)
		return CUDA_ERROR_NO_DEVICE;
	standin_lock();
	initialized = true;
	standin_unlock();
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	CUresult code = standin_enter(__func__, NULL);

	/* The driver reports its version without cuInit(). */
	if (code && code != CUDA_ERROR_NOT_INITIALIZED)
		return code;
	*version = standin_faults_now().driver;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult code = standin_enter(__func__, NULL);

	if (!code)
		*count = (int)standin_faults_now().devices;
	return code;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult code = enter(__func__, ordinal);

	if (!code)
		*device = ordinal;
	return code;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
	CUresult code = enter(__func__, device);

	if (!code && len > 0)
		(void)snprintf(name, (size_t)len, "Stand-in %d", device);
	return code;
}

/* A UUID that is the same in all processes. */
static CUresult uuid_get(const char *call, CUuuid *uuid, CUdevice device)
{
	CUresult code = enter(call, device);
	uint64_t state = (unsigned)device, half;

	for (size_t i = 0; !code && i < sizeof(uuid->bytes);
	     i += sizeof(half)) {
		half = standin_random(&state);
		memcpy(uuid->bytes + i, &half, sizeof(half));
	}
	return code;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return uuid_get(__func__, uuid, device);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	return uuid_get(__func__, uuid, device);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
			      CUdevice device)
{
	static const struct {
		CUdevice_attribute attribute;
		int value;
	} known[] = {
		{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
		{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX },
		{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT32_MAX },
		{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4 },
		{ CU_DEVICE_ATTRIBUTE_INTEGRATED, 0 },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT },
		{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3 },
		{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0 },
		{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0 },
		{ CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1 },
		{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0 },
		{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		  1 },
		{ CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1 },
	};

	CUresult code = enter(__func__, device);

	if (code)
		return code;
	for (size_t i = 0; i < CK_ARRAY_SIZE(known); i++)
		if (known[i].attribute == attribute) {
			*value = known[i].value;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
	CUresult code = enter(__func__, device);

	if (!code)
		*bytes = standin_faults_now().memory;
	return code;
}

CUresult cuMemGetInfo(size_t *left, size_t *total)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (code)
		return code;
	standin_lock();
	*total = standin_faults.memory;
	*left = device->used < *total ? *total - device->used : 0;
	standin_unlock();
	return CUDA_SUCCESS;
}

/* --- contexts ------------------------------------------------------------------------- */

/* A handle is not a pointer. */
static CUcontext handle_of(const struct standin_device *device)
{
	return (CUcontext)(uintptr_t)(STANDIN_TAG | 0xc0 |
				      standin_device_number(device));
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult code = enter(__func__, device);

	if (code)
		return code;
	standin_lock();
	devices[device].retained++;
	standin_unlock();
	*context = handle_of(&devices[device]);
	return CUDA_SUCCESS;
}

/* Frees the leaked objects of the context, which stay counted as leaks. */
static void context_end(struct standin_device *device)
{
	(void)standin_streams_end(device);
	standin_lock();
	(void)standin_events_left(device, true);
	(void)standin_modules_left(device, true);
	(void)standin_memory_left(device, true);
	device->used = device->created;
	standin_unlock();
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	CUresult code = enter(__func__, device);
	bool last;

	if (code == CUDA_ERROR_INVALID_DEVICE ||
	    code == CUDA_ERROR_NOT_INITIALIZED)
		return code;
	standin_lock();
	if (device < 0 || device >= STANDIN_DEVICES ||
	    !devices[device].retained)
		standin_die(__func__, "of a context that is not retained");
	last = --devices[device].retained == 0;
	standin_unlock();
	if (last)
		context_end(&devices[device]);
	return code;
}

/* The context becomes current even if the call returns an error, which may be another device's:
 * objects must be released in their own context. */
CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult code = standin_enter(__func__, NULL);
	size_t i = 0;

	if (code == CUDA_ERROR_NOT_INITIALIZED)
		return code;
	while (context && i < STANDIN_DEVICES &&
	       handle_of(&devices[i]) != context)
		i++;
	standin_lock();
	if (context && (i == STANDIN_DEVICES || !devices[i].retained))
		standin_die(__func__, "a context that is not retained");
	standin_unlock();
	current = context ? &devices[i] : NULL;
	return code;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	CUresult code = standin_enter(__func__, NULL);

	if (!code)
		*context = current ? handle_of(current) : NULL;
	return code;
}
