/* SPDX-License-Identifier: MIT */
/*
 * gpu: the implementation of struct ck_gpu (gpu.h). It connects the device
 * pool (device_pool.h: gather requests on all devices) with the endpoint for
 * rounds (endpoint.h: first device only) and with exported memory
 * (shared_memory.h).
 *
 * States: open; failed, after a device error or if NCCL does not return: then
 * every request completes with -EIO, and memory that may still be written is
 * freed only by the end of the process. One thread.
 */
#include "gpu/export/shared_memory.h"
#include "gpu/nccl/device_pool.h"
#include "gpu/nccl/endpoint.h"

#include <errno.h>
#include <stdio.h>

static const char *trouble(const struct ck_gpu *is)
{
	const struct ck_device_pool *all = (const struct ck_device_pool *)is;

	return *all->trouble.text ? all->trouble.text : NULL;
}

/* --- exported memory ------------------------------------------------------ */

static struct ck_pool_device *find_gpu(struct ck_device_pool *all,
				       const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < all->n; i++)
		if (memcmp(all->list[i].device->uuid.bytes, uuid, 16) == 0)
			return &all->list[i];
	return NULL;
}

static int allocate(struct ck_gpu *is, const uint8_t uuid[16], uint64_t bytes,
		    bool with_file, struct ck_gpu_memory *out)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;
	struct ck_pool_device *g = find_gpu(all, uuid);
	int rc;

	if (!g)
		return -ENODEV;
	*out = (struct ck_gpu_memory){ .gpu = (uint32_t)(g - all->list),
				       .file = -1 };
	rc = ck_device_use(g->device);
	if (rc == 0)
		rc = with_file
			     ? ck_shared_memory_map(g->device, bytes, out)
			     : ck_shared_memory_allocate(g->device, bytes, out);
	if (ck_device_is_lost(g->device))
		ck_device_pool_lose(all, g, "an allocation");
	return rc;
}

/* After a device error a round may still write to device memory. */
static bool may_be_written(const struct ck_device_pool *all)
{
	return all->member && *all->trouble.text;
}

static void release(struct ck_gpu *is, struct ck_gpu_memory *m)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;
	struct ck_device *device = all->list[m->gpu].device;

	if (may_be_written(all))
		return;
	(void)ck_device_use(device);
	ck_shared_memory_free(device, m);
}

/* --- rounds ------------------------------------------------------------------------------ */

/* Cancels staged requests. Requests that have proceeded are complete; they are
 * reported by done(). */
static bool leave(struct ck_gpu *is)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;
	struct ck_gpu_work *w;

	if (!all->member || all->stuck)
		return !all->stuck;
	(void)ck_device_use(all->list[0].device);
	ck_device_settle(all->list[0].device);
	while ((w = ck_device_pool_member_done(all)))
		ck_device_pool_refuse(all, w, w->rc);
	all->stuck = !ck_endpoint_free(all->member);
	if (all->stuck)
		ck_device_pool_lose(all, &all->list[0], "NCCL does not return");
	else
		all->member = NULL;
	return !all->stuck;
}

static int join(struct ck_gpu *is, uint32_t rank, uint8_t *memory, size_t size,
		struct ck_round_backend **out, struct ck_diag *d)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;
	const struct ck_endpoint_options options = { .rank = rank,
						     .memory = memory,
						     .size = size,
						     .slot = all->slot,
						     .tiles = CK_POOL_TILES };
	int rc;

	if (!leave(is) || *all->trouble.text)
		return ck_fail(d, EIO, "%s", all->trouble.text);
	(void)ck_device_use(all->list[0].device);
	rc = ck_endpoint_make(all->list[0].device, &options, &all->member, d);
	if (rc)
		return rc;
	(void)snprintf(is->nccl, sizeof(is->nccl), "%s",
		       ck_endpoint_nccl(all->member));
	*out = ck_endpoint_backend(all->member);
	return 0;
}

/* Returns rc, or -EIO if the endpoint's device has failed. */
static int checked(struct ck_device_pool *all, int rc)
{
	ck_device_pool_check_member(all);
	return *all->trouble.text ? -EIO : rc;
}

static int is_up(struct ck_gpu *is)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;

	return checked(all, ck_endpoint_is_up(all->member));
}

/* Makes the first device current. False if the pool has failed: then the device
 * must not be used. */
static bool may_ask(struct ck_device_pool *all)
{
	if (*all->trouble.text)
		return false;
	(void)ck_device_use(all->list[0].device);
	return true;
}

static int stage(struct ck_gpu *is, struct ck_gpu_work *w)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;

	if (!may_ask(all))
		return -EIO;
	if (w->to && w->to->gpu > 0)
		return -ENODEV;
	return checked(all, ck_endpoint_stage(all->member, w));
}

static int is_staged(struct ck_gpu *is, struct ck_gpu_work *w)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;

	if (!may_ask(all))
		return -EIO;
	return checked(all, ck_endpoint_is_staged(all->member, w));
}

