/* SPDX-License-Identifier: MIT */
/*
 * spread_process: a process with the plugin in itself, which has works by lot on several devices
 * of the stand-in, most of them to memory of some device, and compares each byte. What the plugin
 * calls is changed where the plan says so, see the --wrap in meson.build.
 */
#ifndef SPREAD_PROCESS_H
#define SPREAD_PROCESS_H

#include "../../core/move/cuda/driver.h"
#include "../../core/move/cuda/nccl_team.h"
#include "../../core/move/cuda/pipe.h"
#include "boxes.h"
#include "tap.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	DEVICES = 4, /* at most */
	SLOTS = 24,
	ROOM = 48 << 10,
	COPIES = 12,
	BEHIND = 64, /* bytes that nobody writes */
	UNTOUCHED = 0x5a,
	LATE_MSEC = 30000,
	SLEEP_MSEC = 3000,
};

extern const struct ck_gpu_plugin ckptfs_gpu;

/* --- what a process is to do -------------------------------------------------------------- */

enum spoil {
	SPOIL_NONE,
	SPOIL_GATHERED, /* is said to be put together at once */
	SPOIL_MOVED,	/* is said to be transferred at once */
	SPOIL_SILENT,	/* after some transfers nobody receives */
};

struct plan {
	uint32_t devices;
	unsigned works;
	enum ck_gpu_spreading spreading;
	const char *before,
		*after; /* words for the stand-in, when it is open */
	enum spoil spoil;
	unsigned spared; /* transfers that are received */
	bool again;	 /* later it is tried again */
	bool loses;	 /* a device */
	bool stays;	 /* NCCL keeps what it has */
	bool sleeps; /* when nobody receives, for longer than that may take */
	unsigned speed; /* of time, for the plugin; 0: as it is */
	uint64_t seed;
};

static struct result {
	unsigned good, wrong, failed, leaks;
	unsigned spread; /* transfers */
	bool over, trouble;
	struct ck_gpu_spread first, last;
} * result;

static const struct plan *plan;
static uint64_t later;	  /* ms that have passed for the plugin only */
static uint64_t begun_at; /* ms; its time runs from then on */
static unsigned received;
static bool opened;

/* --- what the plugin calls ---------------------------------------------------------------- */

uint64_t __wrap_ck_msec_now(void);
uint64_t __real_ck_msec_now(void);
int __wrap_ck_pipe_is_done(struct ck_pipe *p, struct ck_pipe_batch *b);
int __real_ck_pipe_is_done(struct ck_pipe *p, struct ck_pipe_batch *b);
int __wrap_ck_nccl_team_is_marked(struct ck_nccl_team *t, uint32_t *which);
int __real_ck_nccl_team_is_marked(struct ck_nccl_team *t, uint32_t *which);
int __wrap_ck_nccl_load(struct ck_nccl *nccl, struct ck_diag *d);
int __real_ck_nccl_load(struct ck_nccl *nccl, struct ck_diag *d);

uint64_t __wrap_ck_msec_now(void)
{
	uint64_t now = __real_ck_msec_now();

	if (begun_at && plan->speed)
		now += (now - begun_at) * (plan->speed - 1);
	return now + __atomic_load_n(&later, __ATOMIC_ACQUIRE);
}

int __wrap_ck_pipe_is_done(struct ck_pipe *p, struct ck_pipe_batch *b)
{
	return opened && plan->spoil == SPOIL_GATHERED
		       ? 1
		       : __real_ck_pipe_is_done(p, b);
}

int __wrap_ck_nccl_team_is_marked(struct ck_nccl_team *t, uint32_t *which)
{
	return opened && plan->spoil == SPOIL_MOVED
		       ? 0
		       : __real_ck_nccl_team_is_marked(t, which);
}

static __typeof__(ncclRecv) *real_recv;
static __typeof__(ncclGroupStart) *real_start;
static bool silent; /* atomic */

