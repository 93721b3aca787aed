/* SPDX-License-Identifier: MIT */
/*
 * gpucheck_engines: measures copies without kernels: 2D copies of rows, one for each shard, and
 * batches of many copies. The runs are those of the kernel measurements, but fewer. Only this
 * program uses these driver calls, which a driver may lack.
 */
#include "gpucheck_speed.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

enum {
	/* Limits, since some drivers need as long for a run as for kilobytes. Even numbers. */
	ROWS_MOST = 1 << 18,
	BATCH_MOST = 1 << 16,
	QUICK_BATCH_MOST = 1 << 10,
};

/* CUmemcpyAttributes of cuda.h 12.8, which older versions lack. */
struct attributes {
	int order;
	CUmemLocation from, to;
	unsigned flags;
};

enum { IN_STREAM_ORDER = 1 }; /* CU_MEMCPY_SRC_ACCESS_ORDER_STREAM */

struct ck_engines {
	struct ck_speed *speed;
	CUresult (*rows)(const CUDA_MEMCPY2D *copy, CUstream stream);
	/* The form of 12.8; 13.0 has this one, and another one with another name. */
	CUresult (*batch)(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
			  size_t n, struct attributes *attributes,
			  size_t *firsts, size_t nattributes, size_t *failed,
			  CUstream stream);
	CUdeviceptr to[BATCH_MOST], from[BATCH_MOST];
	size_t sizes[BATCH_MOST];
	struct ck_runs runs; /* the current copies */
	CUresult (*copy)(struct ck_engines *e);
};

/* --- copies ------------------------------------------------------------------------------ */

static CUstream work(const struct ck_engines *e)
{
	return e->speed->device->streams[CK_GPU_STREAM_WORK];
}

static CUresult copy_rows(struct ck_engines *e)
{
	const struct ck_runs *r = &e->runs;
	CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .srcPitch = r->run,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstPitch = 2 * r->run,
			       .WidthInBytes = r->run,
			       .Height = r->n / 2 };
	CUresult rc = CUDA_SUCCESS;

	for (unsigned shard = 0; shard < 2 && rc == CUDA_SUCCESS; shard++) {
		copy.srcDevice = ck_runs_from(e->speed, r, shard);
		copy.dstDevice = ck_runs_to(e->speed, r, shard);
		rc = e->rows(&copy, work(e));
	}
	return rc;
}

static CUresult copy_batch(struct ck_engines *e)
{
	struct attributes attributes = { .order = IN_STREAM_ORDER };
	size_t first = 0, failed;

	return e->batch(e->to, e->from, e->sizes, e->runs.n, &attributes,
			&first, 1, &failed, work(e));
}

static int copy_once(struct ck_speed *s)
{
	return ck_device_check(s->device, s->engines->copy(s->engines));
}

/* --- checks ------------------------------------------------------------------------------ */

/* True if the driver does not support the copy: of rows, if their pitch is not one of
 * cuMemAllocPitch(). */
static bool is_refused(CUresult rc)
{
	return rc == CUDA_ERROR_INVALID_VALUE || rc == CUDA_ERROR_NOT_SUPPORTED;
}

static void check(struct ck_engines *e, const char *what, size_t most)
{
	struct ck_speed *s = e->speed;
	struct ck_gpucheck *c = s->check;
	char name[48];
	CUresult code;
	double gbps;
	int rc = ck_runs_begin(s);

	(void)snprintf(name, sizeof(name), "%s_%zu", what, e->runs.run);
	e->runs.n = ck_min(s->size / 2 / e->runs.run, most);
	code = rc ? CUDA_SUCCESS : e->copy(e);
	if (is_refused(code)) {
		ck_gpucheck_skip(c, name, ck_cuda_error(s->cuda, code));
		return;
	}
	rc = rc ? rc : ck_device_check(s->device, code);
	if (rc) {
		ck_gpucheck_fail(c, name, strerror(-rc));
		return;
	}
	gbps = ck_speed_rate(s, name, copy_once, 1u << CK_GPU_STREAM_WORK,
			     (double)(e->runs.n * e->runs.run));
	if (gbps > 0)
		ck_runs_say(s, &e->runs, name, gbps);
}

void ck_engines_check(struct ck_engines *e, size_t run)
{
	e->runs = (struct ck_runs){ .run = run };
	e->copy = copy_rows;
	if (e->rows)
		check(e, "rows", ROWS_MOST);
	for (size_t i = 0; i < BATCH_MOST; i++) {
		e->to[i] = ck_runs_to(e->speed, &e->runs, i);
		e->from[i] = ck_runs_from(e->speed, &e->runs, i);
		e->sizes[i] = run;
	}
	e->copy = copy_batch;
	if (e->batch)
		check(e, "batch",
		      e->speed->check->quick ? QUICK_BATCH_MOST : BATCH_MOST);
}

/* --- loading ----------------------------------------------------------------------------- */

#define TEXT(name)    TEXT_OF(name) /* expands the versioned name first */
#define TEXT_OF(name) #name

/* Stores the address of a driver function in *function; NULL, and a skipped check, if it is
 * missing. */
static void find(struct ck_speed *s, const char *check, const char *name,
		 void *function)
{
	void *found = dlsym(s->cuda->library, name);
	char why[64];

	memcpy(function, &found, sizeof(found));
	if (found)
		return;
	(void)snprintf(why, sizeof(why), "the driver has no %s", name);
	ck_gpucheck_skip(s->check, check, why);
}

struct ck_engines *ck_engines_make(struct ck_speed *s)
{
	struct ck_engines *e = calloc(1, sizeof(*e));

	if (!e) {
		ck_gpucheck_fail(s->check, "engines", strerror(ENOMEM));
		return NULL;
	}
	e->speed = s;
	find(s, "rows", TEXT(cuMemcpy2DAsync), &e->rows);
	find(s, "batch", "cuMemcpyBatchAsync", &e->batch);
	s->engines = e;
	return e;
}

void ck_engines_free(struct ck_engines *e)
{
	free(e);
}
