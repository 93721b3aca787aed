/* SPDX-License-Identifier: MIT */
/*
 * gpulink_measure: measures the rate and the latency of gathering on a GPU,
 * including the copies from and to the reader's memory, and of transfers from
 * another rank by NCCL. Both also show that the path works. Called by the
 * thread that prepares the mount; no state but the result.
 */
#include "ckptfs/memory.h"
#include "dist/proto/transfer_list.h"
#include "gpulink_internal.h"
#include "source/stats.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>

enum {
	MOMENT_MSEC = 50,  /* duration of each measurement */
	FEW = 4096,	   /* bytes per request, for latency */
	AT_A_TIME = 8,	   /* requests in flight, for the rate */
	WAIT_MSEC = 5000,  /* limit for a reply */
	LOOK_MSEC = 100,   /* interval of checks for ck_gpulink_stop() */
	MEET_MSEC = 10000, /* limit for the first round with a rank */
};

static double seconds(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool is_stopped(const struct ck_gpulink *l)
{
	return __atomic_load_n(&l->stopped, __ATOMIC_ACQUIRE);
}

void ck_gpulink_stop(struct ck_gpulink *l)
{
	__atomic_store_n(&l->stopped, true, __ATOMIC_RELEASE);
}

/* The requests of a measurement; of bytes of another rank if set is not 0. */
struct load {
	uint32_t bytes;
	uint32_t set, rank;
	/* The reader's memory, of AT_A_TIME times as many bytes, copied to and
	 * from the slots; NULL: the copies are not measured. */
	uint8_t *memory;
};

/* A request in flight. */
struct trip {
	struct ck_gather_slot *slot;
	sem_t *came;
	int rc;
};

static void came(struct ck_gather_slot *s, int rc)
{
	struct trip *t = s->arg;

	__atomic_store_n(&t->rc, rc, __ATOMIC_RELEASE);
	sem_post(t->came);
}

/* A single copy of all bytes. */
static void fill(struct trip *t, const struct load *load)
{
	struct ck_gather_slot *s = t->slot;
	const struct ck_want want = { .rank = load->rank,
				      .bytes = load->bytes };

	s->filled = s->results = load->bytes;
	s->copies[0] = (struct ck_gather_desc){ .run = load->bytes };
	s->set = load->set;
	s->all_remote = load->set &&
			ck_want_put(s->wants, s->wants_most, &s->wanted, &want);
	s->ncopies = 1;
	s->nloops = 0;
	s->done = came;
	s->arg = t;
}

/* Waits for all requests; those that are late are cancelled. */
static void wait_for(struct ck_gpulink *l, struct trip *trips, unsigned n,
		     sem_t *came)
{
	uint64_t end = ck_msec_now() + WAIT_MSEC;
	unsigned left = n;

	while (left && ck_msec_now() < end && !is_stopped(l)) {
		struct timespec next = ck_time_in(CLOCK_REALTIME, LOOK_MSEC);

		left -= sem_timedwait(came, &next) == 0;
	}
	for (unsigned i = 0; i < n && left; i++)
		if (__atomic_load_n(&trips[i].rc, __ATOMIC_ACQUIRE) ==
		    -EINPROGRESS)
			l->is.interrupt(&l->is, trips[i].slot);
	while (left)
		left -= sem_wait(came) == 0;
}

static uint8_t *place(const struct load *load, unsigned i)
{
	return load->memory + (size_t)i * load->bytes;
}

/* False if no slot is free. */
static bool send(struct ck_gpulink *l, struct trip *t, const struct load *load,
		 unsigned i)
{
	t->slot = l->is.take(&l->is);
	if (!t->slot)
		return false;
	fill(t, load);
	if (load->memory)
		memcpy(t->slot->fill, place(load, i), load->bytes);
	l->is.start(&l->is, t->slot);
	return true;
}

/* True if the request has succeeded. */
static bool receive(const struct trip *t, const struct load *load, unsigned i)
{
	if (t->rc == 0 && load->memory)
		memcpy(place(load, i), t->slot->result, load->bytes);
	return t->rc == 0;
}

/* Seconds that n concurrent requests take; 0 if not all of them succeed. */
static double time_some(struct ck_gpulink *l, unsigned n,
			const struct load *load)
{
	struct trip trips[AT_A_TIME];
	double begun = seconds(), took;
	unsigned sent = 0;
	bool right = true;
	sem_t done;

	sem_init(&done, 0, 0);
	for (; sent < n; sent++) {
		trips[sent] = (struct trip){ NULL, &done, -EINPROGRESS };
		if (!send(l, &trips[sent], load, sent))
			break;
	}
	wait_for(l, trips, sent, &done);
	for (unsigned i = 0; i < sent; i++)
		right &= receive(&trips[i], load, i);
	took = seconds() - begun;
	for (unsigned i = 0; i < sent; i++)
		if (trips[i].rc != -EINTR)
			l->is.put(&l->is, trips[i].slot);
	sem_destroy(&done);
	return right && sent == n ? took : 0;
}

/* Seconds of the fastest repetition until `end`, at least one; 0 on failure. */
static double best(struct ck_gpulink *l, unsigned n, const struct load *load,
		   double end)
{
	double least = 0;

	do {
		double took = time_some(l, n, load);

		if (took <= 0)
			break;
		if (least <= 0 || took < least)
			least = took;
	} while (seconds() < end);
	return least;
}

/* False if requests fail. */
static bool measure_load(struct ck_gpulink *l, const struct load *where,
			 struct ck_gpulink_rate *out)
{
	struct load little = *where, much = *where;
	double begun = seconds(), few, many;
	unsigned n;

	pthread_mutex_lock(&l->lock);
	n = l->workers ? (unsigned)ck_min(l->workers->n, AT_A_TIME) : 0;
	pthread_mutex_unlock(&l->lock);
	if (n == 0)
		return false;
	little.bytes = FEW;
	much.bytes = CK_GPU_PIECE;
	few = best(l, 1, &little, begun + MOMENT_MSEC / 2000.0);
	many = best(l, n, &much, begun + MOMENT_MSEC / 1000.0);
	if (few <= 0 || many <= 0)
		return false;
	out->usec = few * 1e6;
	out->gbps = (double)n * CK_GPU_PIECE / many / 1e9;
	return true;
}

/* The first round waits until NCCL has connected the ranks. */
bool ck_gpulink_measure_rank(struct ck_gpulink *l, uint32_t set, uint32_t rank,
			     struct ck_gpulink_rate *out)
{
	const struct load where = { FEW, set, rank, NULL };
	double end = seconds() + MEET_MSEC / 1000.0;
	const struct timespec pause = { .tv_nsec = 100000000 };

	*out = (struct ck_gpulink_rate){ 0 };
	while (time_some(l, 1, &where) <= 0 || !measure_load(l, &where, out)) {
		if (seconds() > end || is_stopped(l) ||
		    ck_gpulink_why_absent(l, set, rank, NULL, 0))
			return false;
		(void)nanosleep(&pause, NULL);
	}
	return true;
}

void ck_gpulink_measure(struct ck_gpulink *l)
{
	size_t bytes = (size_t)AT_A_TIME * CK_GPU_PIECE;
	struct load load = { .memory = ck_pages_alloc(bytes) };

	if (!load.memory)
		return;
	memset(load.memory, 1, bytes);
	(void)measure_load(l, &load, &l->gpu);
	ck_pages_free(load.memory, bytes);
}

bool ck_gpulink_works(const struct ck_gpulink *l)
{
	return l->gpu.gbps > 0;
}

/* --- as a row -------------------------------------------------------------------------- */

void ck_gpulink_print(struct ck_gpulink *l, bool gathers, struct ck_buf *out)
{
	char text[CK_GPU_TEXT] = "its process is being replaced";
	struct ck_stats_path row = { .host = l->options.host,
				     .path = "gpu",
				     .gbps = l->gpu.gbps,
				     .usec = l->gpu.usec };
	bool up;

	pthread_mutex_lock(&l->lock);
	up = l->workers && l->workers->up;
	if (l->err)
		memcpy(text, l->text, sizeof(text));
	pthread_mutex_unlock(&l->lock);
	row.used = up && gathers;
	row.reason = up ? NULL : text;
	ck_stats_print_path(&row, out);
}
