/* SPDX-License-Identifier: MIT */
/* spread_probe: see spread_probe.h. */
#include "spread_probe.h"

#include <errno.h>

enum {
	WORKS = 16,	  /* at a time */
	PIECE = 1 << 20,  /* bytes of one, at most */
	FEW = 4096,	  /* bytes, for how long it takes */
	TIMES = 10,	  /* at most, */
	MOMENT_MSEC = 25, /* in about that time, for each */
	LATE_MSEC = 20000,
	LOOK_NSEC = 20000,
};

static double seconds(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t piece_of(const struct ck_gpu_options *options)
{
	uint64_t most = ck_min(ck_min(options->room, options->size), PIECE);

	return (uint32_t)(most / CK_GATHER_ALIGN * CK_GATHER_ALIGN);
}

size_t ck_spread_probe_size(const struct ck_gpu_options *options)
{
	return (size_t)WORKS * piece_of(options);
}

struct works {
	struct ck_gpu *gpu;
	struct ck_gpu_work list[WORKS];
	unsigned n, begun, over;
	bool failed;
};

/* Goes on with them. False: there is nothing to do now. */
static bool go_on(struct works *w)
{
	struct ck_gpu_work *done;
	bool some = false;

	while (w->begun < w->n &&
	       w->gpu->start(w->gpu, &w->list[w->begun]) == 0) {
		w->begun++;
		some = true;
	}
	while ((done = w->gpu->done(w->gpu))) {
		w->failed |= done->rc != 0;
		w->over++;
		some = true;
	}
	return some;
}

/* How long so many take; 0: they do not come. */
static double time_some(struct ck_gpu *g, const struct ck_gpu_options *options,
			const struct ck_gpu_memory *to, unsigned n,
			uint32_t bytes)
{
	const struct timespec rest = { .tv_nsec = LOOK_NSEC };
	const struct ck_gather_copy copy = { .run = bytes };
	const struct ck_loop none = { 0 };
	uint64_t end = ck_msec_now() + LATE_MSEC;
	struct works w = { .gpu = g, .n = n };
	double begun = seconds();

	for (unsigned i = 0; i < n; i++)
		w.list[i] = (struct ck_gpu_work){
			.fill = options->memory +
				i % (options->size / bytes) * bytes,
			.filled = bytes,
			.results = bytes,
			.ncopies = 1,
			.copies = &copy,
			.loops = &none,
			.to = to,
			.to_at = (uint64_t)i * bytes,
		};
	while (w.over < n && ck_msec_now() < end)
		if (!go_on(&w))
			(void)nanosleep(&rest, NULL);
	return w.over < n || w.failed ? 0 : seconds() - begun;
}

/* The best of a moment; 0: they do not come. */
static double best(struct ck_gpu *g, const struct ck_gpu_options *options,
		   const struct ck_gpu_memory *to, unsigned n, uint32_t bytes)
{
	double end = seconds() + MOMENT_MSEC / 1000.0, least = 0;
	unsigned left = TIMES;

	do {
		double took = time_some(g, options, to, n, bytes);

		if (took <= 0)
			return 0;
		if (least <= 0 || took < least)
			least = took;
	} while (--left && seconds() < end);
	return least;
}

int ck_spread_probe(struct ck_gpu *g, const struct ck_gpu_options *options,
		    const struct ck_gpu_memory *to, struct ck_spread_probe *out)
{
	uint32_t piece = piece_of(options);
	double one, all;

	if (piece == 0)
		return -ENOSPC;
	/* What comes alone goes to its device: one more is what is spread. */
	one = best(g, options, to, 2, (uint32_t)ck_min(piece, FEW));
	all = one > 0 ? best(g, options, to, WORKS, piece) : 0;
	if (all <= 0)
		return -EIO;
	out->sec = one;
	out->rate = (double)WORKS * piece / all;
	return 0;
}
