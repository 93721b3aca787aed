/* SPDX-License-Identifier: MIT */
/*
 * gpucheck_speed: what the device copies, and kernels and the pipe beside that. Each figure is
 * of work that is asked for again and again until it has taken long enough; a copy counts
 * its bytes once. Kernels do what a gather does: the copies of two shards fill all of
 * an area, which a cache takes, before the next one. Of runs with room between them that nothing
 * fills, the memory would have to read and write the other bytes of each sector as well.
 */
#include "gpucheck_speed.h"

#include <errno.h>
#include <stdio.h>

enum {
	PINNED = CK_SPEED_PINNED,
	LEAST = 4 << 20, /* of the device: of less memory nothing is learnt */
	BATCHES = 4,	 /* on their way at once */
	AT_ONCE = 4,	 /* pieces of work between two looks at the clock */
};

/* --- work ------------------------------------------------------------------------------------ */

int ck_speed_wait(struct ck_speed *s, unsigned ways)
{
	int rc = 0;

	for (unsigned way = 0; way < CK_GPU_STREAMS && rc == 0; way++)
		if (ways & 1u << way)
			rc = ck_device_check(s->device,
					     s->cuda->cuStreamSynchronize(
						     s->device->streams[way]));
	return rc;
}

double ck_speed_rate(struct ck_speed *s, const char *what, ck_speed_work *once,
		     unsigned ways, double bytes)
{
	double least = s->check->quick ? 0.02 : 0.3, from, took = 0;
	unsigned times = 0;
	int rc = once(s);

	if (rc == 0)
		rc = ck_speed_wait(s, ways);
	from = ck_gpucheck_seconds();
	while (rc == 0 && took < least) {
		for (unsigned i = 0; i < AT_ONCE && rc == 0; i++)
			rc = once(s);
		if (rc == 0)
			rc = ck_speed_wait(s, ways);
		times += AT_ONCE;
		took = ck_gpucheck_seconds() - from;
	}
	if (rc)
		ck_gpucheck_fail(s->check, what, strerror(-rc));
	return rc ? 0 : bytes * times / took / 1e9;
}

static int copy_up(struct ck_speed *s)
{
	return ck_device_check(s->device,
			       s->cuda->cuMemcpyHtoDAsync(
				       s->src, s->up,
				       ck_min((size_t)PINNED, s->size),
				       s->device->streams[CK_GPU_STREAM_UP]));
}

static int copy_down(struct ck_speed *s)
{
	return ck_device_check(s->device,
			       s->cuda->cuMemcpyDtoHAsync(
				       s->down, s->dst,
				       ck_min((size_t)PINNED, s->size),
				       s->device->streams[CK_GPU_STREAM_DOWN]));
}

static int copy_both(struct ck_speed *s)
{
	int rc = copy_up(s);

	return rc ? rc : copy_down(s);
}

static int copy_device(struct ck_speed *s)
{
	return ck_device_check(s->device,
			       s->cuda->cuMemcpyDtoDAsync(
				       s->dst, s->src, s->size / 2,
				       s->device->streams[CK_GPU_STREAM_WORK]));
}

/* --- kernels ------------------------------------------------------------------------------------ */

static int launch(struct ck_speed *s)
{
	return ck_tiles_launch(s->device, s->lists, &s->placed);
}

/* Tiles for n runs from this one on, behind those of others: of one shard, then of the other. */
static int add_area(struct ck_speed *s, const struct ck_runs *r, size_t from,
		    size_t n)
{
	const struct ck_loop rows = { .count = n / 2,
				      .src = r->run,
				      .dst = 2 * r->run };
	int rc = 0;

	for (unsigned shard = 0; shard < 2 && rc == 0; shard++) {
		const struct ck_tile_copy copy = {
			.src = ck_runs_from(s, r, from + shard),
			.dst = ck_runs_to(s, r, from + shard),
			.run = r->run,
			.nloops = 1,
			.loops = &rows
		};

		rc = ck_tiles_add(&s->tiles, &copy);
	}
	return rc;
}

/* All areas are equal: sizes are powers of two. There are two at least. */
static int make_tiles(struct ck_speed *s, const struct ck_runs *r)
{
	size_t n = ck_min((size_t)CK_SPEED_AREA, s->size / 4) / r->run;
	int rc = 0;

	ck_tiles_clear(&s->tiles);
	for (size_t from = 0; from < r->n && rc == 0; from += n)
		rc = add_area(s, r, from, n);
	if (rc == 0)
		rc = ck_tiles_place(&s->tiles, s->up, 0, PINNED, &s->placed);
	if (rc == 0)
		rc = ck_device_check(
			s->device,
			s->cuda->cuMemcpyHtoDAsync(
				s->lists, s->up, s->placed.end,
				s->device->streams[CK_GPU_STREAM_UP]));
	return rc ? rc : ck_speed_wait(s, 1u << CK_GPU_STREAM_UP);
}

static void check_run(struct ck_speed *s, size_t run, size_t off)
{
	const struct ck_runs r = { run, s->size / 2 / run, off };
	char name[48];
	double gbps;
	int rc = ck_runs_begin(s);

	(void)snprintf(name, sizeof(name), "tiles_%zu%s", run,
		       off ? "_misaligned" : "");
	if (rc == 0)
		rc = make_tiles(s, &r);
	if (rc) {
		ck_gpucheck_fail(s->check, name, strerror(-rc));
		return;
	}
	gbps = ck_speed_rate(s, name, launch, 1u << CK_GPU_STREAM_WORK,
			     (double)(r.n * run));
	if (gbps > 0)
		ck_runs_say(s, &r, name, gbps);
}

