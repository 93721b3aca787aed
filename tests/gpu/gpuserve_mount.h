/* SPDX-License-Identifier: MIT */
/*
 * gpuserve_mount: a mount with a real GPU worker and gather requests. This process is the mount,
 * and it simulates the ranks that have the bytes.
 */
#ifndef GPUSERVE_MOUNT_H
#define GPUSERVE_MOUNT_H

#include "boxes.h"
#include "played_ranks.h"
#include "tap.h"

#include "dist/proto/transfer_list.h"
#include "gpu/gpu.h"
#include "gpu/worker/gpulink.h"

#include <semaphore.h>
#include <signal.h>
#include <time.h>

enum {
	PINNED = 128 << 20,
	OPEN_MSEC = 20000,
	SOON_SECONDS = 10,
	AT_A_TIME = 6,
	WANTS = 12,	 /* at most, in a slot */
	COMES_TIMES = 3, /* waits of 10 s each, for a busy machine */
};

/* --- the mount -------------------------------------------------------------------------- */

struct fixture {
	struct ranks ranks;
	struct ck_gpulink *link;
	struct ck_gather_engine *g;
	uint32_t set;
};

static inline int mover_start(void *arg, int sock, int memory)
{
	const struct fixture *f = arg;
	struct ck_control_msg note = { .kind = CK_CONTROL_MSG_START,
				       .err = 1,
				       .files = CK_CONTROL_MSG_NO_FILES };

	note.files[0] = sock;
	note.files[1] = memory;
	note.files[2] = -1;
	return ck_control_msg_send(f->ranks.list[0].sock, &note, false);
}

/* A job of all ranks, of which the first is the mount's. */
static inline void job_begin(struct fixture *f)
{
	struct ck_rendezvous_link way;

	f->ranks.over = f->ranks.mute = false;
	memset(f->ranks.cut, 0, sizeof(f->ranks.cut));
	rank_begin(&f->ranks.list[0], 0, &way);
	for (uint32_t i = 1; i < RANKS; i++)
		process_begin(&f->ranks.list[i], i);
	ck_gpulink_join(f->link, &way, ++f->set);
	if (pthread_create(&f->ranks.thread, NULL, carry_all, &f->ranks))
		abort();
}

static inline void job_end(struct fixture *f)
{
	__atomic_store_n(&f->ranks.over, true, __ATOMIC_RELEASE);
	(void)eventfd_write(f->ranks.wake, 1);
	pthread_join(f->ranks.thread, NULL);
	for (uint32_t i = 0; i < RANKS; i++) {
		struct rank *r = &f->ranks.list[i];

		ck_fd_cleanup(&r->frames.fd);
		ck_frames_fini(&r->frames);
		munmap(r->memory, MEMORY);
	}
}

static inline void begin(struct fixture *f,
			 const char *const standin[static RANKS])
{
	struct ck_gpulink_options options = { .pinned = PINNED,
					      .timeout_msec = 4 * TIMEOUT_MSEC,
					      .start = mover_start,
					      .arg = f,
					      .host = "here" };
	struct ck_diag why = { 0 };

	*f = (struct fixture){ 0 };
	f->ranks.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (uint32_t i = 0; i < RANKS; i++)
		forker_start(&f->ranks.list[i], i, standin[i]);
	if (ck_gpulink_make(&options, &f->link) ||
	    ck_gpulink_wait(f->link, OPEN_MSEC, &why))
		abort();
	f->g = ck_gpulink_gather_engine(f->link);
	job_begin(f);
}

static inline void end(struct fixture *f)
{
	job_end(f);
	ck_gpulink_free(f->link);
	for (uint32_t i = 0; i < RANKS; i++) {
		close(f->ranks.list[i].sock);
		ck_subprocess_end(&f->ranks.list[i].forker, 1000);
	}
	close(f->ranks.wake);
}

static const char *const sound[RANKS] = { "", "", "" };

/* --- a gather request ------------------------------------------------------------------- */

struct one {
	struct ck_gather_slot *slot;
	sem_t *done;
	int rc;
	uint8_t *want; /* the packed bytes */
};

static inline void came(struct ck_gather_slot *s, int rc)
{
	struct one *o = s->arg;

	o->rc = rc;
	sem_post(o->done);
}

/* Retries: a link has no free slot while its worker is replaced or slow. */
static inline struct ck_gather_slot *slot_take(struct fixture *f)
{
	struct ck_gather_slot *s = f->g->take(f->g);

	for (int i = 0; i < SOON_SECONDS * 100 && !s; i++) {
		usleep(10000);
		s = f->g->take(f->g);
	}
	if (!s)
		abort();
	return s;
}

static inline void put_want(struct one *o, uint32_t rank,
			    struct ck_copy_desc *m, uint32_t at, uint32_t bytes)
{
	struct ck_want w = { .rank = rank, .at = at, .bytes = bytes };
	struct ck_reads reads;
	struct ck_query ask;

	ck_reads_begin(&reads, m, 1);
	if (!ck_reads_left(&reads) || ck_query_read(&reads, &ask))
		abort();
	w.body = (struct ck_str){ ask.body.data, ask.head.body };
	if (!ck_want_put(o->slot->wants, o->slot->wants_most, &o->slot->wanted,
			 &w))
		abort();
	ck_query_fini(&ask);
}

