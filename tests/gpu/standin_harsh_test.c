/* SPDX-License-Identifier: MIT */
/*
 * standin_harsh: the fake driver aborts the program on errors that a GPU may ignore, with a
 * message about the cause. Each case runs in its own process.
 */
#include "gpu/driver/kernels.h"
#include "gpu/driver/tiles.h"
#include "standin/deaths.h"

enum { SIZE = 1000 };

static CUdeviceptr device;
static uint8_t *host;

/* --- memory ----------------------------------------------------------------------------- */

static void host_as_device(void)
{
	(void)cu.cuMemcpyHtoDAsync((uintptr_t)host, host, 10, gpu.a);
}

static void device_as_host(void)
{
	(void)cu.cuMemcpyDtoHAsync((void *)(uintptr_t)device, device, 10,
				   gpu.a);
}

static void no_allocation(void)
{
	(void)cu.cuMemcpyDtoHAsync(host, device + SIZE + 1, 10, gpu.a);
}

static void before_allocation(void)
{
	(void)cu.cuMemcpyDtoHAsync(host, device - 1, 10, gpu.a);
}

static void over_its_end(void)
{
	(void)cu.cuMemcpyDtoHAsync(host, device + 1, SIZE, gpu.a);
}

static void host_over_its_end(void)
{
	(void)cu.cuMemcpyDtoHAsync(host + 1, device, SIZE, gpu.a);
}

static void rows_over_its_end(void)
{
	const CUDA_MEMCPY2D p = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				  .srcDevice = device,
				  .srcPitch = 100,
				  .dstMemoryType = CU_MEMORYTYPE_HOST,
				  .dstHost = host,
				  .dstPitch = 50,
				  .WidthInBytes = 50,
				  .Height = 11 };

	(void)cu.cuMemcpy2DAsync(&p, gpu.a);
}

static void pageable(void)
{
	static uint8_t any[SIZE];

	(void)cu.cuMemcpyHtoDAsync(device, any, SIZE, gpu.a);
}

static void overlapping(void)
{
	(void)cu.cuMemcpyDtoDAsync(device, device + 10, 11, gpu.a);
}

static void used_after_free(void)
{
	must(cu.cuMemFree(device));
	(void)cu.cuMemcpyHtoDAsync(device, host, 10, gpu.a);
}

/* cuMemFree would wait on a GPU. */
static void freed_too_early(void)
{
	(void)cu.standin_control("run=0");
	must(cu.cuMemcpyHtoDAsync(device, host, 10, gpu.a));
	must(cu.cuMemFree(device));
	(void)cu.standin_control("reset");
	(void)cu.cuStreamSynchronize(gpu.a);
}

/* The copy is slow, and may not have begun. */
static void freed_while_used(void)
{
	enum { ROWS = 16 << 20 };

	const CUDA_MEMCPY2D p = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				  .srcDevice = gpu_alloc(2 * ROWS),
				  .srcPitch = 2,
				  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				  .dstDevice = gpu_alloc(2 * ROWS),
				  .dstPitch = 2,
				  .WidthInBytes = 1,
				  .Height = ROWS };

	must(cu.cuMemcpy2DAsync(&p, gpu.a));
	(void)usleep(5000);
	must(cu.cuMemFree(p.srcDevice));
	(void)cu.cuStreamSynchronize(gpu.a);
}

static void set_too_much(void)
{
	(void)cu.cuMemsetD8Async(device + 1, 0, SIZE, gpu.a);
}

static void host_freed_too_early(void)
{
	(void)cu.standin_control("run=0");
	must(cu.cuMemcpyHtoDAsync(device, host, 10, gpu.a));
	must(cu.cuMemFreeHost(host));
	(void)cu.standin_control("reset");
	(void)cu.cuStreamSynchronize(gpu.a);
}

static void freed_twice(void)
{
	must(cu.cuMemFree(device));
	(void)cu.cuMemFree(device);
}

static void freed_in_the_middle(void)
{
	(void)cu.cuMemFree(device + 256);
}

static void written_behind(void)
{
	host[SIZE] = 0;
	(void)cu.cuMemFreeHost(host);
}

static void written_before(void)
{
	host[-1] = 0;
	(void)cu.cuMemFreeHost(host);
}

static void written_until_the_end(void)
{
	host[SIZE + 7] = 0;
	(void)cu.cuDevicePrimaryCtxRelease(0);
}

static void of_another_device(void)
{
	CUcontext other;

	(void)cu.standin_control("devices=2");
	must(cu.cuDevicePrimaryCtxRetain(&other, 1));
	must(cu.cuCtxSetCurrent(other));
	must(cu.cuStreamCreate(&gpu.a, 0));
	(void)cu.cuMemcpyHtoDAsync(device, host, 10, gpu.a);
}

