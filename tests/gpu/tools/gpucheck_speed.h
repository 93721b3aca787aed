/* SPDX-License-Identifier: MIT */
/*
 * gpucheck_speed: measures work of a device, with its buffers.
 */
#ifndef CK_GPUCHECK_SPEED_H
#define CK_GPUCHECK_SPEED_H

#include "gpucheck.h"

enum {
	CK_SPEED_PINNED = 32 << 20,
	CK_SPEED_AREA =
		16
		<< 20, /* part of a result that is filled before the next one */
};

struct ck_speed {
	struct ck_gpucheck *check;
	struct ck_device *device;
	const struct ck_cuda *cuda;
	uint8_t *up, *down;   /* CK_SPEED_PINNED bytes each, pinned */
	CUdeviceptr src, dst; /* of `size` bytes */
	size_t size;
	struct ck_tiles tiles;
	CUdeviceptr lists;	 /* of tiles */
	struct ck_placed placed; /* offsets of the lists */
	struct ck_pipe pipe;
	struct ck_engines *engines;
};

/* Submits work to the device. */
typedef int ck_speed_work(struct ck_speed *s);

/* Waits for all submitted work of a set of 1 << enum ck_gpu_stream. */
CK_MUST_USE int ck_speed_wait(struct ck_speed *s, unsigned ways);
/* GB/s of work on `bytes` bytes; 0, and a failed check, if the work fails. */
double ck_speed_rate(struct ck_speed *s, const char *what, ck_speed_work *once,
		     unsigned ways, double bytes);

/* --- gpucheck_runs.c --------------------------------------------------------------------- */

/* The runs of a gather of two shards. The shards begin at the halves of src, and their runs are
 * contiguous in dst, in turn: run i of dst is run i / 2 of shard i % 2. */
struct ck_runs {
	size_t run, n; /* n is even, n * run at most half of `size` */
	size_t off;    /* byte offset of a shard in its half */
};

CUdeviceptr ck_runs_from(const struct ck_speed *s, const struct ck_runs *r,
			 size_t i);
CUdeviceptr ck_runs_to(const struct ck_speed *s, const struct ck_runs *r,
		       size_t i);
/* Fills src with bytes that identify their offset. Uses up. */
CK_MUST_USE int ck_runs_fill(struct ck_speed *s);
/* Fills dst with bytes that differ from those of the runs. */
CK_MUST_USE int ck_runs_begin(struct ck_speed *s);
/* Prints the figure of a way of moving the runs, or a failed check if dst is wrong: compares the
 * first runs, the last ones, and the bytes behind them. Uses up and down. */
void ck_runs_say(struct ck_speed *s, const struct ck_runs *r, const char *check,
		 double gbps);

/* --- gpucheck_engines.c ------------------------------------------------------------------ */

struct ck_engines; /* opaque */

/* NULL, and a failed check, if the copies cannot be measured. Reports calls that the driver lacks
 * as skipped checks. src must be filled. */
struct ck_engines *ck_engines_make(struct ck_speed *s);
/* Measures the runs that kernels move, but as many as fit into a short time, and compares the
 * result. Uses up, down and dst. */
void ck_engines_check(struct ck_engines *e, size_t run);
/* NULL is allowed. */
void ck_engines_free(struct ck_engines *e);

#endif