static void check_kernels(struct ck_speed *s)
{
	static const size_t runs[] = { 2, 4, 8, 16, 64, 256, 2048, 65536 };
	int rc = ck_runs_fill(s);
	struct ck_engines *e;

	if (rc) {
		ck_gpucheck_fail(s->check, "runs", strerror(-rc));
		return;
	}
	e = ck_engines_make(s);
	for (unsigned i = 0; i < CK_ARRAY_SIZE(runs); i++) {
		check_run(s, runs[i], 0);
		check_run(s, runs[i], 1);
		if (e)
			ck_engines_check(e, runs[i]);
	}
	ck_engines_free(e);
}

/* --- the pipe -------------------------------------------------------------------------------------- */

/* Batches from pinned memory into memory of the device, a run each. */
static int pipe_batches(struct ck_speed *s)
{
	struct ck_pipe_batch b = { .tiles = &s->tiles };
	size_t size = s->pipe.filled.size - 4096;
	int rc = 0;

	for (unsigned i = 0; i < BATCHES && rc == 0; i++) {
		do
			rc = ck_pipe_take(&s->pipe, s->dst, &b);
		while (rc == -EAGAIN);
		if (rc)
			return rc;
		ck_tiles_clear(&s->tiles);
		rc = ck_tiles_add(&s->tiles,
				  &(struct ck_tile_copy){ .src = b.staged,
							  .dst = b.result,
							  .run = size });
		if (rc == 0)
			rc = ck_pipe_send(&s->pipe, &b, size, 0);
		b = (struct ck_pipe_batch){ .tiles = &s->tiles };
	}
	return rc;
}

static void check_pipe(struct ck_speed *s)
{
	/* A batch has to have room in dst, and its tiles in the slot. */
	const struct ck_pipe_sizes sizes = { LEAST, 2, 4, 0 };
	struct ck_diag d = { 0 };
	double gbps;

	if (ck_pipe_make(s->device, &sizes, &s->pipe, &d)) {
		ck_gpucheck_fail(s->check, "pipe", d.text);
		return;
	}
	gbps = ck_speed_rate(s, "pipe", pipe_batches, 1u << CK_GPU_STREAM_WORK,
			     (double)BATCHES * (LEAST - 4096));
	if (gbps > 0)
		ck_gpucheck_rate(s->check, "pipe", gbps, "copy_up",
				 s->check->up);
	ck_pipe_fini(&s->pipe);
}

/* --- memory ------------------------------------------------------------------------------------------- */

static bool have_device_memory(struct ck_speed *s, size_t size)
{
	const struct ck_cuda *cuda = s->cuda;
	CUdeviceptr *const places[] = { &s->src, &s->dst, &s->lists };

	s->size = size;
	for (unsigned i = 0; i < CK_ARRAY_SIZE(places); i++)
		if (cuda->cuMemAlloc(places[i],
				     i < 2 ? size : (size_t)PINNED)) {
			*places[i] = 0;
			while (i > 0 && i--) {
				(void)cuda->cuMemFree(*places[i]);
				*places[i] = 0;
			}
			return false;
		}
	return true;
}

static uint8_t *pinned(const struct ck_speed *s)
{
	void *at = NULL;

	if (s->cuda->cuMemHostAlloc(&at, PINNED, CU_MEMHOSTALLOC_PORTABLE))
		return NULL;
	memset(at, 1, PINNED);
	return at;
}

static bool begin(struct ck_speed *s)
{
	size_t size = s->check->quick ? (size_t)4 << 20 : (size_t)4 << 30;

	s->up = pinned(s);
	s->down = pinned(s);
	while (size >= LEAST && !have_device_memory(s, size))
		size /= 2;
	return s->up && s->down && size >= LEAST;
}

static void end(struct ck_speed *s)
{
	const struct ck_cuda *cuda = s->cuda;
	const CUdeviceptr places[] = { s->src, s->dst, s->lists };

	for (unsigned i = 0; i < CK_ARRAY_SIZE(places); i++)
		if (places[i])
			(void)cuda->cuMemFree(places[i]);
	if (s->up)
		(void)cuda->cuMemFreeHost(s->up);
	if (s->down)
		(void)cuda->cuMemFreeHost(s->down);
	ck_tiles_fini(&s->tiles);
}

static void check_copies(struct ck_speed *s)
{
	const unsigned up = 1u << CK_GPU_STREAM_UP,
		       down = 1u << CK_GPU_STREAM_DOWN;
	struct ck_gpucheck *c = s->check;
	double bytes = (double)ck_min((size_t)PINNED, s->size), gbps;

	c->up = ck_speed_rate(s, "copy_up", copy_up, up, bytes);
	if (c->up > 0)
		ck_gpucheck_rate(c, "copy_up", c->up, NULL, 0);
	gbps = ck_speed_rate(s, "copy_down", copy_down, down, bytes);
	if (gbps > 0)
		ck_gpucheck_rate(c, "copy_down", gbps, "copy_up", c->up);
	gbps = ck_speed_rate(s, "copy_both", copy_both, up | down, 2 * bytes);
	if (gbps > 0)
		ck_gpucheck_rate(c, "copy_both", gbps, "copy_up", c->up);
	c->copy = ck_speed_rate(s, "copy_device", copy_device,
				1u << CK_GPU_STREAM_WORK,
				(double)(s->size / 2));
	if (c->copy > 0)
		ck_gpucheck_rate(c, "copy_device", c->copy, NULL, 0);
}

void ck_gpucheck_speed(struct ck_gpucheck *c)
{
	struct ck_speed s = { .check = c,
			      .device = c->device,
			      .cuda = c->device->cuda };

	if (begin(&s)) {
		check_copies(&s);
		check_kernels(&s);
		check_pipe(&s);
	} else {
		ck_gpucheck_skip(c, "speed", "there is no room for it");
	}
	end(&s);
}
