/* SPDX-License-Identifier: MIT */
/*
 * loaded: loads the fake driver into a test in the way ckptfs loads a driver; calls have the form
 * `cu.cuInit(0)`. It also runs child processes that are expected to abort. For programs that
 * include cuda.h in the way of the fake driver.
 */
#ifndef STANDIN_LOADED_H
#define STANDIN_LOADED_H

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin.h"
#include "tap.h"

/* Functions that cuda.h renames by macros get their new names here, too. */
#define DRIVER_CALLS(X)                                                        \
	X(cuInit)                                                              \
	X(cuDriverGetVersion)                                                  \
	X(cuDeviceGetCount)                                                    \
	X(cuDeviceGet)                                                         \
	X(cuDeviceGetName)                                                     \
	X(cuDeviceGetUuid)                                                     \
	X(cuDeviceGetUuid_v2)                                                  \
	X(cuDeviceGetAttribute)                                                \
	X(cuDeviceTotalMem)                                                    \
	X(cuDevicePrimaryCtxRetain)                                            \
	X(cuDevicePrimaryCtxRelease)                                           \
	X(cuCtxSetCurrent)                                                     \
	X(cuCtxGetCurrent)                                                     \
	X(cuCtxSynchronize)                                                    \
	X(cuMemGetInfo)                                                        \
	X(cuMemAlloc)                                                          \
	X(cuMemFree)                                                           \
	X(cuMemHostAlloc)                                                      \
	X(cuMemFreeHost)                                                       \
	X(cuMemHostRegister)                                                   \
	X(cuMemHostUnregister)                                                 \
	X(cuStreamCreate)                                                      \
	X(cuStreamDestroy)                                                     \
	X(cuStreamWaitEvent)                                                   \
	X(cuStreamQuery)                                                       \
	X(cuStreamSynchronize)                                                 \
	X(cuEventCreate)                                                       \
	X(cuEventDestroy)                                                      \
	X(cuEventRecord)                                                       \
	X(cuEventQuery)                                                        \
	X(cuEventSynchronize)                                                  \
	X(cuMemcpyHtoDAsync)                                                   \
	X(cuMemcpyDtoHAsync)                                                   \
	X(cuMemcpyDtoDAsync)                                                   \
	X(cuMemcpy2DAsync)                                                     \
	X(cuMemsetD8Async)                                                     \
	X(cuModuleLoadData)                                                    \
	X(cuModuleUnload)                                                      \
	X(cuModuleGetFunction)                                                 \
	X(cuLaunchKernel)                                                      \
	X(cuGetErrorName)                                                      \
	X(cuGetErrorString)                                                    \
	X(cuIpcGetMemHandle)                                                   \
	X(cuIpcOpenMemHandle)                                                  \
	X(cuIpcCloseMemHandle)                                                 \
	X(cuMemGetAllocationGranularity)                                       \
	X(cuMemCreate)                                                         \
	X(cuMemRelease)                                                        \
	X(cuMemAddressReserve)                                                 \
	X(cuMemAddressFree)                                                    \
	X(cuMemMap)                                                            \
	X(cuMemUnmap)                                                          \
	X(cuMemSetAccess)                                                      \
	X(cuMemExportToShareableHandle)                                        \
	X(cuMemImportFromShareableHandle)                                      \
	X(standin_control)                                                     \
	X(standin_leaks)

#define DRIVER_FIELD(call) __typeof__(call) *call;
#define DRIVER_TEXT(call)  #call,
#define DRIVER_NAME(call)  DRIVER_TEXT(call)

static struct driver {
	DRIVER_CALLS(DRIVER_FIELD)
} cu;

/* Stores the addresses of n functions of a library in the array `out`. Returns NULL if it has all;
 * otherwise the first missing name, or the error of dlopen(). */
static inline const char *calls_load(const char *path, const char *const *names,
				     size_t n, void *out)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
	for (size_t i = 0; i < n; i++) {
		void *call = dlsym(library, names[i]);

		if (!call)
			return names[i];
		memcpy((char *)out + i * sizeof(call), &call, sizeof(call));
	}
	return NULL;
}

