/* SPDX-License-Identifier: MIT */
/*
 * standin: the fake driver keeps the driver's promises about order, memory and errors.
 * standin_harsh_test.c tests refused calls, standin_kernels_test.c tests kernels.
 */
#include <time.h>

#include "standin/loaded.h"

static const char *library;

/* --- devices and versions --------------------------------------------------------------- */

static void test_devices(void)
{
	char name[32];
	CUuuid uuids[3];
	CUcontext context;
	size_t bytes, all;
	int n = 0;

	eq_i64(cu.cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	eq_err(cu.standin_control("devices=0 driver=12040"), 0);
	eq_i64(cu.cuInit(0), CUDA_ERROR_NO_DEVICE);
	eq_i64(cu.cuDriverGetVersion(&n), 0);
	eq_i64(n, 12040);
	eq_err(cu.standin_control("devices=3 memory=1000000"), 0);
	eq_i64(cu.cuInit(0), 0);
	eq_i64(cu.cuDeviceGetCount(&n), 0);
	eq_i64(n, 3);
	eq_i64(cu.cuDeviceGet(&n, 3), CUDA_ERROR_INVALID_DEVICE);
	eq_i64(cu.cuDeviceGet(&n, 2), 0);
	eq_i64(cu.cuDeviceGetName(name, sizeof(name), n), 0);
	eq_text(name, "Stand-in 2");
	for (int i = 0; i < 3; i++)
		must(cu.cuDeviceGetUuid_v2(&uuids[i], i));
	ok(memcmp(&uuids[0], &uuids[1], 16) &&
	   memcmp(&uuids[1], &uuids[2], 16));
	must(cu.cuDeviceGetUuid(&uuids[0], 2));
	eq_mem(&uuids[0], 16, &uuids[2], 16);
	must(cu.cuDeviceGetAttribute(
		&n, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	eq_i64(n, 9);
	must(cu.cuDeviceTotalMem(&bytes, 0));
	eq_u64(bytes, 1000000);
	eq_i64(cu.cuMemGetInfo(&bytes, &all), CUDA_ERROR_INVALID_CONTEXT);
	must(cu.cuDevicePrimaryCtxRetain(&context, 1));
	must(cu.cuCtxSetCurrent(context));
	must(cu.cuMemGetInfo(&bytes, &all));
	eq_u64(bytes, 1000000);
	must(cu.cuDevicePrimaryCtxRelease(1));
	eq_i64(cu.cuMemGetInfo(&bytes, &all), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	must(cu.cuCtxSetCurrent(NULL));
	must(cu.cuCtxGetCurrent(&context));
	ok(context == NULL);
	eq_err(cu.standin_control("reset"), 0);
}

static void test_errors(void)
{
	const char *text = NULL;

	eq_i64(cu.cuGetErrorName(CUDA_ERROR_NOT_READY, &text), 0);
	eq_text(text, "CUDA_ERROR_NOT_READY");
	eq_i64(cu.cuGetErrorString((CUresult)4711, &text),
	       CUDA_ERROR_INVALID_VALUE);
	ok(text == NULL);
}

/* --- memory ------------------------------------------------------------------------------ */

static void test_memory(void)
{
	enum { SIZE = 4000 };

	CUdeviceptr at = gpu_alloc(SIZE), other;
	uint8_t *host = gpu_host(SIZE), *any = malloc(SIZE);
	unsigned zeros = 0, same = 0;
	size_t left, all;

	for (unsigned i = 0; i < SIZE; i++)
		zeros += host[i] == 0;
	ok(zeros < SIZE / 10);
	memset(host, 0, SIZE);
	must(cu.cuMemcpyDtoHAsync(host, at, SIZE, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	for (unsigned i = 1; i < SIZE; i++) {
		zeros += host[i] == 0;
		same += host[i] == host[i - 1];
	}
	ok(zeros < SIZE / 10 && same < SIZE / 10);
	eq_u64(at % 256, 0);
	ok(at % 512 != 0);
	must(cu.cuMemGetInfo(&left, &all));
	eq_u64(all - left, SIZE);
	eq_err(cu.standin_control("memory=5000"), 0);
	eq_i64(cu.cuMemAlloc(&other, 1001), CUDA_ERROR_OUT_OF_MEMORY);
	eq_i64(cu.cuMemAlloc(&other, 1000), 0);
	eq_i64(cu.cuMemFree(other), 0);
	eq_i64(cu.cuMemAlloc(&other, 0), CUDA_ERROR_INVALID_VALUE);
	must(cu.cuMemHostRegister(any, SIZE, 0));
	must(cu.cuMemcpyDtoHAsync(any, at, SIZE, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	eq_mem(any, SIZE, host, SIZE);
	must(cu.cuMemHostUnregister(any));
	must(cu.cuMemFree(at));
	must(cu.cuMemFreeHost(host));
	free(any);
	eq_err(cu.standin_control("reset"), 0);
}

static void test_set(void)
{
	uint8_t host[100], want[100], *at_host = gpu_host(100);
	CUdeviceptr at = gpu_alloc(100);

	must(cu.cuMemsetD8Async(at, 3, 100, gpu.a));
	must(cu.cuMemsetD8Async(at + 10, 0, 20, gpu.a));
	must(cu.cuMemsetD8Async(at, 9, 0, gpu.a));
	must(cu.cuMemcpyDtoHAsync(at_host, at, 100, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	memcpy(host, at_host, sizeof(host));
	memset(want, 3, sizeof(want));
	memset(want + 10, 0, 20);
	eq_mem(host, 100, want, 100);
	eq_err(cu.standin_control("fail=cuMemsetD8Async:1:UNKNOWN"), 0);
	eq_i64(cu.cuMemsetD8Async(at, 3, 100, gpu.a), CUDA_ERROR_UNKNOWN);
	must(cu.cuMemFree(at));
	must(cu.cuMemFreeHost(at_host));
}

static void test_rows(void)
{
	uint8_t *host = gpu_host(2000), want[2000];
	CUdeviceptr at = gpu_alloc(1000);
	CUDA_MEMCPY2D p = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			    .srcHost = host,
			    .srcPitch = 100,
			    .srcXInBytes = 7,
			    .srcY = 1,
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			    .dstDevice = at,
			    .dstPitch = 50,
			    .WidthInBytes = 40,
			    .Height = 5 };

	must(cu.cuMemcpy2DAsync(&p, gpu.a));
	for (unsigned row = 0; row < 5; row++)
		memcpy(want + (size_t)row * 50, host + 107 + (size_t)row * 100,
		       40);
	must(cu.cuMemcpyDtoHAsync(host + 1000, at, 240, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	for (size_t row = 0; row < 5; row++)
		eq_mem(host + 1000 + row * 50, 40, want + row * 50, 40);
	memset(host + 1000, 0, 250);
	must(cu.cuMemcpyDtoHAsync(host + 1000, at, 240, gpu.a));
	must(cu.cuMemcpyDtoHAsync(host + 1240, at + 240, 1, gpu.b));
	must(cu.cuCtxSynchronize());
	eq_mem(host + 1200, 40, want + 200, 40);
	p.dstPitch = 39;
	eq_i64(cu.cuMemcpy2DAsync(&p, gpu.a), CUDA_ERROR_INVALID_VALUE);
	must(cu.cuMemFree(at));
	must(cu.cuMemFreeHost(host));
}

static void test_batch(void)
{
	struct {
		int order;
		CUmemLocation from, to;
		unsigned flags;
	} plain = { .order = 1 }; /* CU_MEMCPY_SRC_ACCESS_ORDER_STREAM */

	void *all = dlopen(library, RTLD_NOW);
	void *found = dlsym(all, "cuMemcpyBatchAsync");
	uint8_t *host = gpu_host(2000);
	CUdeviceptr a = gpu_alloc(1000), b = gpu_alloc(1000);
	CUdeviceptr to[] = { b + 100, b, b + 40 }, from[] = { a, a + 7, a };
	size_t sizes[] = { 50, 40, 60 }, first = 0, failed = 0;
	__typeof__(standin_copy_batch) *batch;

	memcpy(&batch, &found, sizeof(batch));
	must(cu.cuMemcpyHtoDAsync(a, host, 1000, gpu.a));
	must(batch(to, from, sizes, 3, &plain, &first, 1, &failed, gpu.a));
	must(cu.cuMemcpyDtoHAsync(host + 1000, b, 150, gpu.a));
	must(cu.cuStreamSynchronize(gpu.a));
	eq_mem(host + 1000, 40, host + 7, 40);
	eq_mem(host + 1040, 60, host, 60);
	eq_mem(host + 1100, 50, host, 50);
	eq_i64(batch(to, from, sizes, 3, &plain, &first, 1, &failed, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	sizes[1] = 0;
	eq_i64(batch(to, from, sizes, 3, &plain, &first, 1, &failed, gpu.a),
	       CUDA_ERROR_INVALID_VALUE);
	eq_u64(failed, 1);
	must(cu.cuStreamSynchronize(gpu.a));
	must(cu.cuMemFree(a));
	must(cu.cuMemFree(b));
	must(cu.cuMemFreeHost(host));
	(void)dlclose(all);
}

/* --- streams and events ------------------------------------------------------------------ */

/* A wait for an event refers to its last record, and to the stream's earlier operations. */
static void test_events(void)
{
	CUevent event = gpu_event(), other = gpu_event();
	CUdeviceptr at = gpu_alloc(64);
	uint8_t *host = gpu_host(64);

	eq_i64(cu.cuEventQuery(event), 0);
	eq_i64(cu.cuEventSynchronize(event), 0);
	must(cu.cuStreamWaitEvent(gpu.b, event, 0));
	must(cu.cuStreamSynchronize(gpu.b));
	eq_i64(cu.cuStreamQuery(gpu.b), 0);
	eq_err(cu.standin_control("run=0"), 0);
	must(cu.cuMemcpyHtoDAsync(at, host, 64, gpu.a));
	must(cu.cuEventRecord(event, gpu.a));
	must(cu.cuMemcpyHtoDAsync(at, host, 64, gpu.a));
	eq_i64(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	eq_i64(cu.cuStreamQuery(gpu.a), CUDA_ERROR_NOT_READY);
	eq_err(cu.standin_control("run=2"), 0);
	must(cu.cuEventSynchronize(event));
	eq_i64(cu.cuEventQuery(event), 0);
	eq_i64(cu.cuStreamQuery(gpu.a), CUDA_ERROR_NOT_READY);
	eq_err(cu.standin_control("reset"), 0);
	must(cu.cuStreamSynchronize(gpu.a));
	eq_i64(cu.cuStreamQuery(gpu.a), 0);
	/* Both streams would block if a wait included later operations. */
	must(cu.cuEventRecord(event, gpu.a));
	must(cu.cuStreamWaitEvent(gpu.b, event, 0));
	must(cu.cuEventRecord(other, gpu.b));
	must(cu.cuStreamWaitEvent(gpu.a, other, 0));
	must(cu.cuEventRecord(event, gpu.a));
	must(cu.cuEventDestroy(other));
	must(cu.cuEventSynchronize(event));
	must(cu.cuEventDestroy(event));
	must(cu.cuMemFree(at));
	must(cu.cuMemFreeHost(host));
}

/* Operations run late: 20 delays of 2 ms on average are not over within 8 ms. */
static void test_late(void)
{
	struct timespec begin, end;
	CUevent event = gpu_event();
	CUstream stream;

	(void)setenv("CKPTFS_STANDIN_DELAY_US", "2000", 1);
	must(cu.cuStreamCreate(&stream, 0));
	(void)clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned i = 0; i < 20; i++)
		must(cu.cuEventRecord(event, stream));
	must(cu.cuStreamSynchronize(stream));
	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	ok((end.tv_sec - begin.tv_sec) * 1000 +
		   (end.tv_nsec - begin.tv_nsec) / 1000000 >=
	   8);
	must(cu.cuStreamDestroy(stream));
	must(cu.cuEventDestroy(event));
	(void)unsetenv("CKPTFS_STANDIN_DELAY_US");
}

/* A destroyed stream runs its submitted operations. */
static void test_stream_destroyed(void)
{
	CUstream stream;
	CUevent event = gpu_event();
	CUdeviceptr at = gpu_alloc(64);
	uint8_t *host = gpu_host(128);

	must(cu.cuStreamCreate(&stream, 0));
	memset(host, 3, 64);
	must(cu.cuMemcpyHtoDAsync(at, host, 64, stream));
	must(cu.cuMemcpyDtoHAsync(host + 64, at, 64, stream));
	must(cu.cuEventRecord(event, stream));
	must(cu.cuStreamDestroy(stream));
	must(cu.cuEventSynchronize(event));
	eq_mem(host, 64, host + 64, 64);
	must(cu.cuEventDestroy(event));
	must(cu.cuMemFree(at));
	must(cu.cuMemFreeHost(host));
}

/* --- faults --------------------------------------------------------------------------------- */

static void test_faults(void)
{
	CUdeviceptr at;
	CUevent event;
	size_t left, all;

	eq_err(cu.standin_control("fail=cuMemAlloc:2:OUT_OF_MEMORY"), 0);
	eq_i64(cu.cuMemAlloc(&at, 100), 0);
	must(cu.cuMemFree(at));
	eq_i64(cu.cuMemAlloc(&at, 100), CUDA_ERROR_OUT_OF_MEMORY);
	eq_i64(cu.cuMemAlloc(&at, 100), 0);
	eq_err(cu.standin_control("fail=*:2:719"), 0);
	eq_i64(cu.cuMemGetInfo(&left, &all), 0);
	eq_i64(cu.cuEventCreate(&event, 0), CUDA_ERROR_LAUNCH_FAILED);
	eq_i64(cu.cuEventCreate(&event, 0), 0);
	eq_err(cu.standin_control("fail=cuEventQuery:2+:NOT_READY"), 0);
	eq_i64(cu.cuEventQuery(event), 0);
	for (unsigned i = 0; i < 3; i++)
		eq_i64(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	eq_err(cu.standin_control("reset lost=ECC_UNCORRECTABLE"), 0);
	eq_i64(cu.cuMemAlloc(&at, 100), CUDA_ERROR_ECC_UNCORRECTABLE);
	eq_i64(cu.cuEventRecord(event, gpu.a), CUDA_ERROR_ECC_UNCORRECTABLE);
	eq_i64(cu.cuStreamSynchronize(gpu.a), CUDA_ERROR_ECC_UNCORRECTABLE);
	/* The memory is freed although the call returns an error. */
	eq_i64(cu.cuMemFree(at), CUDA_ERROR_ECC_UNCORRECTABLE);
	eq_i64(cu.cuEventDestroy(event), CUDA_ERROR_ECC_UNCORRECTABLE);
	eq_err(cu.standin_control("reset"), 0);
	eq_err(cu.standin_control("fail=cuInit:0:1"), -EINVAL);
	eq_err(cu.standin_control("fail=cuInit:1:NO_SUCH_NAME"), -EINVAL);
	eq_err(cu.standin_control("nonsense"), -EINVAL);
	eq_err(cu.standin_control("lost=x"), -EINVAL);
	eq_err(cu.standin_control("devices=17"), -EINVAL);
	eq_err(cu.standin_control(" \n"), 0);
	eq_err(cu.standin_control("reset"), 0);
}

/* A kernel fails: the wait for it returns the error, and so do all later calls. */
static void test_lost_later(void)
{
	CUdeviceptr at = gpu_alloc(64);
	uint8_t *host = gpu_host(128), was[64];

	memcpy(was, host + 64, 64);
	eq_err(cu.standin_control("fail=operation:2:ILLEGAL_ADDRESS"), 0);
	must(cu.cuMemcpyHtoDAsync(at, host, 64, gpu.a));
	must(cu.cuMemcpyDtoHAsync(host + 64, at, 64, gpu.a));
	eq_i64(cu.cuStreamSynchronize(gpu.a), CUDA_ERROR_ILLEGAL_ADDRESS);
	eq_mem(host + 64, 64, was, 64);
	eq_i64(cu.cuStreamQuery(gpu.b), CUDA_ERROR_ILLEGAL_ADDRESS);
	eq_err(cu.standin_control("reset"), 0);
	must(cu.cuMemFree(at));
	must(cu.cuMemFreeHost(host));
}

static void test_leaks(void)
{
	CUdeviceptr at = gpu_alloc(64);
	CUevent event = gpu_event();
	size_t left, all;

	eq_u64(cu.standin_leaks(), 5);
	must(cu.cuMemFree(at));
	must(cu.cuEventDestroy(event));
	gpu_end();
	eq_u64(cu.standin_leaks(), 0);
	gpu_begin();
	(void)gpu_alloc(64);
	/* Objects that ended with their context count as leaks, too. */
	gpu_end();
	eq_u64(cu.standin_leaks(), 1);
	gpu_begin();
	must(cu.cuMemGetInfo(&left, &all));
	eq_u64(left, all);
	gpu_end();
}

/* --- the library --------------------------------------------------------------------------- */

static void by_environment(void)
{
	int n;

	if (driver_load(library) || cu.cuInit(0) || cu.cuDeviceGetCount(&n) ||
	    n != 4 || cu.cuDeviceGetCount(&n) != CUDA_ERROR_UNKNOWN)
		abort();
}

static void by_bad_environment(void)
{
	if (!driver_load(library))
		(void)cu.cuInit(0);
}

static void test_environment(void)
{
	char said[100];

	(void)setenv("CKPTFS_STANDIN", "devices=4 fail=cuDeviceGetCount:2:999",
		     1);
	eq_i64(in_child(by_environment, said, sizeof(said)), 0);
	(void)setenv("CKPTFS_STANDIN", "devices=many", 1);
	ok(dies(by_bad_environment, "wrong words: \"devices=many\""));
	(void)unsetenv("CKPTFS_STANDIN");
}

static void test_without(void)
{
	char copy[] = "/tmp/standin-XXXXXX";
	const char *why;

	close(mkstemp(copy));
	ok(driver_without(library, "cuMemcpy2DAsync_v2", copy));
	why = driver_load(copy);
	eq_text(why ? why : "nothing", "cuMemcpy2DAsync_v2");
	ok(!driver_without(library, "cuNoSuchCall", "/dev/null"));
	(void)unlink(copy);
}

int main(int argc, char **argv)
{
	const char *lacks;

	if (argc != 2)
		return 2;
	library = argv[1];
	test_environment();
	test_without();
	lacks = driver_load(library);
	eq_text(lacks ? lacks : "", "");
	if (lacks)
		return tap_done();
	test_devices();
	gpu_begin();
	test_errors();
	test_memory();
	test_set();
	test_rows();
	test_batch();
	test_events();
	test_late();
	test_stream_destroyed();
	test_faults();
	test_lost_later();
	test_leaks();
	return tap_done();
}
