/* SPDX-License-Identifier: MIT */
/* copies: of bytes, by the engines that a device has for that. */
#include "standin.h"

#include <string.h>

static void copy_run(struct standin_op *op)
{
	const struct standin_copy *c = &op->copy;
	struct standin_uses uses = { .call = op->call, .device = op->device };
	struct standin_memory *memory;
	const uint8_t *from = standin_use(&uses, c->from, &memory);
	uint8_t *to = standin_use(&uses, c->to, &memory);

	for (uint64_t row = 0; row < c->rows; row++)
		memcpy(to + row * c->to_pitch, from + row * c->from_pitch,
		       c->width);
	standin_uses_end(&uses);
}

/* Both sides are looked at now, and again when it runs. */
static CUresult copy_submit(const char *call, struct standin_device *device,
			    const struct standin_copy *c, CUstream stream)
{
	struct standin_op op = {
		.call = call, .device = device, .run = copy_run, .copy = *c
	};

	standin_check(call, device, c->from);
	standin_check(call, device, c->to);
	if (c->from.on_host == c->to.on_host &&
	    c->from.at < c->to.at + c->to.len &&
	    c->to.at < c->from.at + c->from.len)
		standin_die(call, "the two ranges overlap");
	return standin_submit(stream, &op);
}

static CUresult copy(const char *call, struct standin_range from,
		     struct standin_range to, CUstream stream)
{
	struct standin_device *device;
	CUresult code = standin_enter(call, &device);
	const struct standin_copy c = {
		.from = from, .to = to, .width = from.len, .rows = 1
	};

	if (code || from.len == 0)
		return code;
	return copy_submit(call, device, &c, stream);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t len,
			   CUstream stream)
{
	return copy(__func__,
		    (struct standin_range){ (uintptr_t)from, len, true },
		    (struct standin_range){ to, len, false }, stream);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t len,
			   CUstream stream)
{
	return copy(__func__, (struct standin_range){ from, len, false },
		    (struct standin_range){ (uintptr_t)to, len, true }, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t len,
			   CUstream stream)
{
	return copy(__func__, (struct standin_range){ from, len, false },
		    (struct standin_range){ to, len, false }, stream);
}

/* --- rows ---------------------------------------------------------------------------------- */

/* From the first byte to behind the last one. */
static struct standin_range rows_of(const char *call, CUmemorytype type,
				    uint64_t at, uint64_t x, uint64_t y,
				    const struct standin_copy *c,
				    uint64_t pitch)
{
	struct standin_range r = { .on_host = type == CU_MEMORYTYPE_HOST };

	if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE)
		standin_die(call, "neither memory of a device nor of the host");
	r.at = at + y * pitch + x;
	r.len = (c->rows - 1) * pitch + c->width;
	return r;
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *p, CUstream stream)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_copy c = { .from_pitch = p->srcPitch,
				  .to_pitch = p->dstPitch,
				  .width = p->WidthInBytes,
				  .rows = p->Height };

	if (code || c.width == 0 || c.rows == 0)
		return code;
	if (c.from_pitch < c.width + p->srcXInBytes ||
	    c.to_pitch < c.width + p->dstXInBytes || c.from_pitch > INT32_MAX ||
	    c.to_pitch > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	c.from = rows_of(__func__, p->srcMemoryType,
			 p->srcMemoryType == CU_MEMORYTYPE_HOST
				 ? (uintptr_t)p->srcHost
				 : p->srcDevice,
			 p->srcXInBytes, p->srcY, &c, c.from_pitch);
	c.to = rows_of(__func__, p->dstMemoryType,
		       p->dstMemoryType == CU_MEMORYTYPE_HOST
			       ? (uintptr_t)p->dstHost
			       : p->dstDevice,
		       p->dstXInBytes, p->dstY, &c, c.to_pitch);
	return copy_submit(__func__, device, &c, stream);
}
