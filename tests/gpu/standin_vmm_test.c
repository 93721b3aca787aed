/* SPDX-License-Identifier: MIT */
/*
 * standin_vmm: virtual memory of the fake driver: create, map, set access, and share with another
 * process by a descriptor. standin_vmm_harsh_test.c tests refused calls.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "gpu/driver/kernels.h"
#include "gpu/driver/tiles.h"
#include "standin/vmm_loaded.h"

static const char *library;

static void to_host(void *host, CUdeviceptr at, size_t len)
{
	must(cu.cuMemcpyDtoHAsync(host, at, len, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
}

static void to_device(CUdeviceptr at, const void *host, size_t len)
{
	must(cu.cuMemcpyHtoDAsync(at, host, len, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
}

static uint64_t used(void)
{
	size_t left, all;

	must(cu.cuMemGetInfo(&left, &all));
	return all - left;
}

/* --- arguments ---------------------------------------------------------------------------- */

static CUresult create(CUmemAllocationProp prop, uint64_t size,
		       unsigned long long flags)
{
	vmm_handle handle;
	CUresult code = cu.cuMemCreate(&handle, size, &prop, flags);

	if (!code)
		must(cu.cuMemRelease(handle));
	return code;
}

static void test_create(void)
{
	CUmemAllocationProp prop = vmm_prop();
	size_t unit = 0;
	int has = 0;

	must(cu.cuMemGetAllocationGranularity(
		&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	eq_u64(unit, VMM_UNIT);
	must(cu.cuDeviceGetAttribute(
		&has,
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		0));
	eq_i64(has, 1);
	eq_i64(create(prop, VMM_UNIT, 0), 0);
	eq_i64(create(prop, 0, 0), CUDA_ERROR_INVALID_VALUE);
	eq_i64(create(prop, VMM_UNIT, 1), CUDA_ERROR_INVALID_VALUE);
	prop.allocFlags.gpuDirectRDMACapable = 1;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	eq_i64(create(prop, VMM_UNIT, 0), 0);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	eq_i64(create(prop, VMM_UNIT, 0), CUDA_ERROR_NOT_SUPPORTED);
	prop = vmm_prop();
	prop.location.id = 1;
	eq_i64(create(prop, VMM_UNIT, 0), CUDA_ERROR_INVALID_DEVICE);
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	eq_i64(create(prop, VMM_UNIT, 0), CUDA_ERROR_NOT_SUPPORTED);
	prop = vmm_prop();
	prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
	eq_i64(create(prop, VMM_UNIT, 0), CUDA_ERROR_INVALID_VALUE);
	prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	eq_i64(create(prop, VMM_UNIT, 0), CUDA_ERROR_INVALID_VALUE);
}

static void test_reserve(void)
{
	CUdeviceptr at = vmm_reserve(VMM_UNIT), other, plain;

	eq_u64(at % VMM_UNIT, 0);
	ok(at % (2 * VMM_UNIT) != 0);
	must(cu.cuMemAddressReserve(&other, 3 * VMM_UNIT, 8 * VMM_UNIT, at, 0));
	eq_u64(other % (16 * VMM_UNIT), 8 * VMM_UNIT);
	plain = gpu_alloc(10);
	ok(plain >= other + 3 * VMM_UNIT && plain % 512 == 256);
	must(cu.cuMemFree(plain));
	must(cu.cuMemAddressFree(other, 3 * VMM_UNIT));
	must(cu.cuMemAddressFree(at, VMM_UNIT));
	eq_i64(cu.cuMemAddressReserve(&at, VMM_UNIT, 3, 0, 0),
	       CUDA_ERROR_INVALID_VALUE);
	eq_i64(cu.cuMemAddressReserve(&at, 0, 0, 0, 0),
	       CUDA_ERROR_INVALID_VALUE);
	eq_i64(cu.cuMemAddressReserve(&at, VMM_UNIT << 40, 0, 0, 0),
	       CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_map_refused(void)
{
	vmm_handle handle = vmm_create(VMM_UNIT);
	CUdeviceptr at = vmm_reserve(2 * VMM_UNIT);

	eq_i64(cu.cuMemMap(at, 2 * VMM_UNIT, 0, handle, 0),
	       CUDA_ERROR_INVALID_VALUE);
	eq_i64(cu.cuMemMap(at, 0, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	eq_i64(cu.cuMemMap(at, VMM_UNIT, VMM_UNIT, handle, 0),
	       CUDA_ERROR_INVALID_VALUE);
	must(cu.cuMemMap(at, VMM_UNIT, 0, handle, 0));
	eq_i64(vmm_access(at, 0, CU_MEM_ACCESS_FLAGS_PROT_READ),
	       CUDA_ERROR_INVALID_VALUE);
	eq_i64(vmm_access(at, VMM_UNIT, (CUmemAccess_flags)2),
	       CUDA_ERROR_INVALID_VALUE);
	must(cu.cuMemRelease(handle));
	must(cu.cuMemUnmap(at, VMM_UNIT));
	must(cu.cuMemAddressFree(at, 2 * VMM_UNIT));
}

/* --- mappings ----------------------------------------------------------------------------- */

static void test_counted(void)
{
	const CUmemAllocationProp prop = vmm_prop();
	vmm_handle handle, other;
	CUdeviceptr at;

	eq_err(cu.standin_control("memory=7000000"), 0);
	handle = vmm_create(2 * VMM_UNIT);
	eq_u64(used(), 2 * VMM_UNIT);
	eq_i64(cu.cuMemCreate(&other, 2 * VMM_UNIT, &prop, 0),
	       CUDA_ERROR_OUT_OF_MEMORY);
	at = vmm_map(handle, 2 * VMM_UNIT);
	must(cu.cuMemRelease(handle));
	eq_u64(used(), 2 * VMM_UNIT);
	vmm_unmap(at, 2 * VMM_UNIT);
	eq_u64(used(), 0);
	handle = vmm_create(2 * VMM_UNIT);
	must(cu.cuMemRelease(handle));
	eq_err(cu.standin_control("reset"), 0);
}

static void test_garbage(void)
{
	enum { SIZE = 10000 };

	vmm_handle handle = vmm_create(VMM_UNIT);
	CUdeviceptr at = vmm_map(handle, VMM_UNIT);
	uint8_t *host = gpu_host(SIZE);
	unsigned zeros = 0;

	memset(host, 0, SIZE);
	to_host(host, at + VMM_UNIT - SIZE, SIZE);
	for (unsigned i = 0; i < SIZE; i++)
		zeros += host[i] == 0;
	ok(zeros < SIZE / 10);
	must(cu.cuMemFreeHost(host));
	must(cu.cuMemRelease(handle));
	vmm_unmap(at, VMM_UNIT);
}

/* Adjacent mappings are used as one range; each keeps its own memory. */
static void test_side_by_side(void)
{
	enum { SIZE = 3500 };

	vmm_handle a = vmm_create(VMM_UNIT), b = vmm_create(VMM_UNIT);
	CUdeviceptr at = vmm_reserve(3 * VMM_UNIT), middle = at + VMM_UNIT;
	uint8_t *host = gpu_host(SIZE), want[SIZE];

	memcpy(want, host, SIZE);
	must(cu.cuMemMap(at, VMM_UNIT, 0, a, 0));
	must(cu.cuMemMap(middle, VMM_UNIT, 0, b, 0));
	must(vmm_access(at, 2 * VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	to_device(middle - 500, host, SIZE);
	memset(host, 0, SIZE);
	to_host(host, middle - 500, SIZE);
	eq_mem(host, SIZE, want, SIZE);
	must(cu.cuMemUnmap(at, VMM_UNIT));
	to_host(host, middle, 3000);
	eq_mem(host, 3000, want + 500, 3000);
	must(cu.cuMemMap(at + 2 * VMM_UNIT, VMM_UNIT, 0, a, 0));
	must(vmm_access(at + 2 * VMM_UNIT, VMM_UNIT,
			CU_MEM_ACCESS_FLAGS_PROT_READ));
	to_host(host, at + 3 * VMM_UNIT - 500, 500);
	eq_mem(host, 500, want, 500);
	must(cu.cuMemRelease(a));
	must(cu.cuMemRelease(b));
	must(cu.cuMemUnmap(at + 2 * VMM_UNIT, VMM_UNIT));
	must(cu.cuMemUnmap(middle, VMM_UNIT));
	must(cu.cuMemAddressFree(at, 3 * VMM_UNIT));
	must(cu.cuMemFreeHost(host));
}

/* The tile, the nest and the bytes are all in mapped memory. */
static void test_kernel(void)
{
	vmm_handle handle = vmm_create(VMM_UNIT);
	CUdeviceptr at = vmm_map(handle, VMM_UNIT), nests = at + 512;
	const struct ck_tile tile = { .src = at + 1024,
				      .dst = at + 4096,
				      .rows = 1,
				      .run = 64,
				      .lanes = 4 };
	const struct ck_nest nest = { 0 };
	uint8_t *host = gpu_host(2048), want[64];
	CUmodule module;
	CUfunction f;

	memcpy(host, &tile, sizeof(tile));
	memcpy(host + 512, &nest, sizeof(nest));
	memcpy(want, host + 1024, 64);
	to_device(at, host, 2048);
	must(cu.cuModuleLoadData(&module, ck_kernels_ptx.bytes));
	must(cu.cuModuleGetFunction(&f, module, "ck_tiles_16"));
	must(gpu_launch(f, 1, &at, &nests, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	to_host(host, at + 4096, 64);
	eq_mem(host, 64, want, 64);
	must(cu.cuModuleUnload(module));
	must(cu.cuMemFreeHost(host));
	must(cu.cuMemRelease(handle));
	vmm_unmap(at, VMM_UNIT);
}

/* --- handles and descriptors -------------------------------------------------------------- */

static void test_same_process(void)
{
	vmm_handle handle = vmm_create(VMM_UNIT), again;
	uint8_t *host = gpu_host(64), want[64];
	int fd = vmm_export(handle);
	CUdeviceptr a, b;

	memcpy(want, host, 64);
	eq_i64(vmm_import(&again, fd), 0);
	close(fd);
	ok(again != handle);
	a = vmm_map(handle, VMM_UNIT);
	must(cu.cuMemRelease(handle));
	b = vmm_map(again, VMM_UNIT);
	must(cu.cuMemRelease(again));
	eq_u64(used(), VMM_UNIT);
	to_device(a, host, 64);
	memset(host, 0, 64);
	to_host(host, b, 64);
	eq_mem(host, 64, want, 64);
	vmm_unmap(a, VMM_UNIT);
	eq_u64(used(), VMM_UNIT);
	vmm_unmap(b, VMM_UNIT);
	eq_u64(used(), 0);
	must(cu.cuMemFreeHost(host));
}

static void test_no_descriptor(void)
{
	CUmemAllocationProp prop = vmm_prop();
	vmm_handle handle, other;
	CUipcMemHandle ipc;
	CUdeviceptr at;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	must(cu.cuMemCreate(&handle, VMM_UNIT, &prop, 0));
	at = vmm_map(handle, VMM_UNIT);
	eq_i64(vmm_import(&other, fd), CUDA_ERROR_INVALID_VALUE);
	eq_i64(vmm_import(&other, -1), CUDA_ERROR_INVALID_VALUE);
	close(fd);
	eq_i64(vmm_import(&other, fd), CUDA_ERROR_INVALID_VALUE);
	eq_i64(cu.cuMemExportToShareableHandle(&fd, handle, VMM_FD, 0),
	       CUDA_ERROR_INVALID_VALUE);
	eq_i64(cu.cuMemExportToShareableHandle(&fd, handle,
					       CU_MEM_HANDLE_TYPE_FABRIC, 0),
	       CUDA_ERROR_NOT_SUPPORTED);
	eq_i64(cu.cuIpcGetMemHandle(&ipc, at), CUDA_ERROR_INVALID_VALUE);
	must(cu.cuMemRelease(handle));
	vmm_unmap(at, VMM_UNIT);
}

static CUresult import_sealed(int fd, int seals)
{
	vmm_handle handle;

	if (seals && fcntl(fd, F_ADD_SEALS, seals) != 0)
		abort();
	return vmm_import(&handle, fd);
}

/* A forged memfd that begins like exported memory. */
static int forged(const char *head, size_t size)
{
	int fd = memfd_create("standin", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) != 0 ||
	    write(fd, head, 64) != 64)
		abort();
	return fd;
}

/* A descriptor without seals, or with a wrong head, is refused. */
static void test_forged(void)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	vmm_handle handle = vmm_create(VMM_UNIT);
	int fd = vmm_export(handle);
	char head[64];

	eq_i64(read(fd, head, sizeof(head)), sizeof(head));
	close(fd);
	must(cu.cuMemRelease(handle));
	fd = forged(head, VMM_UNIT + 4096);
	eq_i64(import_sealed(fd, 0), CUDA_ERROR_INVALID_VALUE);
	eq_i64(import_sealed(fd, F_SEAL_GROW), CUDA_ERROR_INVALID_VALUE);
	close(fd);
	fd = forged(head, VMM_UNIT);
	eq_i64(import_sealed(fd, seals), CUDA_ERROR_INVALID_VALUE);
	close(fd);
	fd = forged(head, 100);
	eq_i64(import_sealed(fd, seals), CUDA_ERROR_INVALID_VALUE);
	close(fd);
	head[0]++;
	fd = forged(head, VMM_UNIT + 4096);
	eq_i64(import_sealed(fd, seals), CUDA_ERROR_INVALID_VALUE);
	close(fd);
}

/* --- errors and leaks --------------------------------------------------------------------- */

static void failing(const char *call)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "fail=%s:1:ECC_UNCORRECTABLE", call);
	eq_err(cu.standin_control(text), 0);
}

static void test_fail(void)
{
	const CUmemAllocationProp prop = vmm_prop();
	const int code = CUDA_ERROR_ECC_UNCORRECTABLE;
	vmm_handle handle, other;
	CUdeviceptr at;
	size_t unit;
	int fd;

	failing("cuMemGetAllocationGranularity");
	eq_i64(cu.cuMemGetAllocationGranularity(&unit, &prop, 0), code);
	failing("cuMemCreate");
	eq_i64(cu.cuMemCreate(&handle, VMM_UNIT, &prop, 0), code);
	handle = vmm_create(VMM_UNIT);
	failing("cuMemExportToShareableHandle");
	eq_i64(cu.cuMemExportToShareableHandle(&fd, handle, VMM_FD, 0), code);
	fd = vmm_export(handle);
	failing("cuMemImportFromShareableHandle");
	eq_i64(vmm_import(&other, fd), code);
	close(fd);
	failing("cuMemAddressReserve");
	eq_i64(cu.cuMemAddressReserve(&at, VMM_UNIT, 0, 0, 0), code);
	at = vmm_reserve(VMM_UNIT);
	failing("cuMemMap");
	eq_i64(cu.cuMemMap(at, VMM_UNIT, 0, handle, 0), code);
	must(cu.cuMemMap(at, VMM_UNIT, 0, handle, 0));
	failing("cuMemSetAccess");
	eq_i64(vmm_access(at, VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READ), code);
	failing("cuMemRelease");
	eq_i64(cu.cuMemRelease(handle), code);
	failing("cuMemUnmap");
	eq_i64(cu.cuMemUnmap(at, VMM_UNIT), code);
	failing("cuMemAddressFree");
	eq_i64(cu.cuMemAddressFree(at, VMM_UNIT), code);
	eq_u64(used(), 0);
}

/* The context and its two streams always count. */
static void test_leaks(void)
{
	vmm_handle handle;
	CUdeviceptr at;
	int fd;

	eq_u64(cu.standin_leaks(), 3);
	handle = vmm_create(VMM_UNIT);
	eq_u64(cu.standin_leaks(), 4);
	fd = vmm_export(handle);
	eq_i64(fcntl(fd, F_GETFD), 0);
	eq_u64(cu.standin_leaks(), 5);
	at = vmm_reserve(VMM_UNIT);
	eq_u64(cu.standin_leaks(), 6);
	must(cu.cuMemMap(at, VMM_UNIT, 0, handle, 0));
	eq_u64(cu.standin_leaks(), 7);
	must(cu.cuMemRelease(handle));
	eq_u64(cu.standin_leaks(), 6);
	/* The end of the context does not free this memory. */
	gpu_end();
	eq_u64(cu.standin_leaks(), 3);
	gpu_begin();
	eq_u64(used(), VMM_UNIT);
	close(fd);
	vmm_unmap(at, VMM_UNIT);
	eq_u64(used(), 0);
	eq_u64(cu.standin_leaks(), 3);
}

/* The fake driver may reuse the number of a descriptor that the program closed. */
static void test_leak_of_none(void)
{
	vmm_handle handle = vmm_create(VMM_UNIT);
	int closed = vmm_export(handle), open_still = vmm_export(handle), fill;

	must(cu.cuMemRelease(handle));
	fill = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ok(fill < closed);
	close(closed);
	must(vmm_import(&handle, open_still));
	eq_u64(cu.standin_leaks(), 5);
	close(open_still);
	close(fill);
	must(cu.cuMemRelease(handle));
	eq_u64(cu.standin_leaks(), 3);
}

/* --- another process ------------------------------------------------------------------------ */

enum { SHARED = 100000 };

static int ends[2];

static void fd_send(int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = { 0 }, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(ends[0], &message, 0) != 1)
		abort();
}

static int fd_receive(void)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fd;

	if (recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC) != 1 ||
	    !CMSG_FIRSTHDR(&message))
		abort();
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

/* Signals the other process. */
static void signal_peer(int end)
{
	if (write(end, "", 1) != 1)
		abort();
}

static void wait_for(int end)
{
	char byte;

	if (read(end, &byte, 1) != 1)
		abort();
}

/* Reads and changes each byte, and reads it again after the exporter has released the memory. */
static void importer(void)
{
	static uint8_t changed[SHARED];
	uint8_t *host;
	vmm_handle handle;
	CUdeviceptr at;
	int fd = fd_receive();

	if (driver_load(library))
		abort();
	gpu_begin();
	host = gpu_host(SHARED);
	must(vmm_import(&handle, fd));
	if (cu.standin_leaks() != 6)
		abort();
	close(fd);
	at = vmm_map(handle, VMM_UNIT);
	must(cu.cuMemRelease(handle));
	if (used() != 0)
		abort();
	to_host(host, at + VMM_UNIT - SHARED, SHARED);
	for (unsigned i = 0; i < SHARED; i++)
		changed[i] = host[i] ^= 0x5a;
	to_device(at + VMM_UNIT - SHARED, host, SHARED);
	signal_peer(ends[1]);
	wait_for(ends[1]);
	memset(host, 0, SHARED);
	to_host(host, at + VMM_UNIT - SHARED, SHARED);
	if (memcmp(host, changed, SHARED) != 0)
		abort();
	vmm_unmap(at, VMM_UNIT);
	must(cu.cuMemFreeHost(host));
	gpu_end();
	exit(cu.standin_leaks() ? 1 : 0);
}

static void exporter(pid_t pid)
{
	static uint8_t want[SHARED];
	uint8_t *host = gpu_host(SHARED);
	vmm_handle handle = vmm_create(VMM_UNIT);
	CUdeviceptr at = vmm_map(handle, VMM_UNIT);
	int fd = vmm_export(handle), status = 1;

	for (unsigned i = 0; i < SHARED; i++)
		want[i] = host[i] ^ 0x5a;
	to_device(at + VMM_UNIT - SHARED, host, SHARED);
	fd_send(fd);
	close(fd);
	must(cu.cuMemRelease(handle));
	wait_for(ends[0]);
	to_host(host, at + VMM_UNIT - SHARED, SHARED);
	eq_mem(host, SHARED, want, SHARED);
	vmm_unmap(at, VMM_UNIT);
	eq_u64(used(), 0);
	signal_peer(ends[0]);
	(void)waitpid(pid, &status, 0);
	eq_i64(status, 0);
	must(cu.cuMemFreeHost(host));
}

int main(int argc, char **argv)
{
	pid_t pid;

	if (argc != 2 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return 2;
	library = argv[1];
	pid = fork();
	if (pid == 0)
		importer();
	close(ends[1]);
	ok(driver_load(library) == NULL);
	gpu_begin();
	exporter(pid);
	test_create();
	test_reserve();
	test_map_refused();
	test_counted();
	test_garbage();
	test_side_by_side();
	test_kernel();
	test_same_process();
	test_no_descriptor();
	test_forged();
	test_fail();
	test_leaks();
	test_leak_of_none();
	gpu_end();
	eq_u64(cu.standin_leaks(), 0);
	return tap_done();
}
