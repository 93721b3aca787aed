/* SPDX-License-Identifier: MIT */
/*
 * pipe: moves batches through a device: bytes are copied up, kernels gather
 * them, and the result is copied down:
 *
 *	filled by the host -> staging -> kernels -> gathered -> read by the host
 *	 pinned           up   device    work      device  down  pinned
 *
 * Several batches are in flight, each with a slot of each ring. A split batch
 * is copied up first and sent later; in between, other bytes are written to its
 * staging slot, for example by NCCL. One thread, which never blocks here.
 */
#ifndef CK_PIPE_H
#define CK_PIPE_H

#include "kernel_launch.h"
#include "ring.h"

struct ck_pipe {
	struct ck_device *device;
	struct ck_ring filled, staging, gathered, read;
};

/* Sizes of the rings. */
struct ck_pipe_sizes {
	size_t slot; /* bytes of a batch in each ring, including its tiles */
	uint32_t pinned, device; /* slots of each pinned and each device ring */
	/* Bytes of a pinned slot if all batches have pinned memory of their
	 * own, so that slots hold only tiles. 0 if they do not. */
	size_t tiles;
};

/* A batch. Zero-initialise for each use. */
struct ck_pipe_batch {
	/* Set before ck_pipe_take() by callers that have pinned memory: source
	 * and destination on the host; else NULL. */
	const uint8_t *from;
	uint8_t *to;
	bool split; /* two steps: see ck_pipe_upload() */
	/* Set by ck_pipe_take(), valid until ck_pipe_send(): the caller fills
	 * `fill`. Tiles read from `staged`, where these bytes will be, and
	 * write to `result`. */
	uint8_t *fill;
	size_t size; /* capacity of fill and staged, bytes */
	CUdeviceptr staged, result;
	struct ck_tiles *tiles;
	/* Set when the batch is done, until ck_pipe_put(): the result, in `to`
	 * if that is set. */
	const uint8_t *bytes;
	/* Private: */
	struct ck_slot *filled, *staging, *gathered, *read;
};

/* Returns 0, or errors of ck_ring_make() with a message. On errors nothing is
 * left. */
CK_MUST_USE int ck_pipe_make(struct ck_device *g,
			     const struct ck_pipe_sizes *sizes,
			     struct ck_pipe *out, struct ck_diag *d);
/* Slots may be reused in any order, because batches do not complete in
 * order. */
void ck_pipe_disorder(struct ck_pipe *p);
/* Waits for the device, and frees the pipe. A zeroed pipe is allowed. */
void ck_pipe_fini(struct ck_pipe *p);

/* Takes the slots of a batch. result: device address of the caller for the
 * result, which is not copied down; 0: a slot. Returns 0, or: -EAGAIN if slots
 * are in use: the free ones stay with the batch, which must be retried before
 * another one; errors of ck_device_check(). */
CK_MUST_USE int ck_pipe_take(struct ck_pipe *p, CUdeviceptr result,
			     struct ck_pipe_batch *b);
/* Step 1 of a split batch: copies `bytes` bytes of `from` up, unless that is
 * NULL. Returns as ck_device_check(). */
CK_MUST_USE int ck_pipe_upload(struct ck_pipe *p, struct ck_pipe_batch *b,
			       size_t bytes);
/* Returns 1 if they have arrived, so that other bytes may be written to
 * `staged`; 0 if not yet; or errors of ck_device_check(). */
CK_MUST_USE int ck_pipe_is_uploaded(struct ck_pipe *p, struct ck_pipe_batch *b);
/* Cancels a split batch: it is done when the device no longer uses `from`. */
void ck_pipe_drop(struct ck_pipe_batch *b);
/* Starts kernels and copies of a batch. filled: bytes filled, or written to
 * `staged`; down: bytes of the result. Returns 0; -E2BIG if the tiles do not
 * fit behind the bytes, and nothing was done; or errors of ck_device_check(),
 * after which the device must not be used for this batch. The tiles may be
 * reused when it returns. */
CK_MUST_USE int ck_pipe_send(struct ck_pipe *p, struct ck_pipe_batch *b,
			     size_t filled, size_t down);
/* Returns 1 if the batch is done; 0 if not yet; or errors of
 * ck_device_check(). */
CK_MUST_USE int ck_pipe_is_done(struct ck_pipe *p, struct ck_pipe_batch *b);
/* Releases the result of a batch. Any thread. */
void ck_pipe_put(struct ck_pipe_batch *b);

#endif
