/* SPDX-License-Identifier: MIT */
/*
 * gpucheck: checks the GPU functions that ckptfs needs, and their speed, and prints lines of JSON.
 */
#ifndef CK_GPUCHECK_H
#define CK_GPUCHECK_H

#include "gpu/driver/pipe.h"

/* Parts of the checks, as bits. */
enum ck_gpucheck_part {
	CK_GPUCHECK_DEVICE = 1, /* details of the device and the kernels */
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
	double up, copy; /* reference figures in GB/s; 0 if not measured */
};

/* --- lines ------------------------------------------------------------------------------- */

/* Prints a result, with more members: "" or text that begins with a comma. */
void ck_gpucheck_say(struct ck_gpucheck *c, const char *check, bool ok,
		     const char *more);
/* Prints a figure, with its reference and ratio; ref may be NULL. */
void ck_gpucheck_rate(struct ck_gpucheck *c, const char *check, double gbps,
		      const char *ref, double ref_gbps);
/* Prints a failed check, and a skipped one. */
void ck_gpucheck_fail(struct ck_gpucheck *c, const char *check,
		      const char *why);
void ck_gpucheck_skip(struct ck_gpucheck *c, const char *check,
		      const char *why);

/* The time of a monotonic clock. */
double ck_gpucheck_seconds(void);

/* --- checks ------------------------------------------------------------------------------- */

/* Checks the bytes that kernels move, for all alignments. */
void ck_gpucheck_tiles(struct ck_gpucheck *c);
/* Compares the speed of copies and kernels. */
void ck_gpucheck_speed(struct ck_gpucheck *c);

#endif
