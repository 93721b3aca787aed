/* SPDX-License-Identifier: MIT */
/*
 * device_pool: all devices of this process, each with a pipe and a queue of
 * gather requests, behind struct ck_gpu (gpu.h). device_pool.c has the queues,
 * gpu.c all other functions. One thread.
 */
#ifndef CK_DEVICE_POOL_H
#define CK_DEVICE_POOL_H

#include "gpu/driver/pipe.h"
#include "gpu/gpu.h"

enum {
	CK_POOL_REQUESTS = 8,	 /* requests in flight on a device */
	CK_POOL_TILES = 1 << 19, /* bytes for the tiles of a request */
};

struct ck_pool_request {
	struct ck_gpu_work *work;
	struct ck_pipe_batch batch;
};

struct ck_pool_device {
	struct ck_device *device;
	struct ck_pipe pipe;
	struct ck_tiles tiles;
	struct ck_pipe_batch next; /* slots taken for the next batch */
	struct ck_pool_request requests[CK_POOL_REQUESTS]; /* a queue */
	uint32_t first, n;
};

struct ck_device_pool {
	struct ck_gpu is; /* first */
	struct ck_cuda cuda;
	struct ck_pool_device list[CK_GPUS_MOST];
	uint32_t n;
	struct ck_endpoint *member; /* NULL if not joined to a job */
	bool stuck;  /* NCCL does not return from the endpoint's end */
	size_t slot; /* bytes of a request with its tiles */
	void *pinned;
	struct ck_gpu_work *refused, **refused_end;
	struct ck_gpu_options options;
	struct ck_diag trouble;
};

/* Marks the pool as failed, with `what` and the device's error as reason: no
 * device is used any more. Later calls have no effect. */
void ck_device_pool_lose(struct ck_device_pool *all,
			 const struct ck_pool_device *g, const char *what);
/* Completes a request with rc; done() returns it. */
void ck_device_pool_refuse(struct ck_device_pool *all, struct ck_gpu_work *w,
			   int rc);
/* Marks the pool as failed if the endpoint's device has failed. */
void ck_device_pool_check_member(struct ck_device_pool *all);
/* A completed request of the endpoint; NULL if no request is complete. */
struct ck_gpu_work *ck_device_pool_member_done(struct ck_device_pool *all);
/* start() and done() of struct ck_gpu. */
int ck_device_pool_start(struct ck_gpu *is, struct ck_gpu_work *w);
struct ck_gpu_work *ck_device_pool_done(struct ck_gpu *is);

#endif
