/* SPDX-License-Identifier: MIT */
/*
 * memory: allocations of devices and of the host. Addresses of a device are never reused; they
 * are multiples of 256, as the driver promises, and of no larger number.
 */
#include "standin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckptfs/base.h"

enum { GUARD_BYTE = 0xfd };

/* Under the lock. */
static struct standin_memory *memories;
static uint64_t next_at = STANDIN_TAG + 0x100000100;
static unsigned ended; /* by the end of their context */

static bool is_on_host(const struct standin_memory *m)
{
	return m->kind == STANDIN_HOST || m->kind == STANDIN_REGISTERED;
}

/* --- lookup --------------------------------------------------------------------------- */

_Noreturn static void find_failed(const char *call, struct standin_range r)
{
	bool tagged = (r.at & STANDIN_TAG) == STANDIN_TAG;

	if (r.on_host && tagged)
		standin_die(call, "an address of a device where one of the "
				  "host is due");
	if (r.on_host)
		standin_die(call, "host memory that is not of cuMemHostAlloc");
	if (!tagged)
		standin_die(call, "an address of the host where one of a "
				  "device is due");
	standin_range_failed(call, r.at);
	standin_die(call, "an address outside of all allocations");
}

static struct standin_memory *find_at(struct standin_range r)
{
	struct standin_memory *m = memories;

	while (m && (is_on_host(m) != r.on_host || r.at + r.len <= m->at ||
		     m->at + m->size <= r.at))
		m = m->next;
	return m;
}

struct standin_memory *standin_memory_at(uint64_t at, uint64_t len)
{
	return find_at((struct standin_range){ .at = at, .len = len });
}

/* The next mapping if the range continues there, or NULL. */
static struct standin_memory *find_next(const char *call,
					const struct standin_memory *m,
					struct standin_range r)
{
	uint64_t end = m->at + m->size;
	struct standin_memory *next;

	if (m->kind != STANDIN_MAPPED || r.len <= end - r.at)
		return NULL;
	next = standin_memory_at(end, 1);
	if (!next)
		standin_die(call,
			    "%llu bytes, of which only the first %llu "
			    "are mapped",
			    (unsigned long long)r.len,
			    (unsigned long long)(end - r.at));
	return next;
}

static void find_check(const char *call, const struct standin_device *device,
		       const struct standin_memory *m, struct standin_range r)
{
	if (m->freed)
		standin_die(call, "memory that was freed");
	if (!r.on_host && m->device != device)
		standin_die(call, "memory of another device");
	if (m->kind != STANDIN_MAPPED)
		return;
	if (m->access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		standin_die(call, "memory that cuMemSetAccess gave no "
				  "access to");
	if (r.writes && m->access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		standin_die(call, "memory that is there to be read only");
}

struct standin_memory *standin_find(const char *call,
				    const struct standin_device *device,
				    struct standin_range r)
{
	struct standin_memory *m = find_at((struct standin_range){
		.at = r.at, .len = 1, .on_host = r.on_host });

	if (!m)
		find_failed(call, r);
	for (struct standin_memory *of = m; of; of = find_next(call, of, r))
		find_check(call, device, of, r);
	if (m->kind != STANDIN_MAPPED && r.len > m->size - (r.at - m->at))
		standin_die(call,
			    "%llu bytes from %llu on of an allocation of %llu",
			    (unsigned long long)r.len,
			    (unsigned long long)(r.at - m->at),
			    (unsigned long long)m->size);
	return m;
}

void standin_check(const char *call, const struct standin_device *device,
		   struct standin_range range)
{
	standin_lock();
	(void)standin_find(call, device, range);
	standin_unlock();
}

/* Under the lock. */
static void uses_add(struct standin_uses *uses, struct standin_memory *m)
{
	for (size_t i = 0; i < uses->n; i++)
		if (uses->list[i] == m)
			return;
	if (uses->n == uses->cap) {
		uses->cap = uses->cap ? 2 * uses->cap : 4;
		uses->list = reallocarray(uses->list, uses->cap,
					  sizeof(struct standin_memory *));
		if (!uses->list)
			standin_die(uses->call, "no memory for the stand-in");
	}
	uses->list[uses->n++] = m;
	m->users++;
}

uint8_t *standin_use(struct standin_uses *uses, struct standin_range range,
		     struct standin_memory **memory)
{
	struct standin_memory *m;

	standin_lock();
	m = standin_find(uses->call, uses->device, range);
	for (struct standin_memory *of = m; of;
	     of = find_next(uses->call, of, range))
		uses_add(uses, of);
	standin_unlock();
	*memory = m;
	return m->bytes + (range.at - m->at);
}

void standin_uses_end(struct standin_uses *uses)
{
	standin_lock();
	for (size_t i = 0; i < uses->n; i++)
		uses->list[i]->users--;
	standin_unlock();
	free(uses->list);
}

/* --- making and freeing ----------------------------------------------------------------- */

void standin_garbage(uint8_t *bytes, uint64_t size)
{
	static uint64_t state;
	uint64_t whole = size / 8 * 8, word;

	if (!state)
		state = standin_seed();
	for (uint64_t i = 0; i < whole; i += 8) {
		word = standin_random(&state);
		memcpy(bytes + i, &word, 8);
	}
	memset(bytes + whole, 0xa5, size - whole);
}

static void fill(struct standin_memory *m)
{
	memset(m->mapped, GUARD_BYTE, STANDIN_GUARD);
	standin_garbage(m->bytes, m->size);
	memset(m->bytes + m->size, GUARD_BYTE,
	       m->mapped_size - STANDIN_GUARD - m->size);
}

static void guards_check(const char *call, const struct standin_memory *m)
{
	const uint8_t *end = m->mapped + m->mapped_size;

	for (const uint8_t *p = m->mapped; p < m->bytes; p++)
		if (*p != GUARD_BYTE)
			standin_die(call,
				    "the guard before it was overwritten");
	for (const uint8_t *p = m->bytes + m->size; p < end; p++)
		if (*p != GUARD_BYTE)
			standin_die(call,
				    "the guard behind it was overwritten");
}

static int memfd(size_t size)
{
	int fd = memfd_create("standin", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)size) != 0) {
		close(fd);
		return -ENOSPC;
	}
	return fd;
}

