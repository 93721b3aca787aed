/* SPDX-License-Identifier: MIT */
/*
 * endpoint: staged gather requests, parcels and the round backend of one rank.
 * A request is staged, proceeds when its round has ended, and is then a batch
 * of the pipe until it is done. State `broken`: a call of the driver has
 * failed; nothing on the device can be relied on. One thread.
 */
#include "endpoint.h"
#include "gpu/driver/kernel_launch.h"
#include "gpu/driver/pipe.h"
#include "nccl_rounds.h"

#include <errno.h>

enum { ROOMS = 8, PARCELS = 4 };

/* A request from staging until it is done. */
struct job {
	struct ck_gpu_work *work; /* NULL if free */
	struct ck_pipe_batch batch;
	int rc;
};

struct parcel {
	struct ck_gpu_parcel is; /* first */
	struct ck_slot *slot;	 /* NULL if free */
};

struct ck_endpoint {
	struct ck_device *device;
	struct ck_nccl_rounds *rounds;
	struct ck_pipe pipe;
	struct ck_tiles tiles;
	struct ck_pipe_batch next; /* slots taken for the next batch */
	struct job jobs[ROOMS];
	struct ck_gpu_work *first, **end; /* requests that have proceeded */
	struct ck_ring memory;		  /* slots of the parcels */
	struct parcel parcels[PARCELS];
	void *pinned;
	bool broken;
};

bool ck_endpoint_is_broken(const struct ck_endpoint *m)
{
	return m->broken || ck_device_is_lost(m->device) ||
	       m->rounds->is_broken(m->rounds);
}

/* Marks the endpoint as broken if rc is an error. Returns rc, errors as
 * -EIO. */
static int check(struct ck_endpoint *m, int rc)
{
	m->broken |= rc < 0;
	return rc < 0 ? -EIO : rc;
}

/* --- works ----------------------------------------------------------------------------- */

static struct job *free_job(struct ck_endpoint *m)
{
	for (unsigned i = 0; i < ROOMS; i++)
		if (!m->jobs[i].work)
			return &m->jobs[i];
	return NULL;
}

int ck_endpoint_stage(struct ck_endpoint *m, struct ck_gpu_work *w)
{
	struct job *job = free_job(m);
	int rc;

	if (!job)
		return -EAGAIN;
	m->next.split = true;
	m->next.from = w->fill;
	m->next.to = w->to ? NULL : w->result;
	rc = ck_pipe_take(&m->pipe, w->to ? w->to->at + w->to_at : 0, &m->next);
	if (rc == -EAGAIN)
		return rc;
	if (rc == 0 && w->filled > m->next.size)
		return -E2BIG;
	if (rc == 0)
		rc = ck_pipe_upload(&m->pipe, &m->next, w->filled);
	if (rc)
		return check(m, rc);
	*job = (struct job){ .work = w, .batch = m->next };
	m->next = (struct ck_pipe_batch){ 0 };
	w->private_data = job;
	w->staged = job->batch.staged;
	return 0;
}

int ck_endpoint_is_up(struct ck_endpoint *m)
{
	return m->rounds->is_ready(m->rounds);
}

/* Returns rc, or the state of the communicator if rc is 1. */
static int is_there(struct ck_endpoint *m, int rc)
{
	rc = check(m, rc);
	return rc == 1 ? ck_endpoint_is_up(m) : rc;
}

int ck_endpoint_is_staged(struct ck_endpoint *m, struct ck_gpu_work *w)
{
	struct job *job = w->private_data;

	return is_there(m, ck_pipe_is_uploaded(&m->pipe, &job->batch));
}

static int go_on(struct ck_endpoint *m, struct job *job)
{
	const struct ck_gpu_work *w = job->work;
	int rc = ck_work_tiles(w, job->batch.staged, job->batch.result,
			       &m->tiles);

	if (rc)
		return rc == -EOVERFLOW ? rc : -EIO;
	job->batch.tiles = &m->tiles;
	rc = ck_pipe_send(&m->pipe, &job->batch, w->filled, w->results);
	return rc == -E2BIG ? -EOVERFLOW : check(m, rc);
}

void ck_endpoint_proceed(struct ck_endpoint *m, struct ck_gpu_work *w, int rc)
{
	struct job *job = w->private_data;

	job->rc = rc ? rc : go_on(m, job);
	if (job->rc)
		ck_pipe_drop(&job->batch);
	w->next = NULL;
	*m->end = w;
	m->end = &w->next;
}

struct ck_gpu_work *ck_endpoint_done(struct ck_endpoint *m, bool broken)
{
	struct ck_gpu_work *w = m->first;
	struct job *job;
	int rc = 1;

