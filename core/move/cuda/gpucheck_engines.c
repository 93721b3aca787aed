/* SPDX-License-Identifier: MIT */
/*
 * gpucheck_engines: what moves runs without a kernel: copies of rows, and many copies that
 * are handed over at once. Only this program asks the driver for them, which need not have
 * them.
 */
#include "gpucheck_speed.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

enum {
	/* Some take as long for each run as for kilobytes. */
	ROWS_MOST = 1 << 18,
	BATCH_MOST = 1 << 16,
	QUICK_BATCH_MOST = 1 << 10,
	BEHIND = 16, /* bytes behind the last run, which have to stay */
};

/* Of copies of a batch, as CUmemcpyAttributes of cuda.h 12.8: older ones have none. */
struct attributes {
	int order;
	CUmemLocation from, to;
	unsigned flags;
};

enum { IN_STREAM_ORDER = 1 }; /* CU_MEMCPY_SRC_ACCESS_ORDER_STREAM */

struct ck_engines {
	struct ck_speed *speed;
	CUresult (*rows)(const CUDA_MEMCPY2D *copy, CUstream stream);
	/* As of 12.8; 13.0 has another one, by another name, and this one. */
	CUresult (*batch)(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
			  size_t n, struct attributes *attributes,
			  size_t *firsts, size_t nattributes, size_t *failed,
			  CUstream stream);
	CUdeviceptr to[BATCH_MOST], from[BATCH_MOST];
	size_t sizes[BATCH_MOST];
	size_t run, n; /* what is copied now */
	CUresult (*copy)(struct ck_engines *e);
};

/* --- copies ------------------------------------------------------------------------------ */

static CUstream work(const struct ck_engines *e)
{
	return e->speed->device->ways[CK_WAY_WORK];
}

static CUresult copy_rows(struct ck_engines *e)
{
	const CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				     .srcDevice = e->speed->src,
				     .srcPitch = 2 * e->run,
				     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				     .dstDevice = e->speed->dst,
				     .dstPitch = e->run,
				     .WidthInBytes = e->run,
				     .Height = e->n };

	return e->rows(&copy, work(e));
}

static CUresult copy_batch(struct ck_engines *e)
{
	struct attributes attributes = { .order = IN_STREAM_ORDER };
	size_t first = 0, failed;

	return e->batch(e->to, e->from, e->sizes, e->n, &attributes, &first, 1,
			&failed, work(e));
}

static int copy_once(struct ck_speed *s)
{
	return ck_device_check(s->device, s->engines->copy(s->engines));
}

/* --- bytes ------------------------------------------------------------------------------- */

/* Of src, with a period that no run has. */
static int fill(const struct ck_engines *e)
{
	struct ck_speed *s = e->speed;
	size_t piece = CK_SPEED_PINNED - 4099;
	int rc = 0;

	for (size_t i = 0; i < piece; i++)
		s->up[i] = (uint8_t)((uint32_t)i * UINT32_C(2654435761) >> 13);
	for (size_t at = 0; at < s->size && rc == 0; at += piece)
		rc = ck_device_check(
			s->device,
			s->cuda->cuMemcpyHtoDAsync(s->src + at, s->up,
						   ck_min(piece, s->size - at),
						   s->device->ways[CK_WAY_UP]));
	return rc ? rc : ck_speed_wait(s, 1u << CK_WAY_UP);
}

/* What is in dst before is the other half of src. */
static int begin(struct ck_engines *e)
{
	struct ck_speed *s = e->speed;
	int rc = ck_device_check(
		s->device,
		s->cuda->cuMemcpyDtoDAsync(s->dst, s->src + s->size / 2,
					   s->size / 2, work(e)));

	return rc ? rc : ck_speed_wait(s, 1u << CK_WAY_WORK);
}

static int bring(struct ck_speed *s, uint8_t *to, CUdeviceptr from, size_t len)
{
	return ck_device_check(
		s->device,
		s->cuda->cuMemcpyDtoHAsync(to, from, len,
					   s->device->ways[CK_WAY_DOWN]));
}