/* Of a whole group nobody receives anything. */
static ncclResult_t start_group(void)
{
	bool hushed = plan->spoil == SPOIL_SILENT && opened &&
		      __atomic_load_n(&received, __ATOMIC_ACQUIRE) >=
			      plan->spared &&
		      !__atomic_load_n(&later, __ATOMIC_ACQUIRE);

	__atomic_store_n(&silent, hushed, __ATOMIC_RELEASE);
	return real_start();
}

static ncclResult_t count_recv(void *to, size_t count, ncclDataType_t type,
			       int peer, ncclComm_t comm, cudaStream_t stream)
{
	if (__atomic_load_n(&silent, __ATOMIC_ACQUIRE))
		return ncclSuccess;
	__atomic_add_fetch(&received, 1, __ATOMIC_SEQ_CST);
	return real_recv(to, count, type, peer, comm, stream);
}

int __wrap_ck_nccl_load(struct ck_nccl *nccl, struct ck_diag *d)
{
	int rc = __real_ck_nccl_load(nccl, d);

	if (rc == 0) {
		real_recv = nccl->ncclRecv;
		nccl->ncclRecv = count_recv;
		real_start = nccl->ncclGroupStart;
		nccl->ncclGroupStart = start_group;
	}
	return rc;
}

/* --- the driver, as the test has it -------------------------------------------------------- */

static struct ck_cuda cuda;
static int (*control)(const char *text);
static unsigned (*leaks)(void);
static CUcontext contexts[DEVICES];
static CUstream streams[DEVICES];

static _Noreturn void fails(const char *what)
{
	(void)fprintf(stderr, "fails: %s\n", what);
	_exit(4);
}

static void must(bool good, const char *what)
{
	if (!good)
		fails(what);
}

static void find_call(const char *name, void *call)
{
	void *found = dlsym(cuda.library, name);

	must(found != NULL, name);
	memcpy(call, &found, sizeof(found));
}

static void driver_begin(void)
{
	struct ck_diag d = { 0 };

	must(ck_cuda_load(&cuda, &d) == 0, d.text);
	find_call("standin_control", &control);
	find_call("standin_leaks", &leaks);
	for (uint32_t i = 0; i < plan->devices; i++) {
		must(!cuda.cuDevicePrimaryCtxRetain(&contexts[i], (int)i) &&
			     !cuda.cuCtxSetCurrent(contexts[i]) &&
			     !cuda.cuStreamCreate(&streams[i],
						  CU_STREAM_NON_BLOCKING),
		     "a device");
	}
}

static void driver_end(void)
{
	for (uint32_t i = 0; i < plan->devices; i++) {
		(void)cuda.cuCtxSetCurrent(contexts[i]);
		(void)cuda.cuStreamDestroy(streams[i]);
		(void)cuda.cuDevicePrimaryCtxRelease((int)i);
	}
}

/* --- works -------------------------------------------------------------------------------- */

struct item {
	struct ck_gpu_work work; /* first */
	bool on_way;
	uint32_t device;
	uint64_t at;
	struct ck_gather_copy copies[COPIES];
	struct ck_loop loops[COPIES];
	uint8_t *fill, *back; /* back: pinned, ROOM */
	uint8_t want[ROOM];
};

static struct ck_gpu *gpu;
static struct ck_gpu_memory memories[DEVICES];
static struct item *items;
static uint64_t random_state;

static uint64_t below(uint64_t n)
{
	return boxes_below(&random_state, n);
}