/* Random bytes of another rank, or of this host, for the offset `at`. */
static inline uint32_t random_piece(struct one *o, uint64_t *random,
				    uint32_t at, uint32_t rank)
{
	struct ck_loop loop = { .count = 1 + boxes_below(random, 20) };
	struct ck_copy_desc m = { .file = (uint32_t)boxes_below(random, 4),
				  .fpos = boxes_below(random, 100000),
				  .run = 1 + boxes_below(random, 3000),
				  .loops = &loop,
				  .nloops = boxes_one_in(random, 2) };
	uint64_t bytes;

	loop.src = m.run + boxes_below(random, 100);
	loop.dst = m.run;
	if (boxes_one_in(random, 8))
		m.run = 1 + boxes_below(random, 60000);
	loop.dst = m.run;
	bytes = m.nloops ? m.run * loop.count : m.run;
	if (at + bytes > o->slot->room || bytes > 200000)
		return 0;
	(void)fill_move(rank, &m, 0, m.fpos, o->want + at);
	if (rank)
		put_want(o, rank, &m, at, (uint32_t)bytes);
	else
		memcpy(o->slot->fill + at, o->want + at, bytes);
	return (uint32_t)bytes;
}

/* The gather request copies the packed bytes unchanged: gpulink_test tests copies. */
static inline void one_fill(struct fixture *f, struct one *o, uint64_t *random,
			    uint32_t ranks, sem_t *done)
{
	bool all_remote = true;
	uint32_t at = 0;

	*o = (struct one){ .slot = slot_take(f), .done = done };
	o->want = calloc(1, o->slot->room);
	memset(o->slot->fill, 0xee, o->slot->room);
	memset(o->slot->result, 0x11, o->slot->room);
	for (int i = 0; i < WANTS; i++) {
		uint32_t rank = (uint32_t)boxes_below(random, RANKS), n;

		if (!(ranks >> rank & 1))
			continue;
		n = random_piece(o, random, at, rank);
		all_remote &= rank > 0 || n == 0;
		at += n;
	}
	if (!o->slot->wanted) {
		struct ck_copy_desc m = { .file = 1, .run = 100 };
		uint32_t rank = ranks >> 1 & 1 ? 1 : 2;

		(void)fill_move(rank, &m, 0, 0, o->want + at);
		put_want(o, rank, &m, at, 100);
		at += 100;
	}
	o->slot->filled = o->slot->results = at;
	o->slot->copies[0] = (struct ck_gather_desc){ .run = at };
	o->slot->ncopies = 1;
	o->slot->all_remote = all_remote;
	o->slot->set = f->set;
	o->slot->done = came;
	o->slot->arg = o;
}

/* A large request: half of the bytes are on one rank, half on another. */
static inline void one_large(struct fixture *f, struct one *o, sem_t *done)
{
	uint32_t half;

	*o = (struct one){ .slot = slot_take(f), .done = done };
	half = o->slot->room / 2;
	o->want = calloc(1, o->slot->room);
	for (uint32_t rank = 1; rank < RANKS; rank++) {
		struct ck_copy_desc m = { .file = 1, .run = half };
		uint32_t at = (rank - 1) * half;

		(void)fill_move(rank, &m, 0, 0, o->want + at);
		put_want(o, rank, &m, at, half);
	}
	memset(o->slot->result, 0x11, o->slot->room);
	o->slot->filled = o->slot->results = 2 * half;
	o->slot->copies[0] = (struct ck_gather_desc){ .run = 2 * half };
	o->slot->ncopies = 1;
	o->slot->all_remote = true;
	o->slot->set = f->set;
	o->slot->done = came;
	o->slot->arg = o;
}

static inline bool wait_one(sem_t *done)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME,
					 SOON_SECONDS * UINT32_C(1000));

	while (sem_timedwait(done, &end))
		if (errno != EINTR)
			return false;
	return true;
}

static inline bool is_right(const struct one *o)
{
	return memcmp(o->slot->result, o->want, o->slot->filled) == 0;
}

static inline void one_end(struct fixture *f, struct one *o)
{
	f->g->put(f->g, o->slot);
	free(o->want);
}

/* Runs requests, some at a time; returns the number with result `rc`, and right bytes if rc is
 * 0. */
static inline unsigned run_some(struct fixture *f, uint64_t *random, unsigned n,
				uint32_t ranks, int rc)
{
	struct one list[AT_A_TIME];
	unsigned good = 0, left = 0;
	sem_t done;

	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < n; i++) {
		one_fill(f, &list[i], random, ranks, &done);
		f->g->start(f->g, list[i].slot);
	}
	for (unsigned i = 0; i < n; i++)
		left += !wait_one(&done);
	if (left) {
		printf("# %u gatherings were not answered\n", left);
		fflush(stdout);
		abort();
	}
	for (unsigned i = 0; i < n; i++) {
		good += list[i].rc == rc && (rc || is_right(&list[i]));
		if (list[i].rc != rc)
			printf("# %d, not %d\n", list[i].rc, rc);
		one_end(f, &list[i]);
	}
	sem_destroy(&done);
	return good;
}

/* Waits until bytes arrive by rounds: ranks connect first, and pause after a failure. */
static inline bool comes(struct fixture *f, uint32_t rank)
{
	struct ck_gpulink_rate rate;
	bool right = false;

	for (int i = 0; i < COMES_TIMES && !right; i++)
		right = ck_gpulink_measure_rank(f->link, f->set, rank, &rate);
	return right && rate.gbps > 0 && rate.usec > 0;
}

static inline bool is_joined(struct fixture *f)
{
	struct ck_diag why = { 0 };

	return ck_gpulink_joined(f->link, f->set, OPEN_MSEC, &why) == 0;
}

#endif