/* Whether n runs from this one are where they should be; or an error. */
static int compare(const struct ck_engines *e, size_t from, size_t n)
{
	struct ck_speed *s = e->speed;
	size_t run = e->run;
	int rc = bring(s, s->up, s->src + from * 2 * run, (2 * n - 1) * run);

	if (rc == 0)
		rc = bring(s, s->down, s->dst + from * run, n * run);
	if (rc == 0)
		rc = ck_speed_wait(s, 1u << CK_WAY_DOWN);
	for (size_t i = 0; i < n && rc == 0; i++)
		if (memcmp(s->down + i * run, s->up + i * 2 * run, run))
			return 0;
	return rc ? rc : 1;
}

/* And what is behind them. */
static int compare_behind(const struct ck_engines *e)
{
	struct ck_speed *s = e->speed;
	size_t at = e->n * e->run;
	int rc = bring(s, s->up, s->src + s->size / 2 + at, BEHIND);

	if (rc == 0)
		rc = bring(s, s->down, s->dst + at, BEHIND);
	if (rc == 0)
		rc = ck_speed_wait(s, 1u << CK_WAY_DOWN);
	return rc ? rc : memcmp(s->up, s->down, BEHIND) == 0;
}

/* The first ones and the last ones, as many as there is room for. */
static int is_right(const struct ck_engines *e)
{
	size_t n = ck_min(e->n, CK_SPEED_PINNED / (2 * e->run));
	int rc = compare(e, 0, n);

	if (rc == 1)
		rc = compare(e, e->n - n, n);
	return rc == 1 ? compare_behind(e) : rc;
}

/* --- checks ------------------------------------------------------------------------------ */

/* The driver may say that it has no such copy: of rows, if their distance is not one of
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
	int rc = begin(e);

	(void)snprintf(name, sizeof(name), "%s_%zu", what, e->run);
	e->n = ck_min((s->size / 2 - BEHIND) / e->run, most);
	code = rc ? CUDA_SUCCESS : e->copy(e);
	if (is_refused(code)) {
		ck_gpucheck_skip(c, name, ck_cuda_error(s->cuda, code));
		return;
	}
	rc = rc ? rc : ck_device_check(s->device, code);
	gbps = rc ? 0
		  : ck_speed_rate(s, name, copy_once, 1u << CK_WAY_WORK,
				  (double)(e->n * e->run));
	if (rc == 0 && gbps <= 0)
		return;
	rc = rc ? rc : is_right(e);
	if (rc == 1)
		ck_gpucheck_rate(c, name, gbps, "copy_device", c->copy);
	else
		ck_gpucheck_fail(c, name, rc ? strerror(-rc) : "other bytes");
}

void ck_engines_check(struct ck_engines *e, size_t run)
{
	e->run = run;
	e->copy = copy_rows;
	if (e->rows)
		check(e, "rows", ROWS_MOST);
	for (size_t i = 0; i < BATCH_MOST; i++) {
		e->to[i] = e->speed->dst + i * run;
		e->from[i] = e->speed->src + i * 2 * run;
		e->sizes[i] = run;
	}
	e->copy = copy_batch;
	if (e->batch)
		check(e, "batch",
		      e->speed->check->quick ? QUICK_BATCH_MOST : BATCH_MOST);
}

/* --- loading ----------------------------------------------------------------------------- */

#define TEXT(name)    TEXT_OF(name) /* by the version of it that is used */
#define TEXT_OF(name) #name

/* Into *function, which points to a function; NULL: there is none, which is said. */
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
	int rc = -ENOMEM;

	if (e) {
		e->speed = s;
		rc = fill(e);
	}
	if (rc) {
		ck_gpucheck_fail(s->check, "engines", strerror(-rc));
		free(e);
		return NULL;
	}
	find(s, "rows", TEXT(cuMemcpy2DAsync), &e->rows);
	find(s, "batch", "cuMemcpyBatchAsync", &e->batch);
	s->engines = e;
	return e;
}

void ck_engines_free(struct ck_engines *e)
{
	free(e);
}
