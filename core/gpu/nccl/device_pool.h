/* SPDX-License-Identifier: MIT */
/*
 * device_pool: all devices of this process, each with a pipe, behind struct ck_gpu: device_pool.c (works),
 * gpu.c (all else).
 */
#ifndef CK_DEVICE_POOL_H
#define CK_DEVICE_POOL_H

#include "ckptfs/gpu.h"
#include "pipe.h"

enum {
	CK_CARD_WAYS = 8,	 /* works on a device at a time */
	CK_CARD_TILES = 1 << 19, /* for the tiles of one */
};

struct ck_card_way {
	struct ck_gpu_work *work;
	struct ck_pipe_batch batch;
};

struct ck_card {
	struct ck_device *device;
	struct ck_pipe pipe;
	struct ck_tiles tiles;
	struct ck_pipe_batch next; /* what was taken for the next one */
	struct ck_card_way ways[CK_CARD_WAYS]; /* a queue */
	uint32_t first, n;
};

struct ck_device_pool {
	struct ck_gpu is; /* first */
	struct ck_cuda cuda;
	struct ck_card list[CK_GPUS_MOST];
	uint32_t n;
	struct ck_endpoint *member; /* NULL: it did not join */
	bool stuck;		    /* NCCL does not let go of that */
	size_t slot;		    /* bytes, of a work with its tiles */
	void *pinned;
	struct ck_gpu_work *refused, **refused_end;
	struct ck_gpu_options options;
	struct ck_diag trouble;
};

/* The device is lost, or does what it must not: it is not used any more. */
void ck_device_pool_lose(struct ck_device_pool *all, const struct ck_card *g,
			 const char *what);
/* It is done with that. */
void ck_device_pool_refuse(struct ck_device_pool *all, struct ck_gpu_work *w,
			   int rc);
/* With what the member's device was asked for all is well, or it is not used any more. */
void ck_device_pool_check_member(struct ck_device_pool *all);
struct ck_gpu_work *ck_device_pool_member_done(struct ck_device_pool *all);
/* Functions of struct ck_gpu. */
int ck_device_pool_start(struct ck_gpu *is, struct ck_gpu_work *w);
struct ck_gpu_work *ck_device_pool_done(struct ck_gpu *is);

#endif
