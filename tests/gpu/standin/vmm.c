/* SPDX-License-Identifier: MIT */
/*
 * vmm: memory that is created separately from its addresses. Handles identify it, and
 * descriptors in other processes. It is a memfd that begins with a head of its properties.
 */
#include "vmm.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[16] = "standin's memory";

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct head {
	char magic[sizeof(magic)];
	uint64_t size;
	int device;
	int unused;
};

struct handle {
	struct handle *next;
	CUmemGenericAllocationHandle value;
	struct vmm_memory *memory;
};

/* A descriptor that the program exported or imported, and must close. */
struct descriptor {
	struct descriptor *next;
	int fd;
	uint64_t inode;
};

/* Under the lock. */
static struct vmm_memory *memories;
static struct handle *handles;
static struct descriptor *descriptors;

void vmm_granular(const char *call, const char *what, uint64_t value)
{
	if (value % VMM_GRANULARITY != 0)
		standin_die(call, "%s of %llu, no multiple of the granularity",
			    what, (unsigned long long)value);
}

static void *need(const char *call, size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		standin_die(call, "no memory for the stand-in");
	return memory;
}

/* The inode of the descriptor, or 0 if it is not open. */
static uint64_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* --- memory ----------------------------------------------------------------------------- */

void vmm_put(struct vmm_memory *m)
{
	struct vmm_memory **at = &memories;

	if (--m->refs)
		return;
	if (!m->imported) {
		m->device->used -= m->size;
		m->device->created -= m->size;
	}
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	close(m->fd);
	free(m);
}

static struct vmm_memory *memory_add(const char *call, struct vmm_memory m)
{
	struct vmm_memory *own = need(call, sizeof(*own));

	m.inode = inode_of(m.fd);
	m.next = memories;
	*own = m;
	memories = own;
	return own;
}

static bool bytes_make(int fd, const struct head *head)
{
	size_t whole = VMM_HEAD + head->size;
	uint8_t *bytes;

	if (ftruncate(fd, (off_t)whole) != 0)
		return false;
	bytes = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return false;
	memcpy(bytes, head, sizeof(*head));
	standin_garbage(bytes + VMM_HEAD, head->size);
	munmap(bytes, whole);
	return fcntl(fd, F_ADD_SEALS, SEALS) == 0;
}