static void proceed(struct ck_gpu *is, struct ck_gpu_work *w, int rc)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;

	if (rc == 0 && *all->trouble.text)
		rc = -EIO;
	(void)ck_device_use(all->list[0].device);
	ck_endpoint_proceed(all->member, w, rc);
	ck_device_pool_check_member(all);
}

static int pack(struct ck_gpu *is, const uint8_t *from, uint64_t bytes,
		struct ck_gpu_parcel **out)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;

	if (!may_ask(all))
		return -EIO;
	return checked(all, ck_endpoint_pack(all->member, from, bytes, out));
}

static int is_packed(struct ck_gpu *is, struct ck_gpu_parcel *p)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;

	if (!may_ask(all))
		return -EIO;
	return checked(all, ck_endpoint_is_packed(all->member, p));
}

static void unpack(struct ck_gpu *is, struct ck_gpu_parcel *p)
{
	(void)is;
	ck_endpoint_unpack(p);
}

/* --- creation and end ----------------------------------------------------- */

static void gpu_close(struct ck_pool_device *g)
{
	if (!g->device)
		return;
	(void)ck_device_use(g->device);
	ck_pipe_fini(&g->pipe);
	ck_tiles_fini(&g->tiles);
	ck_device_close(g->device);
}

/* Memory that may still be written is not freed; the process ends soon. */
static void close_all(struct ck_gpu *is)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;

	if (may_be_written(all) || !leave(is))
		return;
	if (all->pinned) {
		(void)ck_device_use(all->list[0].device);
		for (uint32_t i = 0; i < all->n; i++)
			ck_device_settle(all->list[i].device);
		(void)all->cuda.cuMemHostUnregister(all->pinned);
	}
	for (uint32_t i = 0; i < all->n; i++)
		gpu_close(&all->list[i]);
	ck_cuda_unload(&all->cuda);
	free(all);
}

static int gpu_open(struct ck_device_pool *all, int ordinal, struct ck_diag *d)
{
	struct ck_pool_device *g = &all->list[all->n];
	const struct ck_pipe_sizes sizes = {
		.slot = all->slot,
		.pinned = CK_POOL_REQUESTS,
		.device = CK_POOL_REQUESTS,
		.tiles = CK_POOL_TILES,
	};
	int rc = ck_device_open(&all->cuda, ordinal, &g->device, d);

	if (rc)
		return rc;
	all->n++;
	return ck_pipe_make(g->device, &sizes, &g->pipe, d);
}

static int open_devices(struct ck_device_pool *all, struct ck_diag *d)
{
	const struct ck_gpu_options *options = &all->options;
	int there, rc = ck_device_count(&all->cuda, &there, d);
	uint32_t n = options->n;

	if (rc)
		return rc;
	if (n == 0)
		n = (uint32_t)ck_min((uint64_t)there, CK_GPUS_MOST);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		uint32_t ordinal = options->n ? options->devices[i] : i;

		if (ordinal >= (uint32_t)there)
			return ck_fail(d, ENODEV,
				       "GPU %u: there is none; there are %d",
				       ordinal, there);
		rc = gpu_open(all, (int)ordinal, d);
	}
	return rc;
}

static int pin(struct ck_device_pool *all, struct ck_diag *d)
{
	struct ck_device *first = all->list[0].device;

	(void)ck_device_use(first);
	return ck_device_pin(first, all->options.memory, all->options.size,
			     &all->pinned, d);
}

static void name_devices(struct ck_device_pool *all)
{
	size_t at = 0, size = sizeof(all->is.devices);

	for (uint32_t i = 0; i < all->n && at < size; i++) {
		const struct ck_device *g = all->list[i].device;
		int n = snprintf(all->is.devices + at, size - at, "%s%d %s",
				 i ? ", " : "", g->ordinal, g->name);

		at += n < 0 ? 0 : (size_t)n;
	}
}

int ck_gpu_open(const struct ck_gpu_options *options, struct ck_gpu **out,
		struct ck_diag *d)
{
	struct ck_device_pool *all = calloc(1, sizeof(*all));
	int rc;

	if (!all)
		return ck_fail(d, ENOMEM, "out of memory");
	all->is = (struct ck_gpu){ .start = ck_device_pool_start,
				   .done = ck_device_pool_done,
				   .trouble = trouble,
				   .allocate = allocate,
				   .release = release,
				   .join = join,
				   .leave = leave,
				   .is_up = is_up,
				   .stage = stage,
				   .is_staged = is_staged,
				   .proceed = proceed,
				   .pack = pack,
				   .is_packed = is_packed,
				   .unpack = unpack,
				   .close = close_all };
	all->refused_end = &all->refused;
	all->options = *options;
	all->slot = options->room + CK_POOL_TILES;
	rc = ck_cuda_load(&all->cuda, d);
	if (rc) {
		free(all);
		return rc;
	}
	rc = open_devices(all, d);
	if (rc == 0)
		rc = pin(all, d);
	if (rc) {
		close_all(&all->is);
		return rc;
	}
	name_devices(all);
	all->is.n = all->n;
	*out = &all->is;
	return 0;
}
