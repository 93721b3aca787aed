/* SPDX-License-Identifier: MIT */
/*
 * gpucheck: whether a GPU does what ckptfs asks of it, and how fast, as lines of JSON.
 */
#ifndef CK_GPUCHECK_H
#define CK_GPUCHECK_H

#include "pipe.h"

/* Parts of it, as bits. */
enum ck_gpucheck_part {
	CK_GPUCHECK_DEVICE =
		1, /* more of a device than that it can be opened */
	CK_GPUCHECK_TILES = 2,
	CK_GPUCHECK_SPEED = 4,
	CK_GPUCHECK_ALL = 7,
};

struct ck_gpucheck {
	struct ck_device *device;
	bool quick;
	unsigned parts;
	uint64_t cases; /* of tiles, at least */
	unsigned passed, failed, skipped;
	double up, copy; /* GB/s that others are compared with; 0: not known */
};

/* --- lines ------------------------------------------------------------------------------- */

/* One result, with more members: "" or text that begins with a comma. */
void ck_gpucheck_say(struct ck_gpucheck *c, const char *check, bool ok,
		     const char *more);
/* A figure; and beside what it stands, NULL: nothing. */
void ck_gpucheck_rate(struct ck_gpucheck *c, const char *check, double gbps,
		      const char *ref, double ref_gbps);
/* One that failed, and one that was not made. */
void ck_gpucheck_fail(struct ck_gpucheck *c, const char *check,
		      const char *why);
void ck_gpucheck_skip(struct ck_gpucheck *c, const char *check,
		      const char *why);

/* Of a clock that is never set. */
double ck_gpucheck_seconds(void);

/* --- checks ------------------------------------------------------------------------------- */

/* Whether kernels move what they should, for all alignments. */
void ck_gpucheck_tiles(struct ck_gpucheck *c);
/* Copies and kernels, beside each other. */
void ck_gpucheck_speed(struct ck_gpucheck *c);

#endif
