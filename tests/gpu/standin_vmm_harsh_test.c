/* SPDX-License-Identifier: MIT */
/*
 * standin_vmm_harsh: the fake driver aborts the program on misuse of virtual memory, with a message
 * about the cause. Each case runs in its own process.
 */
#include <sys/mman.h>

#include "gpu/driver/kernels.h"
#include "gpu/driver/tiles.h"
#include "standin/deaths.h"
#include "standin/vmm_loaded.h"

/* Two units, of which the first is mapped; and host memory of the same size. */
static vmm_handle handle;
static CUdeviceptr at;
static uint8_t *host;

enum { SIZE = 4096 };

static void copy_from(CUdeviceptr from, size_t len)
{
	(void)cu.cuMemcpyDtoHAsync(host, from, len, gpu.a);
	(void)cu.cuStreamSynchronize(gpu.a);
}

static void copy_to(CUdeviceptr to, size_t len)
{
	(void)cu.cuMemcpyHtoDAsync(to, host, len, gpu.a);
	(void)cu.cuStreamSynchronize(gpu.a);
}

/* --- sizes ---------------------------------------------------------------------------------- */

static void size_created(void)
{
	(void)vmm_create(VMM_UNIT + 4096);
}

static void size_reserved(void)
{
	(void)vmm_reserve(4096);
}

static void size_mapped(void)
{
	(void)cu.cuMemMap(at + VMM_UNIT, 4096, 0, handle, 0);
}

static void address_mapped(void)
{
	(void)cu.cuMemMap(at + VMM_UNIT + 4096, VMM_UNIT, 0, handle, 0);
}

