/* SPDX-License-Identifier: MIT */
/*
 * requester_threads: threads that start moves, one that interrupts them, and a line that
 * is disturbed. Each move ends once, with its bytes or with an error for which there was
 * a reason.
 */
#include "line_thread.h"
#include "peer_moves.h"

#include <semaphore.h>

enum { THREADS = 3, AT_A_TIME = 2 };

struct op {
	struct move_set set; /* first */
	pthread_mutex_t lock;
	/* Under lock: */
	bool on_way;
	bool interrupted;
	unsigned ended;
	sem_t *done;
};

struct worker {
	pthread_t thread;
	struct op ops[AT_A_TIME];
	sem_t done;
	uint64_t random, rounds;
	unsigned came, failed, interrupted, wrong;
};

static struct owners owners;
static struct ck_location files[SET_FILES];
static struct ck_remote_client requester;
static struct line_thread line;
static struct worker workers[THREADS];
static unsigned workers_left; /* atomic */

/* --- one who moves ------------------------------------------------------------------------ */

static void op_done(struct ck_copy_batch *batch)
{
	struct op *op = (struct op *)batch;

	pthread_mutex_lock(&op->lock);
	op->on_way = false;
	op->ended++;
	pthread_mutex_unlock(&op->lock);
	sem_post(op->done);
}

static bool is_right_rc(const struct op *op, size_t i)
{
	int rc = op->set.list[i].rc;

	switch (op->set.kind[i]) {
	case NONE: return rc == move_none_rc(&op->set.list[i]);
	case WILD: return rc == -EIO || (rc == -EINTR && op->interrupted);
	case OUTSIDE:
	case UNKNOWN:
	case PLAIN: break;
	}
	if (rc == -EINTR)
		return op->interrupted;
	if (rc == -ENODATA)
		return op->set.kind[i] == UNKNOWN;
	if (rc == -EIO)
		return !line.calm || op->set.kind[i] == OUTSIDE;
	return rc == 0 && op->set.kind[i] == PLAIN;
}

static void op_check(struct worker *w, struct op *op, int started)
{
	w->wrong += op->ended != (started == -EINPROGRESS);
	for (size_t i = 0; i < op->set.batch.n; i++) {
		int rc = op->set.list[i].rc;

		w->wrong += !is_right_rc(op, i);
		w->came += rc == 0;
		w->interrupted += rc == -EINTR;
		w->failed += rc && rc != -EINTR;
	}
	w->wrong += !move_set_is_right(&op->set, &owners, files);
}

static int op_start(struct worker *w, struct op *op)
{
	int rc;

	pthread_mutex_lock(&op->lock);
	move_set_random(&op->set, &w->random);
	op->set.batch.done = op_done;
	op->ended = 0;
	op->interrupted = false;
	op->on_way = true;
	pthread_mutex_unlock(&op->lock);
	rc = requester.backend.start(&requester.backend, &op->set.batch);
	if (rc != -EINPROGRESS) {
		pthread_mutex_lock(&op->lock);
		op->on_way = false;
		pthread_mutex_unlock(&op->lock);
	}
	return rc;
}

/* --- those who interrupt ---------------------------------------------------------------------- */

/* As a route does it: with a lock that done() needs before it is done. */
static void interrupt(struct op *op)
{
	pthread_mutex_lock(&op->lock);
	if (op->on_way) {
		op->interrupted = true;
		__atomic_store_n(&op->set.batch.cancelled, true,
				 __ATOMIC_RELEASE);
		requester.backend.interrupt(&requester.backend, &op->set.batch);
	}
	pthread_mutex_unlock(&op->lock);
}