/* NULL if the device has no more memory. */
static struct vmm_memory *memory_make(const char *call,
				      struct standin_device *device,
				      uint64_t size, bool may_leave)
{
	struct head head = { .size = size,
			     .device = (int)standin_device_number(device) };
	int fd;

	if (device->used > standin_faults.memory ||
	    size > standin_faults.memory - device->used)
		return NULL;
	fd = memfd_create("standin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	memcpy(head.magic, magic, sizeof(magic));
	if (fd < 0 || !bytes_make(fd, &head)) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	device->used += size;
	device->created += size;
	return memory_add(call, (struct vmm_memory){ .device = device,
						     .size = size,
						     .fd = fd,
						     .may_leave = may_leave });
}

/* --- handles ------------------------------------------------------------------------------ */

static CUmemGenericAllocationHandle handle_add(const char *call,
					       struct vmm_memory *memory)
{
	struct handle *h = need(call, sizeof(*h));

	memory->refs++;
	h->memory = memory;
	h->value = STANDIN_TAG | standin_number() << 8 | 0x4d;
	h->next = handles;
	handles = h;
	return h->value;
}

static struct handle **handle_find(const char *call,
				   CUmemGenericAllocationHandle value)
{
	struct handle **at = &handles;

	while (*at && (*at)->value != value)
		at = &(*at)->next;
	if (!*at)
		standin_die(call, "an invalid or released handle");
	return at;
}

struct vmm_memory *vmm_find(const char *call,
			    CUmemGenericAllocationHandle handle)
{
	return (*handle_find(call, handle))->memory;
}

/* --- descriptors ---------------------------------------------------------------------------- */

static void descriptor_add(const char *call, int fd, uint64_t inode)
{
	struct descriptor *d = descriptors;

	while (d && d->fd != fd)
		d = d->next;
	if (!d) {
		d = need(call, sizeof(*d));
		d->next = descriptors;
		descriptors = d;
	}
	d->fd = fd;
	d->inode = inode;
}

/* True if the program closed the descriptor and its number was reused by the fake driver. */
static bool is_own(int fd)
{
	const struct vmm_memory *m = memories;

	while (m && m->fd != fd)
		m = m->next;
	return m;
}

void standin_vmm_left(unsigned left[STANDIN_VMM_KINDS])
{
	left[0] = left[3] = 0;
	for (const struct handle *h = handles; h; h = h->next)
		left[0]++;
	left[2] = vmm_ranges_left(&left[1]);
	for (const struct descriptor *d = descriptors; d; d = d->next)
		left[3] += inode_of(d->fd) == d->inode && !is_own(d->fd);
}

/* Reads the head of a memfd of another process. False if it is not valid. */
static bool head_read(int fd, struct head *head)
{
	struct stat st;
	void *page;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 ||
	    st.st_size < VMM_HEAD)
		return false;
	page = mmap(NULL, VMM_HEAD, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return false;
	memcpy(head, page, sizeof(*head));
	munmap(page, VMM_HEAD);
	return memcmp(head->magic, magic, sizeof(magic)) == 0 &&
	       head->size == (uint64_t)st.st_size - VMM_HEAD;
}

/* Memory that this process already has is not imported a second time. */
static CUresult memory_import(const char *call, int fd, struct vmm_memory **out)
{
	struct vmm_memory m = { .imported = true, .may_leave = true };
	struct head head;

	if (!head_read(fd, &head))
		return CUDA_ERROR_INVALID_VALUE;
	descriptor_add(call, fd, inode_of(fd));
	*out = memories;
	while (*out && (*out)->inode != inode_of(fd))
		*out = (*out)->next;
	if (*out)
		return CUDA_SUCCESS;
	m.size = head.size;
	m.device = standin_device_at(head.device);
	if (!m.device)
		return CUDA_ERROR_NOT_SUPPORTED;
	m.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (m.fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*out = memory_add(call, m);
	return CUDA_SUCCESS;
}

/* --- calls -------------------------------------------------------------------------------- */

/* Stores the device. */
static CUresult prop_check(const CUmemAllocationProp *prop,
			   struct standin_device **device)
{
	static const CUmemAllocationProp none;
	CUmemAllocationProp plain = *prop;

	plain.allocFlags.gpuDirectRDMACapable = 0;
	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->win32HandleMetaData ||
	    memcmp(&plain.allocFlags, &none.allocFlags,
		   sizeof(none.allocFlags)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
	     prop->requestedHandleTypes !=
		     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_NOT_SUPPORTED;
	standin_lock();
	*device = standin_device_at(prop->location.id);
	standin_unlock();
	return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity,
				       const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);

	if (!code)
		code = prop_check(prop, &device);
	if (code)
		return code;
	if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
	    option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = VMM_GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct vmm_memory *m;

	if (!code)
		code = prop_check(prop, &device);
	if (code)
		return code;
	if (flags || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	vmm_granular(__func__, "a size", size);
	standin_lock();
	m = memory_make(__func__, device, size,
			prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE);
	if (m)
		*handle = handle_add(__func__, m);
	standin_unlock();
	return m ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Mappings of the memory persist. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct handle **at, *h;

	if (!device)
		return code;
	standin_lock();
	at = handle_find(__func__, handle);
	h = *at;
	*at = h->next;
	vmm_put(h->memory);
	free(h);
	standin_unlock();
	return code;
}

/* The descriptor is inherited by exec: the program must prevent that. */
CUresult cuMemExportToShareableHandle(void *out,
				      CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type,
				      unsigned long long flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct vmm_memory *m;
	int fd = -1;

	if (code)
		return code;
	if (flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return flags ? CUDA_ERROR_INVALID_VALUE
			     : CUDA_ERROR_NOT_SUPPORTED;
	standin_lock();
	m = vmm_find(__func__, handle);
	if (!m->may_leave)
		code = CUDA_ERROR_INVALID_VALUE;
	else if ((fd = fcntl(m->fd, F_DUPFD, 0)) < 0)
		code = CUDA_ERROR_OPERATING_SYSTEM;
	else
		descriptor_add(__func__, fd, m->inode);
	standin_unlock();
	if (!code)
		memcpy(out, &fd, sizeof(fd));
	return code;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
					void *in,
					CUmemAllocationHandleType type)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct vmm_memory *m;

	if (code)
		return code;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((intptr_t)in > INT_MAX)
		standin_die(__func__, "an address where a descriptor is due");
	standin_lock();
	code = memory_import(__func__, (int)(intptr_t)in, &m);
	if (!code)
		*handle = handle_add(__func__, m);
	standin_unlock();
	return code;
}
