/* SPDX-License-Identifier: MIT */
/*
 * gpucheck_runs: makes the bytes of gathered runs, and compares the result.
 */
#include "gpucheck_speed.h"

enum {
	COMPARED =
		16 << 20, /* bytes, of the first runs, and of the last ones */
	BEHIND = 16,	  /* bytes behind the last run, which must not change */
	BEFORE = 4099,	  /* offset in src of the initial bytes of dst */
	PIECE = CK_SPEED_PINNED -
		4099, /* length of the pattern that src repeats */
};

/* --- offsets ----------------------------------------------------------------------------- */

CUdeviceptr ck_runs_from(const struct ck_speed *s, const struct ck_runs *r,
			 size_t i)
{
	return s->src + i % 2 * (s->size / 2) + i / 2 * r->run + r->off;
}

CUdeviceptr ck_runs_to(const struct ck_speed *s, const struct ck_runs *r,
		       size_t i)
{
	return s->dst + i * r->run;
}

/* --- bytes ------------------------------------------------------------------------------- */

/* The byte depends on all bits of its offset, so that all runs differ. */
static uint8_t byte_of(uint32_t place)
{
	place *= UINT32_C(2654435761);
	place ^= place >> 15;
	return (uint8_t)(place * UINT32_C(2246822519) >> 24);
}

int ck_runs_fill(struct ck_speed *s)
{
	size_t piece = ck_min((size_t)PIECE, s->size);
	int rc = 0;

	for (size_t i = 0; i < piece; i++)
		s->up[i] = byte_of((uint32_t)i);
	for (size_t at = 0; at < s->size && rc == 0; at += piece)
		rc = ck_device_check(
			s->device,
			s->cuda->cuMemcpyHtoDAsync(
				s->src + at, s->up, ck_min(piece, s->size - at),
				s->device->streams[CK_GPU_STREAM_UP]));
	return rc ? rc : ck_speed_wait(s, 1u << CK_GPU_STREAM_UP);
}

int ck_runs_begin(struct ck_speed *s)
{
	int rc = ck_device_check(
		s->device,
		s->cuda->cuMemcpyDtoDAsync(
			s->dst, s->src + BEFORE, s->size / 2 + BEHIND,
			s->device->streams[CK_GPU_STREAM_WORK]));

	return rc ? rc : ck_speed_wait(s, 1u << CK_GPU_STREAM_WORK);
}

/* --- comparison -------------------------------------------------------------------------- */

static int bring(struct ck_speed *s, uint8_t *to, CUdeviceptr from, size_t len)
{
	return ck_device_check(
		s->device,
		s->cuda->cuMemcpyDtoHAsync(
			to, from, len, s->device->streams[CK_GPU_STREAM_DOWN]));
}

/* Returns 1 if n runs from `from` on are right, 0 if not, or an error. Both numbers are even. */
static int compare(struct ck_speed *s, const struct ck_runs *r, size_t from,
		   size_t n)
{
	size_t half = n / 2 * r->run;
	int rc = bring(s, s->up, ck_runs_from(s, r, from), half);

	if (rc == 0)
		rc = bring(s, s->up + half, ck_runs_from(s, r, from + 1), half);
	if (rc == 0)
		rc = bring(s, s->down, ck_runs_to(s, r, from), 2 * half);
	if (rc == 0)
		rc = ck_speed_wait(s, 1u << CK_GPU_STREAM_DOWN);
	for (size_t i = 0; i < n && rc == 0; i++)
		if (memcmp(s->down + i * r->run,
			   s->up + i % 2 * half + i / 2 * r->run, r->run))
			return 0;
	return rc ? rc : 1;
}

/* The same for the bytes behind the runs. */
static int compare_behind(struct ck_speed *s, const struct ck_runs *r)
{
	size_t at = r->n * r->run;
	int rc = bring(s, s->up, s->src + BEFORE + at, BEHIND);

	if (rc == 0)
		rc = bring(s, s->down, s->dst + at, BEHIND);
	if (rc == 0)
		rc = ck_speed_wait(s, 1u << CK_GPU_STREAM_DOWN);
	return rc ? rc : memcmp(s->up, s->down, BEHIND) == 0;
}

/* Returns 1 if all compared bytes are right, 0 if not, or an error. */
static int are_right(struct ck_speed *s, const struct ck_runs *r)
{
	size_t n = ck_min(r->n, (size_t)COMPARED / r->run);
	int rc = compare(s, r, 0, n);

	if (rc == 1 && n < r->n)
		rc = compare(s, r, r->n - n, n);
	return rc == 1 ? compare_behind(s, r) : rc;
}

void ck_runs_say(struct ck_speed *s, const struct ck_runs *r, const char *check,
		 double gbps)
{
	struct ck_gpucheck *c = s->check;
	int rc = are_right(s, r);

	if (rc == 1)
		ck_gpucheck_rate(c, check, gbps, "copy_device", c->copy);
	else
		ck_gpucheck_fail(c, check, rc ? strerror(-rc) : "other bytes");
}