static void interrupt_any(uint64_t *random)
{
	struct worker *w = &workers[boxes_below(random, THREADS)];

	interrupt(&w->ops[boxes_below(random, AT_A_TIME)]);
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < w->rounds; i++) {
		int rc[AT_A_TIME];

		for (unsigned k = 0; k < AT_A_TIME; k++)
			rc[k] = op_start(w, &w->ops[k]);
		if (boxes_one_in(&w->random, 4))
			interrupt_any(&w->random);
		for (unsigned k = 0; k < AT_A_TIME; k++)
			while (rc[k] == -EINPROGRESS && sem_wait(&w->done))
				;
		for (unsigned k = 0; k < AT_A_TIME; k++)
			op_check(w, &w->ops[k], rc[k]);
	}
	__atomic_fetch_sub(&workers_left, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void interrupt_some(uint64_t seed)
{
	uint64_t random = seed | 1;

	while (__atomic_load_n(&workers_left, __ATOMIC_ACQUIRE)) {
		struct timespec t = { .tv_nsec = (long)boxes_below(&random,
								   500000) };

		interrupt_any(&random);
		nanosleep(&t, NULL); /* most come, however busy a machine is */
	}
}

/* --- both ---------------------------------------------------------------------------------------- */

static void workers_begin(uint64_t rounds, uint64_t *random)
{
	workers_left = THREADS;
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *w = &workers[i];

		*w = (struct worker){ .random = tap_random(random) | 1,
				      .rounds = rounds };
		sem_init(&w->done, 0, 0);
		for (unsigned k = 0; k < AT_A_TIME; k++) {
			w->ops[k].done = &w->done;
			pthread_mutex_init(&w->ops[k].lock, NULL);
		}
	}
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&workers[i].thread, NULL, worker_run,
				   &workers[i]))
			abort();
}

static unsigned workers_end(void)
{
	unsigned came = 0, failed = 0, interrupted = 0, bad = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *w = &workers[i];

		pthread_join(w->thread, NULL);
		came += w->came;
		failed += w->failed;
		interrupted += w->interrupted;
		bad += w->wrong;
		sem_destroy(&w->done);
		for (unsigned k = 0; k < AT_A_TIME; k++)
			pthread_mutex_destroy(&w->ops[k].lock);
	}
	printf("# %u came, %u failed, %u interrupted\n", came, failed,
	       interrupted);
	return bad;
}

/* How many things were wrong. */
static unsigned run(uint64_t rounds, uint64_t seed, bool calm, bool lie)
{
	uint64_t random = seed | 1;
	unsigned bad;

	line = (struct line_thread){ .npeers = OWNERS,
				     .calm = calm,
				     .lie = lie };
	for (unsigned i = 0; i < OWNERS; i++)
		line.owner[i] = owners.owner[i];
	line_thread_begin(&line, 300, tap_random(&random));
	ck_remote_client_init(&requester,
			      &(struct ck_routes){ .calls = line.calls,
						   .files = files,
						   .n = SET_FILES });
	line_thread_serve(&line, &requester);
	workers_begin(rounds, &random);
	interrupt_some(tap_random(&random));
	bad = workers_end();
	line_thread_end(&line);
	printf("# %" PRIu64 " answers, %" PRIu64 " renewals, %" PRIu64
	       " times a peer was lost\n",
	       line.answered, line.renewed, line.lost);
	ck_remote_client_fini(&requester);
	return bad;
}

int main(void)
{
	uint64_t batch = tap_cases("CKPTFS_CASES", TAP_SLOW ? 3000 : 8000,
				   TAP_SLOW ? 30000 : 200000);
	uint64_t rounds = batch / (2 * THREADS * AT_A_TIME);
	uint64_t seed = tap_seed(31);

	alarm(tap_is_long() ? 900 : 200);
	owners_begin(&owners);
	whereabouts_fill(files, OWNERS);
	eq_u64(run(rounds, seed, true, false), 0);
	eq_u64(run(rounds, seed + 1, false, false), 0);
	ok(run(100, 5, true, true) > 50); /* what is not so is seen */
	return owners_end(&owners) | tap_done();
}
