/* SPDX-License-Identifier: MIT */
/*
 * pipe: bytes go up to the device in batches, kernels put them where they belong, and what was
 * asked for comes down again:
 *
 *	filled by the host -> staging -> kernels -> gathered -> read by the host
 *	 pinned           up   device    work      device  down  pinned
 *
 * Several batches are on their way at once, each in a slot of each ring. A split one goes up
 * first, and comes down later: in between other bytes of it come to the staging, from wherever.
 * One thread, which waits for nothing in here.
 */
#ifndef CK_PIPE_H
#define CK_PIPE_H

#include "kernel_launch.h"
#include "ring.h"

struct ck_pipe {
	struct ck_device *device;
	struct ck_ring filled, staging, gathered, read;
};

/* How much memory is taken. */
struct ck_pipe_sizes {
	size_t slot; /* bytes of a batch in each ring, with what its tiles take */
	uint32_t pinned, device; /* slots of each ring there */
	/* Bytes of a pinned slot, which has only tiles then, since all batches have pinned
	 * memory of their own; 0: they have none. */
	size_t tiles;
};

/* What goes through at once. Zero-initialise for each. */
struct ck_pipe_batch {
	/* Set before it is taken, by those who have such memory: pinned bytes that go up,
	 * and where bytes come down. Else NULL. */
	const uint8_t *from;
	uint8_t *to;
	bool split; /* see ck_pipe_bring() */
	/* From ck_pipe_take() until ck_pipe_send(), the caller's to fill. Tiles go from
	 * `staged` on, where the bytes of `fill` will be, to `result`. */
	uint8_t *fill;
	size_t size; /* bytes that may be filled, or go up, or come there */
	CUdeviceptr staged, result;
	struct ck_tiles *tiles;
	/* From when it is done until ck_pipe_put(): what came down, in `to` if there
	 * is one. */
	const uint8_t *bytes;
	/* Private: */
	struct ck_slot *filled, *staging, *gathered, *read;
};

CK_MUST_USE int ck_pipe_make(struct ck_device *g,
			     const struct ck_pipe_sizes *sizes,
			     struct ck_pipe *out, struct ck_diag *d);
/* Batches do not end in the order in which they begin. */
void ck_pipe_disorder(struct ck_pipe *p);
/* Waits for what is on its way. A pipe of zeros is allowed. */
void ck_pipe_fini(struct ck_pipe *p);

/* A slot of each ring. result: where the tiles go, memory of the device that is the
 * caller's: nothing comes down then; 0: a slot. -EAGAIN: some are in use, and those that
 * are not are kept for the batch: call it again before any other one. As of
 * ck_device_check(). */
CK_MUST_USE int ck_pipe_take(struct ck_pipe *p, CUdeviceptr result,
			     struct ck_pipe_batch *b);
/* Of a batch that is split, and has no `fill`: so many bytes of `from` go up, if it is not
 * NULL. As of ck_device_check(). */
CK_MUST_USE int ck_pipe_bring(struct ck_pipe *p, struct ck_pipe_batch *b,
			      size_t bytes);
/* 1: they are there, and other bytes may come to `staged`; 0: not yet. As of
 * ck_device_check(). */
CK_MUST_USE int ck_pipe_is_brought(struct ck_pipe *p, struct ck_pipe_batch *b);
/* Nothing is to come of what was brought: it is done as soon as the device does not use `from`
 * any more. */
void ck_pipe_drop(struct ck_pipe_batch *b);
/* So many bytes were filled, or have come to `staged`, and so many are to come down. -E2BIG: the tiles have no room
 * behind them; nothing was done then. Else all that is needed was asked of the device, or
 * an error as of ck_device_check(), after which the device is not used any more for this
 * batch. The tiles are not needed any more. */
CK_MUST_USE int ck_pipe_send(struct ck_pipe *p, struct ck_pipe_batch *b,
			     size_t filled, size_t down);
/* 1: its result is there; 0: not yet. As of ck_device_check(). */
CK_MUST_USE int ck_pipe_is_done(struct ck_pipe *p, struct ck_pipe_batch *b);
/* The bytes that came down are not needed any more. Any thread. */
void ck_pipe_put(struct ck_pipe_batch *b);

#endif