/* The next copy: so many bytes, or runs of them that lie apart in what is filled. */
static void add_copy(struct item *it, uint32_t left)
{
	struct ck_gpu_work *w = &it->work;
	uint32_t i = w->ncopies++, count = 1 + (uint32_t)below(8);
	uint32_t run = 1 + (uint32_t)below(left / count ? left / count : 1);
	uint64_t gap = run + below(32), src = w->filled + below(32);

	if (i + 1 == COPIES) {
		run = left;
		count = 1;
	}
	count = (uint32_t)ck_min(count, left / run);
	it->loops[i] =
		(struct ck_loop){ .count = count, .src = gap, .dst = run };
	it->copies[i] = (struct ck_gather_copy){ .src = src,
						 .dst = w->results,
						 .run = run,
						 .loop = i,
						 .nloops = 1 };
	for (uint32_t k = 0; k < count; k++)
		for (uint32_t b = 0; b < run; b++)
			it->want[w->results + k * run + b] =
				it->fill[src + k * gap + b];
	w->results += count * run;
	w->filled = (uint32_t)(src + (count - 1) * gap + run);
}

static void deal(struct item *it)
{
	uint32_t bytes = 1 + (uint32_t)below(below(4) ? 3000 : ROOM / 3);

	for (size_t i = 0; i < ROOM; i += 8) {
		uint64_t r = tap_random(&random_state);

		memcpy(it->fill + i, &r, 8);
	}
	it->work = (struct ck_gpu_work){ .fill = it->fill,
					 .result = it->fill + ROOM,
					 .copies = it->copies,
					 .loops = it->loops };
	while (it->work.results < bytes)
		add_copy(it, bytes - it->work.results);
	it->device = (uint32_t)below(plan->devices);
	if (below(8) == 0)
		return;
	it->work.to = &memories[it->device];
	it->work.to_at = it->at;
}

/* False: the device is lost. */
static bool back(struct item *it, bool fills)
{
	CUstream s = streams[it->device];
	CUdeviceptr at = memories[it->device].at + it->at;
	CUresult rc = cuda.cuCtxSetCurrent(contexts[it->device]);

	if (rc == CUDA_SUCCESS)
		rc = fills ? cuda.cuMemsetD8Async(at, UNTOUCHED, ROOM, s)
			   : cuda.cuMemcpyDtoHAsync(it->back, at, ROOM, s);
	if (rc == CUDA_SUCCESS)
		rc = cuda.cuStreamSynchronize(s);
	must(rc == CUDA_SUCCESS || plan->loses, "a copy of the test");
	return rc == CUDA_SUCCESS;
}

static bool is_right(struct item *it)
{
	uint32_t n = it->work.results;

	if (!it->work.to)
		return memcmp(it->work.result, it->want, n) == 0;
	for (uint32_t i = 0; i < BEHIND; i++)
		if (it->back[n + i] != UNTOUCHED)
			return false;
	return memcmp(it->back, it->want, n) == 0;
}

static void take_done(void)
{
	struct ck_gpu_work *w;

	while ((w = gpu->done(gpu))) {
		struct item *it = (struct item *)w;

		it->on_way = false;
		if (w->rc || (w->to && !back(it, false)))
			result->failed++;
		else if (is_right(it))
			result->good++;
		else
			result->wrong++;
	}
	if (gpu->spread(gpu, &result->last) && result->first.text[0] == '\0')
		result->first = result->last;
}

/* False: there is no room for it now. */
static bool begin(struct item *it)
{
	if (it->work.fill == NULL) {
		deal(it);
		if (it->work.to)
			(void)back(it, true);
	}
	if (gpu->start(gpu, &it->work))
		return false;
	it->on_way = true;
	return true;
}

/* Some at a time, in slots by lot. */
static bool run_works(unsigned n)
{
	uint64_t end = __real_ck_msec_now() + LATE_MSEC;
	unsigned begun = 0, on_way = 1;
	struct item *next = NULL;
	bool slept = false;

	while ((begun < n || on_way) && __real_ck_msec_now() < end) {
		if (!next && begun < n) {
			next = &items[below(SLOTS)];
			if (next->on_way)
				next = NULL;
			else
				next->work.fill = NULL;
		}
		if (next && begin(next)) {
			begun++;
			next = NULL;
		}
		if (plan->sleeps && !slept &&
		    __atomic_load_n(&silent, __ATOMIC_ACQUIRE)) {
			take_done();
			usleep(SLEEP_MSEC * 1000);
			slept = true;
		}
		if (below(3) == 0 || begun == n)
			take_done();
		on_way = 0;
		for (unsigned i = 0; i < SLOTS; i++)
			on_way += items[i].on_way;
		if (gpu->trouble(gpu) && begun == n)
			result->trouble = true;
	}
	return begun == n && on_way == 0;
}

