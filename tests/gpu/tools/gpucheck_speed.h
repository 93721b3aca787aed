/* SPDX-License-Identifier: MIT */
/*
 * gpucheck_speed: what measures work of a device, and where the bytes for it are.
 */
#ifndef CK_GPUCHECK_SPEED_H
#define CK_GPUCHECK_SPEED_H

#include "gpucheck.h"

enum {
	CK_SPEED_PINNED = 32 << 20,
	CK_SPEED_AREA =
		16 << 20, /* of a result, which is filled before the next one */
};

struct ck_speed {
	struct ck_gpucheck *check;
	struct ck_device *device;
	const struct ck_cuda *cuda;
	uint8_t *up, *down;   /* CK_SPEED_PINNED bytes each, pinned */
	CUdeviceptr src, dst; /* of `size` bytes */
	size_t size;
	struct ck_tiles tiles;
	CUdeviceptr lists;	 /* of tiles, */
	struct ck_placed placed; /* where they are in it */
	struct ck_pipe pipe;
	struct ck_engines *engines;
};

/* Asks the device for some work. */
typedef int ck_speed_work(struct ck_speed *s);

/* Until all is done that was asked of a set of 1 << enum ck_way. */
CK_MUST_USE int ck_speed_wait(struct ck_speed *s, unsigned ways);
/* GB/s of work that is of so many bytes; 0: it failed, which is said. */
double ck_speed_rate(struct ck_speed *s, const char *what, ck_speed_work *once,
		     unsigned ways, double bytes);

/* --- gpucheck_runs.c --------------------------------------------------------------------- */

/* What a gather of two shards moves. They begin at the halves of src, and their runs go in
 * turn to one behind the other in dst: run i of that is run i / 2 of shard i % 2. */
struct ck_runs {
	size_t run, n; /* n is even, n * run at most half of `size` */
	size_t off;    /* bytes at which a shard begins in its half */
};

CUdeviceptr ck_runs_from(const struct ck_speed *s, const struct ck_runs *r,
			 size_t i);
CUdeviceptr ck_runs_to(const struct ck_speed *s, const struct ck_runs *r,
		       size_t i);
/* Bytes into all of src, by which places are told apart. Uses up. */
CK_MUST_USE int ck_runs_fill(struct ck_speed *s);
/* Other ones than runs have into dst. */
CK_MUST_USE int ck_runs_begin(struct ck_speed *s);
/* The figure of what moved them, which is none if they are not in dst now: it looks at the
 * first ones, the last ones, and what is behind those. Uses up and down. */
void ck_runs_say(struct ck_speed *s, const struct ck_runs *r, const char *check,
		 double gbps);

/* --- gpucheck_engines.c ------------------------------------------------------------------ */

struct ck_engines; /* opaque */

/* NULL: nothing can be said of them, which is said. What the driver has none of, too. src
 * has been filled. */
struct ck_engines *ck_engines_make(struct ck_speed *s);
/* How fast they move what kernels move: as many runs of a ck_runs as they do in a short
 * time, and whether to where they should. Uses up, down and dst. */
void ck_engines_check(struct ck_engines *e, size_t run);
/* NULL is allowed. */
void ck_engines_free(struct ck_engines *e);

#endif