static void size_of_access(void)
{
	(void)vmm_access(at, 4096, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

/* --- access --------------------------------------------------------------------------------- */

static void without_access(void)
{
	must(cu.cuMemMap(at + VMM_UNIT, VMM_UNIT, 0, handle, 0));
	copy_from(at + VMM_UNIT, 10);
}

static void access_in_part(void)
{
	must(cu.cuMemMap(at + VMM_UNIT, VMM_UNIT, 0, handle, 0));
	copy_from(at + VMM_UNIT - 5, 10);
}

/* A new mapping has no access. */
static void without_access_again(void)
{
	must(cu.cuMemUnmap(at, VMM_UNIT));
	must(cu.cuMemMap(at, VMM_UNIT, 0, handle, 0));
	copy_from(at, 10);
}

static void access_taken(void)
{
	must(vmm_access(at, VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	copy_from(at, 10);
}

static void written_read_only(void)
{
	must(vmm_access(at, VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READ));
	copy_from(at, 10);
	copy_to(at, 10);
}

static void stored_read_only(void)
{
	const struct ck_tile tile = { .src = at + 1024,
				      .dst = at + 2048,
				      .rows = 1,
				      .run = 64,
				      .lanes = 4 };
	const struct ck_nest nest = { 0 };
	CUdeviceptr nests = at + 512;
	CUmodule module;
	CUfunction f;

	memcpy(host, &tile, sizeof(tile));
	memcpy(host + 512, &nest, sizeof(nest));
	copy_to(at, SIZE);
	must(vmm_access(at, VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READ));
	must(cu.cuModuleLoadData(&module, ck_kernels_ptx.bytes));
	must(cu.cuModuleGetFunction(&f, module, "ck_tiles_16"));
	must(gpu_launch(f, 1, &at, &nests, gpu.a));
	(void)cu.cuStreamSynchronize(gpu.a);
}

static void not_mapped(void)
{
	copy_from(at + VMM_UNIT, 10);
}

static void mapped_in_part(void)
{
	copy_from(at + VMM_UNIT - 5, 10);
}

static void access_to_nothing(void)
{
	(void)vmm_access(at, 2 * VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static void access_not_reserved(void)
{
	(void)vmm_access(at + 2 * VMM_UNIT, VMM_UNIT,
			 CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static void access_over_the_end(void)
{
	(void)vmm_access(at, 3 * VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static void access_to_a_part(void)
{
	vmm_handle large = vmm_create(2 * VMM_UNIT);
	CUdeviceptr there = vmm_map(large, 2 * VMM_UNIT);

	(void)vmm_access(there, VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static void of_another_device(void)
{
	CUcontext other;

	(void)cu.standin_control("devices=2");
	must(cu.cuDevicePrimaryCtxRetain(&other, 1));
	must(cu.cuCtxSetCurrent(other));
	must(cu.cuStreamCreate(&gpu.a, 0));
	copy_from(at, 10);
}

/* --- mapping -------------------------------------------------------------------------------- */

static void mapped_twice(void)
{
	(void)cu.cuMemMap(at, VMM_UNIT, 0, handle, 0);
}

static void mapped_over(void)
{
	vmm_handle large = vmm_create(2 * VMM_UNIT);

	(void)cu.cuMemMap(at, 2 * VMM_UNIT, 0, large, 0);
}

static void mapped_nowhere(void)
{
	(void)cu.cuMemMap(at + 2 * VMM_UNIT, VMM_UNIT, 0, handle, 0);
}

static void mapped_over_the_end(void)
{
	vmm_handle large = vmm_create(2 * VMM_UNIT);

	(void)cu.cuMemMap(at + VMM_UNIT, 2 * VMM_UNIT, 0, large, 0);
}

static void mapped_after_release(void)
{
	must(cu.cuMemRelease(handle));
	(void)cu.cuMemMap(at + VMM_UNIT, VMM_UNIT, 0, handle, 0);
}

static void mapped_after_free(void)
{
	vmm_unmap(vmm_map(handle, VMM_UNIT), VMM_UNIT);
	must(cu.cuMemUnmap(at, VMM_UNIT));
	must(cu.cuMemAddressFree(at, 2 * VMM_UNIT));
	(void)cu.cuMemMap(at, VMM_UNIT, 0, handle, 0);
}

static void released_twice(void)
{
	must(cu.cuMemRelease(handle));
	(void)cu.cuMemRelease(handle);
}

static void exported_after_release(void)
{
	must(cu.cuMemRelease(handle));
	(void)vmm_export(handle);
}

static void imported_by_address(void)
{
	int fd = vmm_export(handle);

	(void)cu.cuMemImportFromShareableHandle(&handle, &fd, VMM_FD);
}

/* --- unmapping and freeing ------------------------------------------------------------------ */

static void unmapped_twice(void)
{
	must(cu.cuMemUnmap(at, VMM_UNIT));
	(void)cu.cuMemUnmap(at, VMM_UNIT);
}

static void unmapped_too_much(void)
{
	(void)cu.cuMemUnmap(at, 2 * VMM_UNIT);
}

static void unmapped_in_part(void)
{
	vmm_handle large = vmm_create(2 * VMM_UNIT);
	CUdeviceptr there = vmm_map(large, 2 * VMM_UNIT);

	(void)cu.cuMemUnmap(there + VMM_UNIT, VMM_UNIT);
}

static void unmapped_plain(void)
{
	(void)cu.cuMemUnmap(gpu_alloc(VMM_UNIT), VMM_UNIT);
}

static void freed_as_plain(void)
{
	(void)cu.cuMemFree(at);
}

static void used_after_unmap(void)
{
	(void)cu.standin_control("run=0");
	must(cu.cuMemcpyDtoHAsync(host, at, 10, gpu.a));
	must(cu.cuMemUnmap(at, VMM_UNIT));
	(void)cu.standin_control("reset");
	(void)cu.cuStreamSynchronize(gpu.a);
}

static bool stuck;

static void stay(int number)
{
	(void)number;
	__atomic_store_n(&stuck, true, __ATOMIC_RELEASE);
	for (;;)
		(void)pause();
}

/* Begins a copy from two mappings that does not end before the test. */
static void copy_begin(void)
{
	void *page = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	(void)signal(SIGSEGV, stay);
	must(cu.cuMemHostRegister(page, SIZE, 0));
	must(cu.cuMemMap(at + VMM_UNIT, VMM_UNIT, 0, handle, 0));
	must(vmm_access(at, 2 * VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READ));
	must(cu.cuMemcpyDtoHAsync(page, at + VMM_UNIT - 100, 200, gpu.a));
	while (!__atomic_load_n(&stuck, __ATOMIC_ACQUIRE))
		(void)usleep(100);
}

static void unmapped_while_used(void)
{
	copy_begin();
	(void)cu.cuMemUnmap(at, VMM_UNIT);
	_exit(0);
}

static void half_unmapped_while_used(void)
{
	copy_begin();
	(void)cu.cuMemUnmap(at + VMM_UNIT, VMM_UNIT);
	_exit(0);
}

static void access_taken_while_used(void)
{
	copy_begin();
	(void)vmm_access(at, VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	_exit(0);
}

static void freed_while_mapped(void)
{
	(void)cu.cuMemAddressFree(at, 2 * VMM_UNIT);
}

static void freed_in_part(void)
{
	must(cu.cuMemUnmap(at, VMM_UNIT));
	(void)cu.cuMemAddressFree(at, VMM_UNIT);
}

static void freed_twice(void)
{
	must(cu.cuMemUnmap(at, VMM_UNIT));
	must(cu.cuMemAddressFree(at, 2 * VMM_UNIT));
	(void)cu.cuMemAddressFree(at, 2 * VMM_UNIT);
}

static void freed_and_used(void)
{
	must(cu.cuMemUnmap(at, VMM_UNIT));
	must(cu.cuMemAddressFree(at, 2 * VMM_UNIT));
	copy_from(at, 10);
}

/* ----------------------------------------------------------------------------------------- */

/* Releases all objects except for the given ones. */
static void end_but(bool mapping, bool descriptor)
{
	int fd = vmm_export(handle);

	(void)cu.standin_control("leaks=abort");
	must(cu.cuMemFreeHost(host));
	must(cu.cuMemRelease(handle));
	if (!descriptor)
		close(fd);
	if (!mapping) {
		must(cu.cuMemUnmap(at, VMM_UNIT));
		must(cu.cuMemAddressFree(at, 2 * VMM_UNIT));
	}
	gpu_end();
	exit(0);
}

static void mapping_left(void)
{
	end_but(true, false);
}

static void descriptor_left(void)
{
	end_but(false, true);
}

static void nothing_left(void)
{
	end_but(false, false);
}

static const struct death deaths[] = {
	{ size_created, "cuMemCreate: a size of 2101248, no multiple" },
	{ size_reserved, "cuMemAddressReserve: a size of 4096, no multiple" },
	{ size_mapped, "cuMemMap: a size of 4096, no multiple" },
	{ address_mapped, "cuMemMap: an address of " },
	{ size_of_access, "cuMemSetAccess: a size of 4096, no multiple" },
	{ without_access, "cuMemcpyDtoHAsync_v2: memory that cuMemSetAccess" },
	{ access_in_part, "cuMemcpyDtoHAsync_v2: memory that cuMemSetAccess" },
	{ without_access_again, "memory that cuMemSetAccess gave no" },
	{ access_taken, "memory that cuMemSetAccess gave no" },
	{ written_read_only, "cuMemcpyHtoDAsync_v2: memory that is there to" },
	{ stored_read_only, "cuLaunchKernel: memory that is there to be read" },
	{ not_mapped, "cuMemcpyDtoHAsync_v2: an address where nothing is" },
	{ mapped_in_part, "10 bytes, of which only the first 5 are mapped" },
	{ access_to_nothing, "cuMemSetAccess: an address where nothing is" },
	{ access_not_reserved, "cuMemSetAccess: an address that is not res" },
	{ access_over_the_end, "cuMemSetAccess: more than is reserved" },
	{ access_to_a_part, "cuMemSetAccess: only a part of a mapping" },
	{ of_another_device, "memory of another device" },
	{ mapped_twice, "cuMemMap: where memory is mapped already" },
	{ mapped_over, "cuMemMap: where memory is mapped already" },
	{ mapped_nowhere, "cuMemMap: an address that is not reserved" },
	{ mapped_over_the_end, "cuMemMap: more than is reserved" },
	{ mapped_after_release, "cuMemMap: an invalid or released handle" },
	{ mapped_after_free, "cuMemMap: an address of a range that was freed" },
	{ released_twice, "cuMemRelease: an invalid or released handle" },
	{ exported_after_release, "cuMemExportToShareableHandle: an invalid" },
	{ imported_by_address, "an address where a descriptor is due" },
	{ unmapped_twice, "cuMemUnmap: an address where nothing is mapped" },
	{ unmapped_too_much, "cuMemUnmap: more than was mapped at once" },
	{ unmapped_in_part, "cuMemUnmap: only a part of a mapping" },
	{ unmapped_plain, "cuMemUnmap: no memory that cuMemMap mapped" },
	{ freed_as_plain, "cuMemFree_v2: no address that cuMemAlloc gave" },
	{ used_after_unmap, "cuMemcpyDtoHAsync_v2: an address where nothing" },
	{ unmapped_while_used, "cuMemUnmap: memory that an operation uses" },
	{ half_unmapped_while_used, "cuMemUnmap: memory that an operation" },
	{ access_taken_while_used, "cuMemSetAccess: memory that an operation" },
	{ freed_while_mapped, "cuMemAddressFree: a range in which memory is" },
	{ freed_in_part, "cuMemAddressFree: no range as" },
	{ freed_twice, "cuMemAddressFree: a range that was freed" },
	{ freed_and_used, "an address of a range that was freed" },
	{ mapping_left, "were not released" },
	{ descriptor_left, "were not released" },
};

static void begin(void)
{
	host = gpu_host(SIZE);
	handle = vmm_create(VMM_UNIT);
	at = vmm_reserve(2 * VMM_UNIT);
	must(cu.cuMemMap(at, VMM_UNIT, 0, handle, 0));
	must(vmm_access(at, VMM_UNIT, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	life.library = argv[1];
	life.begin = begin;
	deaths_check(deaths, sizeof(deaths) / sizeof(deaths[0]));
	eq_i64(life_of(nothing_left), 0);
	return tap_done();
}
