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
	uint64_t last = c->rows - 1;

	for (uint64_t row = 0; row < c->rows; row++)
		memcpy(to + row * c->to_pitch, from + row * c->from_pitch,
		       c->width - (row == last && standin_is_short(op->call)));
	standin_uses_end(&uses);
}

/* Both sides are looked at now, and again when it runs. */
static CUresult copy_submit(const char *call, struct standin_device *device,
			    struct standin_copy *c, CUstream stream)
{
	struct standin_op op = { .call = call,
				 .device = device,
				 .run = copy_run };

	c->to.writes = true;
	op.copy = *c;
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
	struct standin_copy c = {
		.from = from, .to = to, .width = from.len, .rows = 1
	};

	if (code || from.len == 0)
		return code;
	return copy_submit(call, device, &c, stream);
}

static struct standin_range range_of(uint64_t at, uint64_t len, bool on_host)
{
	return (struct standin_range){ .at = at,
				       .len = len,
				       .on_host = on_host };
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t len,
			   CUstream stream)
{
	return copy(__func__, range_of((uintptr_t)from, len, true),
		    range_of(to, len, false), stream);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t len,
			   CUstream stream)
{
	return copy(__func__, range_of(from, len, false),
		    range_of((uintptr_t)to, len, true), stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t len,
			   CUstream stream)
{
	return copy(__func__, range_of(from, len, false),
		    range_of(to, len, false), stream);
}

static void set_run(struct standin_op *op)
{
	struct standin_uses uses = { .call = op->call, .device = op->device };
	struct standin_memory *memory;
	uint8_t *to = standin_use(&uses, op->set.to, &memory);

	memset(to, op->set.value, op->set.to.len - standin_is_short(op->call));
	standin_uses_end(&uses);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t len,
			 CUstream stream)
{
	struct standin_op op = { .call = __func__, .run = set_run };
	CUresult code = standin_enter(__func__, &op.device);

	if (code || len == 0)
		return code;
	op.set.to = range_of(to, len, false);
	op.set.to.writes = true;
	op.set.value = value;
	standin_check(__func__, op.device, op.set.to);
	return standin_submit(stream, &op);
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

/* --- many --------------------------------------------------------------------------------- */

/* CUmemcpyAttributes. */
struct attributes {
	int order;
	CUmemLocation from, to;
	unsigned flags;
};

/* Of all copies, whose sources are used when it is their turn. */
static bool is_plain(const struct attributes *a, const size_t *firsts, size_t n)
{
	return n == 1 && firsts[0] == 0 && a->order == 1 && a->flags <= 1;
}

/* There is no order among them: the last one comes first. */
CUresult standin_copy_batch(CUdeviceptr *to, CUdeviceptr *from, size_t *len,
			    size_t n, const void *attributes, size_t *firsts,
			    size_t nattributes, size_t *failed, CUstream stream)
{
	static const char call[] = "cuMemcpyBatchAsync";
	struct standin_device *device;
	CUresult code = standin_enter(call, &device);

	*failed = SIZE_MAX;
	if (code == CUDA_SUCCESS &&
	    (n == 0 || !stream || !is_plain(attributes, firsts, nattributes)))
		code = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = n; i-- && code == CUDA_SUCCESS;) {
		struct standin_copy c = { .from = { .at = from[i],
						    .len = len[i] },
					  .to = { .at = to[i], .len = len[i] },
					  .width = len[i],
					  .rows = 1 };

		code = len[i] ? copy_submit(call, device, &c, stream)
			      : CUDA_ERROR_INVALID_VALUE;
		if (code)
			*failed = i;
	}
	return code;
}
