/* SPDX-License-Identifier: MIT */
/* ipc: device memory in other processes, which open its memfd. */
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The contents of a handle. The inode distinguishes later memfds with the same number. */
struct handle {
	uint64_t pid, fd, inode, size;
	uint64_t device;
};

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct handle handle = { .pid = (uint64_t)getpid() };
	struct standin_memory *m;
	struct stat st;

	if (code)
		return code;
	standin_lock();
	m = standin_find(__func__, device,
			 (struct standin_range){ .at = at, .len = 1 });
	if (m->kind == STANDIN_MAPPED) {
		standin_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (m->kind != STANDIN_DEVICE || fstat(m->fd, &st) != 0)
		standin_die(__func__, "memory of another process");
	handle.fd = (uint64_t)m->fd;
	handle.inode = st.st_ino;
	handle.size = m->size;
	handle.device = standin_device_number(device);
	standin_unlock();
	memset(out, 0, sizeof(*out));
	memcpy(out->reserved, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

/* Opens the memfd; -1 if it does not exist any more, or never did. */
static int handle_open(const struct handle *handle)
{
	char path[64];
	struct stat st;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%llu/fd/%llu",
		       (unsigned long long)handle->pid,
		       (unsigned long long)handle->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_ino != handle->inode)) {
		close(fd);
		return -1;
	}
	return fd;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *at, CUipcMemHandle in,
			    unsigned int flags)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_memory *m;
	struct handle handle;
	int fd;

	if (code)
		return code;
	memcpy(&handle, in.reserved, sizeof(handle));
	if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.pid == (uint64_t)getpid() ||
	    handle.device != standin_device_number(device))
		return CUDA_ERROR_INVALID_CONTEXT;
	fd = handle_open(&handle);
	if (fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	standin_lock();
	m = standin_memory_map(STANDIN_OPENED, handle.size, fd);
	if (m) {
		m->device = device;
		*at = m->at;
	} else {
		close(fd);
	}
	standin_unlock();
	return m ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at)
{
	struct standin_device *device;
	CUresult code = standin_enter(__func__, &device);
	struct standin_memory *m;

	if (!device)
		return code;
	standin_lock();
	m = standin_find(__func__, device,
			 (struct standin_range){ .at = at, .len = 1 });
	if (m->at != at || m->kind != STANDIN_OPENED)
		standin_die(__func__,
			    "no address that cuIpcOpenMemHandle gave");
	standin_memory_free(__func__, m);
	standin_unlock();
	return code;
}