static inline const char *driver_load(const char *path)
{
	static const char *const names[] = { DRIVER_CALLS(DRIVER_NAME) };

	return calls_load(path, names, sizeof(names) / sizeof(names[0]), &cu);
}

/* Writes a copy of the library without one function, which is renamed there. False if the copy
 * cannot be written, or the function does not exist. */
static inline bool driver_without(const char *path, const char *call,
				  const char *copy)
{
	FILE *in = fopen(path, "rbe"), *out = fopen(copy, "wbe");
	size_t cap = 8 << 20, len = 0, found = 0, name = strlen(call);
	char *bytes = malloc(cap);

	if (!in || !out || !bytes)
		abort();
	len = fread(bytes, 1, cap, in);
	for (size_t i = 1; len < cap && i + name < len; i++)
		if (!bytes[i - 1] && !memcmp(bytes + i, call, name + 1)) {
			bytes[i] = '?';
			found++;
		}
	if (fwrite(bytes, 1, len, out) != len)
		found = 0;
	free(bytes);
	fclose(in);
	return fclose(out) == 0 && found > 0;
}

/* --- child processes ------------------------------------------------------------------ */

/* Runs a function in a child process. Returns its status and stores its output. The caller must
 * not have other threads. */
static inline int in_child(void (*run)(void), char *output, size_t size)
{
	const struct rlimit none = { 0, 0 };
	int pipes[2], status;
	size_t len = 0;
	pid_t child;

	(void)fflush(stdout);
	if (pipe(pipes) != 0)
		abort();
	child = fork();
	if (child == 0) {
		(void)setrlimit(RLIMIT_CORE, &none);
		(void)dup2(pipes[1], STDERR_FILENO);
		(void)dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		run();
		exit(0);
	}
	close(pipes[1]);
	for (ssize_t n = 1; n > 0 && len + 1 < size;
	     len += n > 0 ? (size_t)n : 0)
		n = read(pipes[0], output + len, size - 1 - len);
	output[len] = '\0';
	close(pipes[0]);
	if (waitpid(child, &status, 0) != child)
		abort();
	return status;
}

static inline bool dies(void (*run)(void), const char *expected)
{
	char output[2048];
	int status = in_child(run, output, sizeof(output));
	bool good = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
		    strstr(output, expected);

	if (!good)
		printf("# status %x, output: %.*s\n", (unsigned)status,
		       (int)strcspn(output, "\n"), output);
	return good;
}

/* --- the fixture of most tests ---------------------------------------------------------- */

static struct gpu {
	CUcontext context;
	CUstream a, b;
} gpu;

static inline void must(CUresult code)
{
	const char *name = "?";

	if (!code)
		return;
	(void)cu.cuGetErrorName(code, &name);
	printf("Bail out! %s\n", name);
	abort();
}

static inline void gpu_begin(void)
{
	must(cu.cuInit(0));
	must(cu.cuDevicePrimaryCtxRetain(&gpu.context, 0));
	must(cu.cuCtxSetCurrent(gpu.context));
	must(cu.cuStreamCreate(&gpu.a, CU_STREAM_NON_BLOCKING));
	must(cu.cuStreamCreate(&gpu.b, CU_STREAM_NON_BLOCKING));
}

static inline void gpu_end(void)
{
	must(cu.cuStreamDestroy(gpu.a));
	must(cu.cuStreamDestroy(gpu.b));
	must(cu.cuDevicePrimaryCtxRelease(0));
	must(cu.cuCtxSetCurrent(NULL));
}

static inline CUdeviceptr gpu_alloc(size_t size)
{
	CUdeviceptr at;

	must(cu.cuMemAlloc(&at, size));
	return at;
}

static inline uint8_t *gpu_host(size_t size)
{
	void *at;

	must(cu.cuMemHostAlloc(&at, size, 0));
	return at;
}

static inline CUevent gpu_event(void)
{
	CUevent event;

	must(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

/* Launches a kernel in the way of ckptfs. */
static inline CUresult gpu_launch(CUfunction f, size_t tiles, CUdeviceptr *list,
				  CUdeviceptr *nests, CUstream stream)
{
	void *arguments[] = { list, nests };

	return cu.cuLaunchKernel(f, (unsigned)tiles, 1, 1, 256, 1, 1, 0, stream,
				 arguments, NULL);
}

#endif
