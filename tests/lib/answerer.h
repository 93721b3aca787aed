/* SPDX-License-Identifier: MIT */
/*
 * answerer: a remote backend for tests. It holds the bytes of the files in memory
 * and executes each batch at once, or in its own thread in random order. It can
 * return errors or wrong bytes, and can answer cancelled batches only.
 */
#ifndef CK_ANSWERER_H
#define CK_ANSWERER_H

#include "world.h"

#include <pthread.h>

enum spoil { NOTHING, LAST_BYTE, SWAPPED, FIRST_BYTE };

enum { ANSWERER_MOST = 256 };

struct answerer {
	struct ck_backend backend;
	/* Constant while moves are on the way: */
	bool at_once, never;
	bool inside; /* done() is called before start() returns */
	enum spoil spoil;
	int errs[BIG + 2]; /* rc of the moves of each file */
	/* Atomic: */
	unsigned started, moved, wrong, interrupted, spoiled;

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under lock: */
	bool ending, held; /* held: only cancelled batches complete */
	uint64_t random;
	unsigned n;
	struct ck_copy_batch *queue[ANSWERER_MOST];
};

static inline void answerer_count(unsigned *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static inline unsigned answerer_counted(unsigned *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* --- one move --------------------------------------------------------------------- */

/* Advances to the next run of a loop nest. False after the last one. */
static inline bool move_next(const struct ck_copy_desc *m, uint64_t *index)
{
	uint32_t k = m->nloops;

	while (k > 0 && ++index[k - 1] == m->loops[k - 1].count)
		index[--k] = 0;
	return k > 0;
}

/* Copies the runs of a move. False if a run exceeds the file of `size` bytes. */
static inline bool move_fill(const struct ck_copy_desc *m, const uint8_t *bytes,
			     uint64_t size)
{
	uint64_t index[CK_MAX_DIMS] = { 0 };

	do {
		uint64_t src = m->fpos, dst = 0;

		for (uint32_t k = 0; k < m->nloops; k++) {
			src += index[k] * m->loops[k].src;
			dst += index[k] * m->loops[k].dst;
		}
		if (src > size || m->run > size - src)
			return false;
		memcpy(m->to + dst, bytes + src, m->run);
	} while (move_next(m, index));
	return true;
}

static inline void answerer_move(struct answerer *a, struct ck_copy_desc *m)
{
	bool known = m->file <= BIG;
	uint64_t size = m->file == BIG ? BIG_BYTES : FILE_BYTES;

	answerer_count(&a->moved);
	m->rc = known ? a->errs[m->file] : -ENODATA;
	if (m->rc)
		return;
	if (m->nloops > CK_MAX_DIMS || m->run == 0 ||
	    !move_fill(m, content[m->file], size)) {
		answerer_count(&a->wrong);
		m->rc = -EIO;
	}
}

/* --- canaries: faults that the test must detect ------------------------------------- */

static inline bool are_alike(const struct ck_copy_desc *x,
			     const struct ck_copy_desc *y)
{
	return x->nloops == 0 && y->nloops == 0 && x->run == y->run &&
	       memcmp(x->to, y->to, x->run) != 0;
}

/* Exchanges the bytes of two moves. */
static inline bool moves_swap(struct ck_copy_batch *batch)
{
	for (size_t i = 0; i + 1 < batch->n; i++) {
		struct ck_copy_desc *x = &batch->list[i], *y = x + 1;

		if (x->rc || y->rc || !are_alike(x, y))
			continue;
		for (uint64_t k = 0; k < x->run; k++) {
			uint8_t swap = x->to[k];

			x->to[k] = y->to[k];
			y->to[k] = swap;
		}
		return true;
	}
	return false;
}

static inline bool moves_spoil(struct ck_copy_batch *batch, enum spoil how)
{
	struct ck_copy_desc *last = &batch->list[batch->n - 1];

	switch (how) {
	case SWAPPED: return moves_swap(batch);
	case LAST_BYTE: last->to[last->run - 1] ^= 0x10; return true;
	case FIRST_BYTE: last->to[0] = (uint8_t)(last->to[0] + 1); return true;
	case NOTHING: break;
	}
	return false;
}

static inline void answerer_fill(struct answerer *a,
				 struct ck_copy_batch *batch)
{
	bool cancelled = __atomic_load_n(&batch->cancelled, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < batch->n; i++) {
		if (cancelled)
			batch->list[i].rc = -EINTR;
		else
			answerer_move(a, &batch->list[i]);
	}
	if (!cancelled && a->spoil && moves_spoil(batch, a->spoil))
		answerer_count(&a->spoiled);
}

/* --- the backend -------------------------------------------------------------------- */

static inline int answerer_start(struct ck_backend *m,
				 struct ck_copy_batch *batch)
{
	struct answerer *a = (struct answerer *)m;

	answerer_count(&a->started);
	if (batch->n == 0)
		answerer_count(&a->wrong);
	if (a->at_once) {
		answerer_fill(a, batch);
		return 0;
	}
	if (a->inside) {
		answerer_fill(a, batch);
		batch->done(batch);
		return -EINPROGRESS;
	}
	pthread_mutex_lock(&a->lock);
	if (a->n == ANSWERER_MOST)
		abort();
	a->queue[a->n++] = batch;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return -EINPROGRESS;
}

static inline void answerer_interrupt(struct ck_backend *m,
				      struct ck_copy_batch *batch)
{
	struct answerer *a = (struct answerer *)m;

	answerer_count(&a->interrupted);
	if (!__atomic_load_n(&batch->cancelled, __ATOMIC_ACQUIRE))
		answerer_count(&a->wrong);
	pthread_mutex_lock(&a->lock);
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

/* A random batch that may complete now, or NULL. Must hold a->lock. */
static inline struct ck_copy_batch *answerer_take(struct answerer *a)
{
	uint64_t from = tap_random(&a->random) % (a->n + 1);

	for (unsigned i = 0; i < a->n; i++) {
		unsigned k = (unsigned)((from + i) % a->n);
		struct ck_copy_batch *batch = a->queue[k];

		if ((a->held || a->never) &&
		    !__atomic_load_n(&batch->cancelled, __ATOMIC_ACQUIRE))
			continue;
		a->queue[k] = a->queue[--a->n];
		return batch;
	}
	return NULL;
}

static inline void *answerer_run(void *arg)
{
	struct answerer *a = arg;

	pthread_mutex_lock(&a->lock);
	for (;;) {
		struct ck_copy_batch *batch = answerer_take(a);

		if (!batch && a->ending)
			break;
		if (!batch) {
			pthread_cond_wait(&a->changed, &a->lock);
			continue;
		}
		pthread_mutex_unlock(&a->lock);
		answerer_fill(a, batch);
		batch->done(batch);
		pthread_mutex_lock(&a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

static inline void answerer_hold(struct answerer *a, bool held)
{
	pthread_mutex_lock(&a->lock);
	a->held = held;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

static inline void answerer_begin(struct answerer *a)
{
	*a = (struct answerer){ .backend = { .name = "answerer",
					     .start = answerer_start,
					     .interrupt = answerer_interrupt },
				.random = 77 };
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	if (pthread_create(&a->thread, NULL, answerer_run, a))
		abort();
}

static inline void answerer_end(struct answerer *a)
{
	pthread_mutex_lock(&a->lock);
	a->ending = true;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
}

/* --- a locator that reads headers first ------------------------------------------------ */

enum { HEADER_BYTES = 4 };

/* Each header contains the position of the next one. */
struct headers {
	struct ck_locator locator;
	struct world *w;
	struct ck_files *files;
	uint32_t file;	/* of part 0; then one after the other */
	unsigned depth; /* headers to be read before the boxes are known */
	/* Atomic: */
	unsigned asked, given, put, wrong;
};

static inline int headers_read(struct headers *h, const struct ck_file *file)
{
	uint64_t at = 0;
	int rc = 0;

	for (unsigned i = 0; i < h->depth && rc == 0; i++) {
		uint8_t got[HEADER_BYTES];

		rc = ck_files_read(h->files, file, got, sizeof(got), at,
				   UINT64_MAX);
		if (rc == 0 &&
		    memcmp(got, content[file->number] + at, sizeof(got)) != 0)
			answerer_count(&h->wrong);
		if (rc == 0)
			at = (got[0] | (unsigned)got[1] << 8) %
			     (FILE_BYTES - HEADER_BYTES);
	}
	return rc;
}

static inline int headers_get(struct ck_locator *l, uint32_t tensor,
			      const uint64_t *window,
			      const struct ck_layout **out)
{
	struct headers *h = (struct headers *)l;
	struct ck_file file;
	int rc = ck_files_get(h->files, (h->file + tensor) % NFILES, &file);

	(void)window;
	answerer_count(&h->asked);
	if (rc)
		return rc;
	rc = headers_read(h, &file);
	ck_files_put(h->files, &file);
	if (rc == 0) {
		*out = &h->w->layout;
		answerer_count(&h->given);
	}
	return rc;
}

static inline void headers_put(struct ck_locator *l,
			       const struct ck_layout *layout)
{
	(void)layout;
	answerer_count(&((struct headers *)l)->put);
}

static inline struct ck_open_slice *headers_open(struct headers *h,
						 struct world *w,
						 struct ck_files *in,
						 unsigned depth)
{
	struct ck_open_slice *o;

	*h = (struct headers){ .locator = { .get = headers_get,
					    .put = headers_put },
			       .w = w,
			       .files = in,
			       .depth = depth };
	if (ck_open_slice_make(&w->slice, &h->locator, &o))
		abort();
	return o;
}

#endif