static bool map(struct standin_memory *m)
{
	bool on_host = is_on_host(m);

	if (!on_host && m->fd < 0)
		m->fd = memfd(m->mapped_size);
	if (!on_host && m->fd < 0)
		return false;
	m->mapped = mmap(NULL, m->mapped_size, PROT_READ | PROT_WRITE,
			 on_host ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
			 m->fd, 0);
	if (m->mapped != MAP_FAILED)
		return true;
	if (m->kind == STANDIN_DEVICE)
		close(m->fd);
	return false;
}

void standin_memory_add(struct standin_memory *m)
{
	m->next = memories;
	memories = m;
}

void standin_memory_forget(struct standin_memory *m)
{
	struct standin_memory **at = &memories;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	free(m);
}

CK_WRAPS uint64_t standin_address(uint64_t size, uint64_t alignment)
{
	uint64_t at = (next_at | (2 * alignment - 1)) + 1 + alignment;

	next_at = (at + size + 0x1ffff) / 0x10000 * 0x10000 + 0x100;
	return at;
}

struct standin_memory *standin_memory_map(int kind, uint64_t size, int fd)
{
	struct standin_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->kind = (__typeof__(m->kind))kind;
	m->size = size;
	m->mapped_size = (size + 4095) / 4096 * 4096 + 2UL * STANDIN_GUARD;
	m->fd = fd;
	if (!map(m)) {
		free(m);
		return NULL;
	}
	m->bytes = m->mapped + STANDIN_GUARD;
	if (kind != STANDIN_OPENED)
		fill(m);
	m->at = (uintptr_t)m->bytes;
	if (!is_on_host(m)) {
		m->at = next_at;
		next_at += (size + 0x1ffff) / 0x10000 * 0x10000;
	}
	standin_memory_add(m);
	return m;
}

void standin_memory_free(const char *call, struct standin_memory *m)
{
	if (m->users)
		standin_die(call, "memory that an operation uses");
	if (m->kind != STANDIN_REGISTERED) {
		guards_check(call, m);
		munmap(m->mapped, m->mapped_size);
	}
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	m->freed = true;
	/* Host addresses are reused. */
	if (is_on_host(m))
		standin_memory_forget(m);
}

/* Mappings do not belong to a context. */
unsigned standin_memory_left(const struct standin_device *device, bool end)
{
	unsigned n = 0;

	for (struct standin_memory *m = memories, *next; m; m = next) {
		next = m->next;
		if (m->freed || m->kind == STANDIN_MAPPED ||
		    (device && m->device != device))
			continue;
		n++;
		if (end)
			standin_memory_free("the end of its context", m);
	}
	if (end)
		ended += n;
	return end ? n : n + ended;
}

/* --- calls -------------------------------------------------------------------------------- */

CUresult cuMemAlloc(CUdeviceptr *at, size_t size)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_memory *m = NULL;

	if (code)
		return code;
	if (size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	standin_lock();
	if (device->used <= standin_faults.memory &&
	    size <= standin_faults.memory - device->used)
		m = standin_memory_map(STANDIN_DEVICE, size, -1);
	if (m) {
		m->device = device;
		device->used += size;
		*at = m->at;
	}
	standin_unlock();
	return m ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree(CUdeviceptr at)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_memory *m;

	if (!device)
		return code;
	standin_lock();
	m = standin_find(__func__, device,
			 (struct standin_range){ .at = at, .len = 1 });
	if (m->at != at || m->kind != STANDIN_DEVICE)
		standin_die(__func__, "no address that cuMemAlloc gave");
	device->used -= m->size;
	standin_memory_free(__func__, m);
	standin_unlock();
	return code;
}

CUresult cuMemHostAlloc(void **at, size_t size, unsigned int flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_memory *m;

	(void)flags;
	if (code)
		return code;
	if (size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	standin_lock();
	m = standin_memory_map(STANDIN_HOST, size, -1);
	if (m) {
		m->device = device;
		*at = m->bytes;
	}
	standin_unlock();
	return m ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void host_free(const char *call, struct standin_device *device,
		      const void *at, int kind)
{
	struct standin_range range = { .at = (uintptr_t)at,
				       .len = 1,
				       .on_host = true };
	struct standin_memory *m;

	standin_lock();
	m = standin_find(call, device, range);
	if (m->at != range.at || (int)m->kind != kind)
		standin_die(call, "no address that it may be given");
	standin_memory_free(call, m);
	standin_unlock();
}

CUresult cuMemFreeHost(void *at)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (device)
		host_free(__func__, device, at, STANDIN_HOST);
	return code;
}

CUresult cuMemHostRegister(void *at, size_t size, unsigned int flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_memory *m;

	(void)flags;
	if (code)
		return code;
	m = calloc(1, sizeof(*m));
	if (!m || size == 0) {
		free(m);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*m = (struct standin_memory){ .kind = STANDIN_REGISTERED,
				      .device = device,
				      .at = (uintptr_t)at,
				      .size = size,
				      .bytes = at,
				      .fd = -1 };
	standin_lock();
	standin_memory_add(m);
	standin_unlock();
	return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *at)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (device)
		host_free(__func__, device, at, STANDIN_REGISTERED);
	return code;
}
