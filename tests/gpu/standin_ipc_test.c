/* SPDX-License-Identifier: MIT */
/* standin_ipc: another process reads and writes memory of a device by its handle. */
#include "standin/loaded.h"

static const char *library;
static int to_child[2];

enum { SIZE = 3000 };

static void handle_read(CUipcMemHandle *handle)
{
	if (read(to_child[0], handle, sizeof(*handle)) != sizeof(*handle))
		abort();
}

/* Changes each byte; later there is no such memory any more. */
static void child(void)
{
	CUipcMemHandle handle;
	CUdeviceptr at;
	uint8_t *host;

	handle_read(&handle);
	if (driver_load(library))
		abort();
	gpu_begin();
	host = gpu_host(SIZE);
	must(cu.cuIpcOpenMemHandle(&at, handle,
				   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	must(cu.cuMemcpyDtoHAsync(host, at, SIZE, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	for (unsigned i = 0; i < SIZE; i++)
		host[i] ^= 0x5a;
	must(cu.cuMemcpyHtoDAsync(at, host, SIZE, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	must(cu.cuIpcCloseMemHandle(at));
	(void)puts("done");
	(void)fflush(stdout);
	handle_read(&handle);
	if (cu.cuIpcOpenMemHandle(&at, handle,
				  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
	    CUDA_ERROR_INVALID_HANDLE)
		abort();
	must(cu.cuMemFreeHost(host));
	gpu_end();
	exit(cu.standin_leaks() ? 1 : 0);
}

static void handle_send(const CUipcMemHandle *handle)
{
	if (write(to_child[1], handle, sizeof(*handle)) != sizeof(*handle))
		abort();
}

static void parent(int from_child, pid_t pid)
{
	uint8_t *host, want[SIZE], said[8];
	CUipcMemHandle handle;
	CUdeviceptr at, other;
	int status = 1;

	gpu_begin();
	host = gpu_host(SIZE);
	at = gpu_alloc(SIZE);
	for (unsigned i = 0; i < SIZE; i++)
		want[i] = host[i] ^ 0x5a;
	must(cu.cuMemcpyHtoDAsync(at, host, SIZE, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	must(cu.cuIpcGetMemHandle(&handle, at));
	eq_i64(cu.cuIpcOpenMemHandle(&other, handle,
				     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	       CUDA_ERROR_INVALID_CONTEXT);
	handle_send(&handle);
	eq_i64(read(from_child, said, sizeof(said)), 5);
	must(cu.cuMemcpyDtoHAsync(host, at, SIZE, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	eq_mem(host, SIZE, want, SIZE);
	/* The number of the file is used again. */
	must(cu.cuMemFree(at));
	at = gpu_alloc(SIZE);
	handle_send(&handle);
	(void)waitpid(pid, &status, 0);
	eq_i64(status, 0);
	must(cu.cuMemFree(at));
	must(cu.cuMemFreeHost(host));
	gpu_end();
}

int main(int argc, char **argv)
{
	int from_child[2];
	pid_t pid;

	if (argc != 2 || pipe(to_child) != 0 || pipe(from_child) != 0)
		return 2;
	library = argv[1];
	pid = fork();
	if (pid == 0) {
		(void)dup2(from_child[1], STDOUT_FILENO);
		child();
	}
	close(to_child[0]);
	close(from_child[1]);
	ok(driver_load(library) == NULL);
	parent(from_child[0], pid);
	eq_u64(cu.standin_leaks(), 0);
	return tap_done();
}