/* --- streams, events, contexts ---------------------------------------------------------- */

static void null_stream(void)
{
	(void)cu.cuMemcpyHtoDAsync(device, host, 10, NULL);
}

static void no_stream_any_more(void)
{
	must(cu.cuStreamDestroy(gpu.a));
	(void)cu.cuStreamQuery(gpu.a);
}

static void no_event_any_more(void)
{
	CUevent event = gpu_event();

	must(cu.cuEventDestroy(event));
	(void)cu.cuEventRecord(event, gpu.a);
}

static void stream_of_another_context(void)
{
	CUcontext other;

	(void)cu.standin_control("devices=2");
	must(cu.cuDevicePrimaryCtxRetain(&other, 1));
	must(cu.cuCtxSetCurrent(other));
	(void)cu.cuEventRecord(gpu_event(), gpu.a);
}

static void context_released_twice(void)
{
	must(cu.cuDevicePrimaryCtxRelease(0));
	(void)cu.cuDevicePrimaryCtxRelease(0);
}

static void context_not_retained(void)
{
	must(cu.cuDevicePrimaryCtxRelease(0));
	(void)cu.cuCtxSetCurrent(gpu.context);
}

/* --- launches ---------------------------------------------------------------------------- */

static CUmodule module;
static CUdeviceptr tiles, nests;

/* Launches a kernel with a tile of 64 bytes, which `change` makes invalid. */
static void launch(const char *kernel, const struct ck_tile *tile,
		   const struct ck_nest *nest, size_t n)
{
	CUfunction f;

	tiles = gpu_alloc(sizeof(*tile));
	nests = gpu_alloc(sizeof(*nest));
	memcpy(host, tile, sizeof(*tile));
	memcpy(host + 64, nest, sizeof(*nest));
	must(cu.cuMemcpyHtoDAsync(tiles, host, sizeof(*tile), gpu.a));
	must(cu.cuMemcpyHtoDAsync(nests, host + 64, sizeof(*nest), gpu.a));
	must(cu.cuModuleLoadData(&module, ck_kernels_ptx.bytes));
	must(cu.cuModuleGetFunction(&f, module, kernel));
	must(gpu_launch(f, n, &tiles, &nests, gpu.a));
	(void)cu.cuStreamSynchronize(gpu.a);
}

static struct ck_tile good_tile(void)
{
	return (struct ck_tile){ .src = device,
				 .dst = device + 512,
				 .rows = 1,
				 .run = 64,
				 .lanes = 4 };
}

static void load_not_aligned(void)
{
	struct ck_tile t = good_tile();

	t.src += 8;
	launch("ck_tiles_16", &t, &(struct ck_nest){ 0 }, 1);
}

static void store_over_the_end(void)
{
	struct ck_tile t = good_tile();

	t.dst = device + SIZE - 63;
	launch("ck_tiles_1", &t, &(struct ck_nest){ 0 }, 1);
}

static void store_to_the_host(void)
{
	struct ck_tile t = good_tile();

	t.dst = (uintptr_t)host;
	launch("ck_tiles_1", &t, &(struct ck_nest){ 0 }, 1);
}

static void more_blocks_than_tiles(void)
{
	struct ck_tile t = good_tile();

	launch("ck_tiles_1", &t, &(struct ck_nest){ 0 }, 2);
}

static void nest_that_is_none(void)
{
	struct ck_tile t = good_tile();

	t.nest = 1;
	launch("ck_tiles_1", &t, &(struct ck_nest){ 0 }, 1);
}

static void odd_lanes(void)
{
	struct ck_tile t = good_tile();

	t.lanes = 3;
	launch("ck_tiles_1", &t, &(struct ck_nest){ 0 }, 1);
}

static void loop_of_nothing(void)
{
	struct ck_tile t = good_tile();

	launch("ck_tiles_1", &t, &(struct ck_nest){ .nloops = 1 }, 1);
}

static void launch_shaped(unsigned y, unsigned threads, unsigned shared)
{
	void *arguments[] = { &tiles, &nests };
	CUfunction f;

	must(cu.cuModuleLoadData(&module, ck_kernels_ptx.bytes));
	must(cu.cuModuleGetFunction(&f, module, "ck_tiles_1"));
	tiles = nests = device;
	(void)cu.cuLaunchKernel(f, 1, y, 1, threads, 1, 1, shared, gpu.a,
				arguments, NULL);
}

static void grid(void)
{
	launch_shaped(2, 256, 0);
}

