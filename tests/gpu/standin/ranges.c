/* SPDX-License-Identifier: MIT */
/*
 * ranges: reserved addresses, and memory that is mapped there. A range is also a range of host
 * addresses, so that adjacent mappings are contiguous. Host access is forbidden where device
 * access is.
 */
#include "vmm.h"

#include <stdlib.h>
#include <sys/mman.h>

struct range {
	struct range *next;
	uint64_t at, size;
	uint8_t *host; /* with guards around it */
	bool freed;    /* its addresses are not reused */
};

/* Under the lock. */
static struct range *ranges;
static unsigned nmapped;

enum { MOST_BITS = 42 }; /* limit of the size and alignment of a range */

static struct range *range_of(uint64_t at)
{
	struct range *r = ranges;

	while (r && (at < r->at || at - r->at >= r->size))
		r = r->next;
	return r;
}

void standin_range_failed(const char *call, uint64_t at)
{
	const struct range *r = range_of(at);

	if (r && r->freed)
		standin_die(call, "an address of a range that was freed");
	if (r)
		standin_die(call, "an address where nothing is mapped");
}

unsigned vmm_ranges_left(unsigned *mappings)
{
	unsigned n = 0;

	for (const struct range *r = ranges; r; r = r->next)
		n += !r->freed;
	*mappings = nmapped;
	return n;
}

/* --- ranges ----------------------------------------------------------------------------- */

/* NULL if the addresses are exhausted. */
static struct range *range_make(uint64_t size, uint64_t alignment)
{
	struct range *r = calloc(1, sizeof(*r));
	void *host = MAP_FAILED;

	if (r)
		host = mmap(NULL, size + 2UL * STANDIN_GUARD, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (host == MAP_FAILED) {
		free(r);
		return NULL;
	}
	r->host = host;
	r->size = size;
	r->at = standin_address(size, alignment);
	r->next = ranges;
	ranges = r;
	return r;
}

/* The requested address is only a hint, which is ignored. */
CUresult cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment,
			     CUdeviceptr hint, unsigned long long flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct range *r = NULL;

	(void)hint;
	if (code)
		return code;
	if (flags || size == 0 || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	vmm_granular(__func__, "a size", size);
	if (alignment < VMM_GRANULARITY)
		alignment = VMM_GRANULARITY;
	standin_lock();
	if (!(size >> MOST_BITS) && !(alignment >> MOST_BITS))
		r = range_make(size, alignment);
	if (r)
		*at = r->at;
	standin_unlock();
	return r ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t size)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct range *r;

	if (!device)
		return code;
	standin_lock();
	r = range_of(at);
	if (r && r->freed)
		standin_die(__func__, "a range that was freed");
	if (!r || r->at != at || r->size != size)
		standin_die(__func__, "no range as cuMemAddressReserve gave");
	if (standin_memory_at(at, size))
		standin_die(__func__, "a range in which memory is mapped");
	munmap(r->host, size + 2UL * STANDIN_GUARD);
	r->freed = true;
	standin_unlock();
	return code;
}

/* --- mappings ----------------------------------------------------------------------------- */

static struct range *range_for(const char *call, uint64_t at, uint64_t size)
{
	struct range *r = range_of(at);

	vmm_granular(call, "an address", at);
	vmm_granular(call, "a size", size);
	if (!r)
		standin_die(call, "an address that is not reserved");
	if (r->freed)
		standin_die(call, "an address of a range that was freed");
	if (size > r->size - (at - r->at))
		standin_die(call, "more than is reserved");
	return r;
}

static CUresult map(const char *call, uint64_t at, uint64_t size,
		    struct vmm_memory *of)
{
	struct range *r = range_for(call, at, size);
	uint8_t *bytes = r->host + STANDIN_GUARD + (at - r->at);
	struct standin_memory *m;

	if (standin_memory_at(at, size))
		standin_die(call, "where memory is mapped already");
	if (size == 0 || size > of->size)
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (!m || mmap(bytes, size, PROT_NONE, MAP_SHARED | MAP_FIXED, of->fd,
		       VMM_HEAD) == MAP_FAILED) {
		free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*m = (struct standin_memory){ .kind = STANDIN_MAPPED,
				      .device = of->device,
				      .at = at,
				      .size = size,
				      .bytes = bytes,
				      .fd = -1,
				      .of = of };
	of->refs++;
	nmapped++;
	standin_memory_add(m);
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (code)
		return code;
	if (flags || offset)
		return CUDA_ERROR_INVALID_VALUE;
	standin_lock();
	code = map(__func__, at, size, vmm_find(__func__, handle));
	standin_unlock();
	return code;
}

/* The mapping that begins at `at`; aborts if it ends after `end`. */
static struct standin_memory *mapped(const char *call, uint64_t at,
				     uint64_t end)
{
	struct standin_memory *m = standin_memory_at(at, 1);

	if (!m)
		standin_range_failed(call, at);
	if (!m || m->kind != STANDIN_MAPPED)
		standin_die(call, "no memory that cuMemMap mapped");
	if (m->at != at || m->size > end - at)
		standin_die(call, "only a part of a mapping");
	return m;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t size)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_memory *m;

	if (!device)
		return code;
	standin_lock();
	m = mapped(__func__, at, at + size);
	if (m->size != size)
		standin_die(__func__, "more than was mapped at once");
	if (m->users)
		standin_die(__func__, "memory that an operation uses");
	if (mmap(m->bytes, size, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		standin_die(__func__, "no memory for the stand-in");
	vmm_put(m->of);
	nmapped--;
	standin_memory_forget(m);
	standin_unlock();
	return code;
}

/* --- access ------------------------------------------------------------------------------- */

static CUresult desc_check(const CUmemAccessDesc *desc)
{
	bool there;

	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	standin_lock();
	there = standin_device_at(desc->location.id) != NULL;
	standin_unlock();
	return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult access_set(const char *call, struct standin_memory *m,
			   const CUmemAccessDesc *desc)
{
	static const int protection[] = {
		[CU_MEM_ACCESS_FLAGS_PROT_READ] = PROT_READ,
		[CU_MEM_ACCESS_FLAGS_PROT_READWRITE] = PROT_READ | PROT_WRITE
	};

	/* The fake devices cannot access memory of another one. */
	if (standin_device_at(desc->location.id) != m->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (m->users && (m->access & ~(unsigned)desc->flags))
		standin_die(call, "memory that an operation uses");
	if (mprotect(m->bytes, m->size, protection[desc->flags]) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->access = desc->flags;
	return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t size,
			const CUmemAccessDesc *desc, size_t count)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_memory *m;
	uint64_t end = at + size;

	if (!code && (size == 0 || count == 0))
		code = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !code && i < count; i++)
		code = desc_check(&desc[i]);
	if (code)
		return code;
	standin_lock();
	(void)range_for(__func__, at, size);
	for (; !code && at < end; at += m->size) {
		m = mapped(__func__, at, end);
		for (size_t i = 0; !code && i < count; i++)
			code = access_set(__func__, m, &desc[i]);
	}
	standin_unlock();
	return code;
}
