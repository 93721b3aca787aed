/* SPDX-License-Identifier: MIT */
/*
 * gpucheck_speed: what measures work of a device, and where the bytes for it are.
 */
#ifndef CK_GPUCHECK_SPEED_H
#define CK_GPUCHECK_SPEED_H

#include "gpucheck.h"

enum { CK_SPEED_PINNED = 32 << 20 };

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

/* --- gpucheck_engines.c ------------------------------------------------------------------ */

struct ck_engines; /* opaque */

/* NULL: nothing can be said of them, which is said. What the driver has none of, too. */
struct ck_engines *ck_engines_make(struct ck_speed *s);
/* How fast they move runs, every second place of src to one behind the other, and whether
 * to where they should. Uses up, down, src and dst. */
void ck_engines_check(struct ck_engines *e, size_t run);
/* NULL is allowed. */
void ck_engines_free(struct ck_engines *e);

#endif