static void block(void)
{
	launch_shaped(1, 128, 0);
}

static void shared(void)
{
	launch_shaped(1, 256, 4);
}

static void unloaded_too_early(void)
{
	CUfunction f;

	must(cu.cuModuleLoadData(&module, ck_kernels_ptx.bytes));
	must(cu.cuModuleGetFunction(&f, module, "ck_tiles_1"));
	(void)cu.standin_control("run=0");
	must(gpu_launch(f, 1, &device, &device, gpu.a));
	must(cu.cuModuleUnload(module));
	(void)cu.standin_control("reset");
	(void)cu.cuStreamSynchronize(gpu.a);
}

static void module_as_kernel(void)
{
	must(cu.cuModuleLoadData(&module, ck_kernels_ptx.bytes));
	(void)gpu_launch((CUfunction)(uintptr_t)module, 1, &device, &device,
			 gpu.a);
}

static void left(void)
{
	(void)cu.standin_control("leaks=abort");
	exit(0);
}

/* ----------------------------------------------------------------------------------------- */

static const struct death deaths[] = {
	{ host_as_device, "cuMemcpyHtoDAsync_v2: an address of the host" },
	{ device_as_host, "cuMemcpyDtoHAsync_v2: an address of a device" },
	{ no_allocation, "an address outside of all" },
	{ before_allocation, "an address outside of all" },
	{ over_its_end, "1000 bytes from 1 on of an allocation of 1000" },
	{ host_over_its_end, "1000 bytes from 1 on of an allocation of 1000" },
	{ rows_over_its_end, "cuMemcpy2DAsync_v2: 1050 bytes from 0 on" },
	{ pageable, "not of cuMemHostAlloc" },
	{ set_too_much, "cuMemsetD8Async: " },
	{ overlapping, "cuMemcpyDtoDAsync_v2: the two ranges overlap" },
	{ used_after_free, "cuMemcpyHtoDAsync_v2: memory that was freed" },
	{ freed_too_early, "cuMemcpyHtoDAsync_v2: memory that was freed" },
	{ freed_while_used, ": memory that " },
	{ host_freed_too_early, "not of cuMemHostAlloc" },
	{ freed_twice, "cuMemFree_v2: memory that was freed" },
	{ freed_in_the_middle, "no address that cuMemAlloc gave" },
	{ written_behind, "cuMemFreeHost: the guard behind it" },
	{ written_before, "cuMemFreeHost: the guard before it" },
	{ written_until_the_end, "the end of its context: the guard behind" },
	{ of_another_device, "memory of another device" },
	{ null_stream, "a stream that was not created" },
	{ no_stream_any_more, "cuStreamQuery: a stream that is no more" },
	{ no_event_any_more, "cuEventRecord: an invalid event" },
	{ stream_of_another_context, "a stream of another context" },
	{ context_released_twice, "a context that is not retained" },
	{ context_not_retained, "a context that is not retained" },
	{ load_not_aligned, "cuLaunchKernel: 16 bytes at an address that is" },
	{ store_over_the_end, "cuLaunchKernel: an address outside of all" },
	{ store_to_the_host, "cuLaunchKernel: an address of the host" },
	{ more_blocks_than_tiles, "80 bytes from 0 on of an allocation of 40" },
	{ nest_that_is_none, "cuLaunchKernel: an address outside of all" },
	{ odd_lanes, "a tile of 3 lanes" },
	{ loop_of_nothing, "a loop of no steps" },
	{ grid, "a grid of 1, 2, 1" },
	{ block, "a block of 128, 1, 1" },
	{ shared, "shared memory" },
	{ unloaded_too_early, "a module that is no more" },
	{ module_as_kernel, "neither a module nor a kernel" },
	{ left, "were not released" },
};

static void begin(void)
{
	device = gpu_alloc(SIZE);
	host = gpu_host(SIZE);
}

/* A correct program does not abort. */
static void nothing(void)
{
	struct ck_tile t = good_tile();

	launch("ck_tiles_16", &t, &(struct ck_nest){ 0 }, 1);
}

/* Device addresses are not valid on the host. */
static void device_read(void)
{
	const volatile uint8_t *at = (const uint8_t *)(uintptr_t)device;

	(void)signal(SIGSEGV, SIG_DFL);
	(void)at[0];
}

int main(int argc, char **argv)
{
	int status;

	if (argc != 2)
		return 2;
	life.library = argv[1];
	life.begin = begin;
	deaths_check(deaths, sizeof(deaths) / sizeof(deaths[0]));
	eq_i64(life_of(nothing), 0);
	status = life_of(device_read);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	return tap_done();
}
