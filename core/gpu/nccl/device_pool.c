/* SPDX-License-Identifier: MIT */
/*
 * device_pool: a queue of works for each device. A work whose result goes to the memory of a device is
 * started there, any other work on the device with the shortest queue. Each queue is checked for
 * completed works in the order in which they were started. One thread.
 */
#include "device_pool.h"
#include "endpoint.h"
#include "gpu/driver/kernel_launch.h"

#include <errno.h>
#include <stdio.h>

void ck_device_pool_refuse(struct ck_device_pool *all, struct ck_gpu_work *w,
			   int rc)
{
	w->rc = rc;
	w->next = NULL;
	*all->refused_end = w;
	all->refused_end = &w->next;
}

/* Marks the pool as failed, for the first reason only: no device is used any
 * more. */
void ck_device_pool_lose(struct ck_device_pool *all,
			 const struct ck_pool_device *g, const char *what)
{
	const struct ck_device *device = g->device;
	CUresult lost = (CUresult)__atomic_load_n(&device->lost,
						  __ATOMIC_ACQUIRE);

	if (*all->trouble.text)
		return;
	(void)ck_fail(&all->trouble, EIO, "GPU %d: %s: %s", device->ordinal,
		      what, lost ? ck_cuda_error(&all->cuda, lost) : "failed");
}

/* Queues a request, also after an error: the device may have begun with it, and
 * whether it still uses the memory is known only at the end of the process. */
static void push(struct ck_device_pool *all, struct ck_pool_device *g,
		 struct ck_gpu_work *w, int rc)
{
	g->requests[(g->first + g->n++) % CK_POOL_REQUESTS] =
		(struct ck_pool_request){ .work = w, .batch = g->next };
	g->next = (struct ck_pipe_batch){ 0 };
	if (rc)
		ck_device_pool_lose(all, g, "a gathering");
}

/* Returns 0 if the request was sent or has completed, -EAGAIN if there is no
 * slot. */
static int send(struct ck_device_pool *all, struct ck_pool_device *g,
		struct ck_gpu_work *w)
{
	int rc;

	g->next.from = w->fill;
	g->next.to = w->to ? NULL : w->result;
	g->next.tiles = &g->tiles;
	rc = ck_pipe_take(&g->pipe, w->to ? w->to->at + w->to_at : 0, &g->next);
	if (rc == -EAGAIN)
		return rc;
	if (rc) {
		ck_device_pool_lose(all, g, "memory that was used before");
		ck_device_pool_refuse(all, w, -EIO);
		return 0;
	}
	rc = ck_work_tiles(w, g->next.staged, g->next.result, &g->tiles);
	if (rc) {
		ck_device_pool_refuse(all, w, rc == -EOVERFLOW ? rc : -EIO);
		return 0;
	}
	rc = ck_pipe_send(&g->pipe, &g->next, w->filled, w->results);
	if (rc == -E2BIG)
		ck_device_pool_refuse(all, w, -EOVERFLOW);
	else
		push(all, g, w, rc);
	return 0;
}

static int send_to(struct ck_device_pool *all, struct ck_pool_device *g,
		   struct ck_gpu_work *w)
{
	if (g->n == CK_POOL_REQUESTS)
		return -EAGAIN;
	(void)ck_device_use(g->device);
	return send(all, g, w);
}

int ck_device_pool_start(struct ck_gpu *is, struct ck_gpu_work *w)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;
	struct ck_pool_device *least = &all->list[w->to ? w->to->gpu : 0];

	if (*all->trouble.text) {
		ck_device_pool_refuse(all, w, -EIO);
		return 0;
	}
	for (uint32_t i = 0; i < all->n && !w->to; i++)
		if (all->list[i].n < least->n)
			least = &all->list[i];
	return send_to(all, least, w);
}

/* Returns the first request of a queue if it has completed. After a device
 * error all have. */
static struct ck_gpu_work *first_done(struct ck_device_pool *all,
				      struct ck_pool_device *g)
{
	struct ck_pool_request *request = &g->requests[g->first];
	struct ck_gpu_work *w = request->work;
	int rc = 1;

	if (g->n == 0)
		return NULL;
	if (!*all->trouble.text) {
		(void)ck_device_use(g->device);
		rc = ck_pipe_is_done(&g->pipe, &request->batch);
	}
	if (rc == 0)
		return NULL;
	if (rc < 0)
		ck_device_pool_lose(all, g, "a gathering");
	ck_pipe_put(&request->batch);
	w->rc = *all->trouble.text ? -EIO : 0;
	g->first = (g->first + 1) % CK_POOL_REQUESTS;
	g->n--;
	return w;
}

/* Marks the pool as failed if the endpoint's device has. */
void ck_device_pool_check_member(struct ck_device_pool *all)
{
	if (ck_endpoint_is_broken(all->member))
		ck_device_pool_lose(all, &all->list[0], "rounds");
}

struct ck_gpu_work *ck_device_pool_member_done(struct ck_device_pool *all)
{
	struct ck_gpu_work *w;

	if (!all->member)
		return NULL;
	(void)ck_device_use(all->list[0].device);
	w = ck_endpoint_done(all->member, *all->trouble.text);
	ck_device_pool_check_member(all);
	return w;
}

struct ck_gpu_work *ck_device_pool_done(struct ck_gpu *is)
{
	struct ck_device_pool *all = (struct ck_device_pool *)is;
	struct ck_gpu_work *w;

	w = all->refused;
	if (w) {
		all->refused = w->next;
		if (!all->refused)
			all->refused_end = &all->refused;
		return w;
	}
	w = ck_device_pool_member_done(all);
	for (uint32_t i = 0; i < all->n && !w; i++)
		w = first_done(all, &all->list[i]);
	return w;
}