/* --- a process ---------------------------------------------------------------------------- */

static uint8_t *map(size_t size)
{
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "memory");
	return at;
}

/* False: it has been lost. */
static bool open_gpus(uint8_t *memory)
{
	const struct ck_gpu_options options = { .memory = memory,
						.size = 2UL * SLOTS * ROOM,
						.room = ROOM,
						.spreading = plan->spreading };
	struct ck_diag d = { 0 };

	must(ckptfs_gpu.open(&options, &gpu, &d) == 0, d.text);
	if (gpu->begin_spread(gpu, &d)) {
		must(plan->loses, d.text);
		return false;
	}
	for (uint32_t i = 0; i < plan->devices; i++) {
		CUuuid uuid;

		must(!cuda.cuDeviceGetUuid(&uuid, (int)i) || plan->loses,
		     "a UUID");
		if (gpu->allocate(gpu, (const uint8_t *)uuid.bytes,
				  (uint64_t)SLOTS * ROOM, i % 2 == 1,
				  &memories[i])) {
			must(plan->loses, "memory of a device");
			return false;
		}
	}
	return true;
}

static void items_make(uint8_t *memory)
{
	items = calloc(SLOTS, sizeof(*items));
	must(items != NULL, "memory");
	for (unsigned i = 0; i < SLOTS; i++) {
		void *pinned = NULL;

		items[i].fill = memory + 2UL * i * ROOM;
		items[i].at = (uint64_t)i * ROOM;
		must(!cuda.cuCtxSetCurrent(contexts[0]) &&
			     !cuda.cuMemHostAlloc(&pinned, ROOM,
						  CU_MEMHOSTALLOC_PORTABLE),
		     "pinned memory");
		items[i].back = pinned;
	}
}

static void end(bool over)
{
	for (unsigned i = 0; i < SLOTS; i++)
		(void)cuda.cuMemFreeHost(items[i].back);
	if (!over)
		_exit(3);
	for (uint32_t i = 0; i < plan->devices; i++)
		gpu->release(gpu, &memories[i]);
	gpu->close(gpu);
	driver_end();
	result->leaks = leaks();
	free(items);
	result->over = true;
}

/* A while later it is tried again: until it is used. */
static bool wait_again(void)
{
	uint64_t end = __real_ck_msec_now() + LATE_MSEC;

	__atomic_store_n(&later, 61000, __ATOMIC_RELEASE);
	while (!result->last.used && __real_ck_msec_now() < end) {
		take_done();
		usleep(1000);
	}
	return result->last.used;
}

static _Noreturn void process(void)
{
	const struct rlimit none = { 0, 0 };
	uint8_t *memory = map(2UL * SLOTS * ROOM);
	char words[128];
	bool over;

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)snprintf(words, sizeof(words), "devices=%u %s", plan->devices,
		       plan->before ? plan->before : "");
	(void)setenv("CKPTFS_STANDIN", words, 1);
	begun_at = __real_ck_msec_now();
	random_state = plan->seed | 1;
	driver_begin();
	if (!open_gpus(memory)) {
		result->trouble = true;
		result->over = true;
		gpu->close(gpu);
		_exit(0);
	}
	items_make(memory);
	received = 0;
	opened = true;
	must(!plan->after || control(plan->after) == 0, plan->after);
	over = run_works(plan->works);
	if (over && plan->again)
		over = wait_again() && run_works(plan->works);
	result->spread = received;
	end(over);
	/* As a mover, of which NCCL's thread goes on. */
	if (plan->loses)
		_exit(0);
	exit(0);
}

#endif