	if (!w)
		return NULL;
	job = w->private_data;
	if (!broken)
		rc = check(m, ck_pipe_is_done(&m->pipe, &job->batch));
	if (rc == 0)
		return NULL;
	ck_pipe_put(&job->batch);
	w->rc = job->rc;
	if (w->rc == 0 && (broken || rc < 0))
		w->rc = -EIO;
	m->first = w->next;
	if (!m->first)
		m->end = &m->first;
	*job = (struct job){ 0 };
	w->private_data = NULL;
	return w;
}

/* --- parcels ----------------------------------------------------------------------------- */

static struct parcel *free_parcel(struct ck_endpoint *m)
{
	for (unsigned i = 0; i < PARCELS; i++)
		if (!m->parcels[i].slot)
			return &m->parcels[i];
	return NULL;
}

static CUresult fill(const struct ck_device *g, CUdeviceptr to,
		     const uint8_t *from, uint64_t bytes)
{
	CUstream up = g->streams[CK_GPU_STREAM_UP];

	if (bytes == 0)
		return CUDA_SUCCESS;
	return from ? g->cuda->cuMemcpyHtoDAsync(to, from, bytes, up)
		    : g->cuda->cuMemsetD8Async(to, 0, bytes, up);
}

int ck_endpoint_pack(struct ck_endpoint *m, const uint8_t *from, uint64_t bytes,
		     struct ck_gpu_parcel **out)
{
	struct parcel *p = free_parcel(m);
	struct ck_slot *slot;
	int rc;

	if (bytes > CK_GPU_PARCEL)
		return -E2BIG;
	rc = p ? ck_ring_take(&m->memory, &slot) : -EAGAIN;
	if (rc == -EAGAIN)
		return rc;
	if (rc == 0)
		rc = ck_device_check(
			m->device, fill(m->device, slot->device, from, bytes));
	if (rc == 0)
		rc = ck_slot_mark(&m->memory, slot, CK_GPU_STREAM_UP);
	if (rc)
		return check(m, rc);
	*p = (struct parcel){ .is = { slot->device, bytes }, .slot = slot };
	*out = &p->is;
	return 0;
}

int ck_endpoint_is_packed(struct ck_endpoint *m, struct ck_gpu_parcel *p)
{
	struct ck_slot *slot = ((struct parcel *)p)->slot;

	return is_there(m, ck_slot_is_done(&m->memory, slot));
}

void ck_endpoint_unpack(struct ck_gpu_parcel *is)
{
	struct parcel *p = (struct parcel *)is;

	ck_slot_release(p->slot);
	*p = (struct parcel){ 0 };
}

/* --- creation and end ----------------------------------------------------- */

static int make_rounds(struct ck_endpoint *m, uint32_t rank, struct ck_diag *d)
{
#ifdef CK_WITH_NCCL
	return ck_nccl_rounds_make(m->device, rank, &m->rounds, d);
#else
	(void)m;
	(void)rank;
	return ck_fail(d, ENOSYS, "this was built without NCCL");
#endif
}

static int make(struct ck_endpoint *m,
		const struct ck_endpoint_options *options, struct ck_diag *d)
{
	const struct ck_pipe_sizes sizes = { .slot = options->slot,
					     .pinned = ROOMS,
					     .device = ROOMS,
					     .tiles = options->tiles };
	int rc = make_rounds(m, options->rank, d);

	if (rc == 0)
		rc = ck_pipe_make(m->device, &sizes, &m->pipe, d);
	if (rc == 0)
		rc = ck_ring_make(m->device, CK_RING_DEVICE, PARCELS,
				  CK_GPU_PARCEL, &m->memory, d);
	ck_pipe_disorder(&m->pipe);
	m->memory.any = true;
	if (rc)
		return rc;
	return ck_device_pin(m->device, options->memory, options->size,
			     &m->pinned, d);
}

int ck_endpoint_make(struct ck_device *g,
		     const struct ck_endpoint_options *options,
		     struct ck_endpoint **out, struct ck_diag *d)
{
	struct ck_endpoint *m = calloc(1, sizeof(*m));
	int rc;

	*out = NULL;
	if (!m)
		return ck_fail(d, ENOMEM, "out of memory");
	m->device = g;
	m->end = &m->first;
	rc = make(m, options, d);
	if (rc == 0)
		*out = m;
	else if (!ck_endpoint_free(m))
		return -EIO;
	return rc;
}

bool ck_endpoint_free(struct ck_endpoint *m)
{
	if (m->rounds && !m->rounds->end(m->rounds))
		return false;
	ck_device_settle(m->device);
	if (m->pinned)
		(void)m->device->cuda->cuMemHostUnregister(m->pinned);
	ck_pipe_fini(&m->pipe);
	ck_ring_fini(&m->memory);
	ck_tiles_fini(&m->tiles);
	free(m);
	return true;
}

struct ck_round_backend *ck_endpoint_backend(struct ck_endpoint *m)
{
	return &m->rounds->backend;
}

const char *ck_endpoint_nccl(const struct ck_endpoint *m)
{
	return m->rounds->nccl;
}
