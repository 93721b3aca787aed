/* SPDX-License-Identifier: MIT */
/*
 * read_ahead: read-ahead on the data files of a sequential reader. The kernel's own
 * read-ahead sees a data file only through the mapping, in ranges that jump from shard to
 * shard. Measured on cold shards, it reaches two thirds of a plain read, and with this
 * object a reader reaches nearly all of it.
 *
 * A stream is one open file of the mount. After START sequential bytes the stream
 * queues the ranges of data files that its next WINDOW bytes come from, BATCH bytes at a
 * time. THREADS threads read them into the page cache. A file belongs to one thread,
 * which therefore reads it in file order. The reader never waits for these threads: ranges
 * that exceed a full queue are dropped. A range that is resident costs one system call
 * for each PROBE bytes.
 */
#include "range.h"
#include "residency.h"
#include "workspace.h"

#include <pthread.h>

enum {
	THREADS = 2,
	QUEUE = 2048,	     /* ranges queued for one thread */
	NEAR = 4 << 20,	     /* bytes by which requests of a reader overtake */
	START = 512 << 10,   /* sequential bytes before read-ahead begins */
	WINDOW = 32 << 20,   /* bytes of the slice ahead of the reader */
	BATCH = 8 << 20,     /* bytes queued together */
	PLAN_STEP = 2 << 20, /* bytes planned at once */
	PROBE = 512 << 10,   /* bytes between two residency probes */
};

struct range {
	uint32_t file;
	uint64_t fpos;
	uint64_t len;
};

/* A thread and its queue of ranges; first in, first out. */
struct fetcher {
	/* Constant, or used by this thread only: */
	struct ck_ahead *ahead;
	pthread_t thread;
	char block[CK_RESIDENCY_BLOCK];
	/* Protected by ck_ahead.lock: */
	pthread_cond_t more;
	struct range queue[QUEUE];
	size_t head, count;
};

struct ck_ahead {
	/* Constant: */
	struct ck_files *files;
	int nthreads;

	pthread_mutex_t lock;
	/* Protected by lock, as are all streams: */
	bool stop;
	struct fetcher fetchers[THREADS]; /* their queues */
};

/* --- fetching --------------------------------------------------------------- */

/* Probes bytes across the range: the kernel's own read-ahead may have read the ends
 * of a range only. */
static bool is_resident(const struct ck_file *file, const struct range *r)
{
	for (uint64_t at = 0; at < r->len; at += PROBE)
		if (!ck_residency_test(file, r->fpos + at))
			return false;
	return r->len == 0 || ck_residency_test(file, r->fpos + r->len - 1);
}

static void fetch(struct fetcher *f, const struct range *r)
{
	struct ck_files *files = f->ahead->files;
	struct ck_file file;

	if (ck_files_get(files, r->file, &file))
		return; /* the read itself will report the error */
	if (!is_resident(&file, r))
		ck_residency_load(&file, r->fpos, r->len, f->block);
	ck_files_put(files, &file);
}

static void *run(void *arg)
{
	struct fetcher *f = arg;
	struct ck_ahead *a = f->ahead;

	pthread_mutex_lock(&a->lock);
	for (;;) {
		struct range r;

		while (f->count == 0 && !a->stop)
			pthread_cond_wait(&f->more, &a->lock);
		if (a->stop)
			break;
		r = f->queue[f->head];
		f->head = (f->head + 1) % QUEUE;
		f->count--;
		pthread_mutex_unlock(&a->lock);
		fetch(f, &r);
		pthread_mutex_lock(&a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

/* If no thread starts, there is no read-ahead; reads work. */
static void start_threads(struct ck_ahead *a)
{
	for (; a->nthreads < THREADS; a->nthreads++) {
		struct fetcher *f = &a->fetchers[a->nthreads];

		f->ahead = a;
		pthread_cond_init(&f->more, NULL);
		if (ck_thread_start(&f->thread, run, f))
			break;
	}
}

struct ck_ahead *ck_ahead_make(struct ck_files *files)
{
	struct ck_ahead *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->files = files;
	pthread_mutex_init(&a->lock, NULL);
	start_threads(a);
	return a;
}

void ck_ahead_free(struct ck_ahead *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	for (int i = 0; i < a->nthreads; i++)
		pthread_cond_signal(&a->fetchers[i].more);
	pthread_mutex_unlock(&a->lock);
	for (int i = 0; i < a->nthreads; i++)
		pthread_join(a->fetchers[i].thread, NULL);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* --- streams ----------------------------------------------------------------- */

/* Records a read of [begin, end). Returns true and sets [*from, *to), in bytes of the
 * slice, if data must be queued now. Must hold ck_ahead.lock. */
static bool advance(struct ck_ahead_stream *s, uint64_t size, uint64_t begin,
		    uint64_t end, uint64_t *from, uint64_t *to)
{
	if (begin > s->next + NEAR || s->next > begin + NEAR)
		*s = (struct ck_ahead_stream){ .next = begin };
	s->next = ck_max(s->next, end);
	s->read += end - begin;
	if (s->read < START)
		return false;
	*from = ck_max(s->asked, s->next);
	*to = ck_min(s->next + WINDOW, size);
	if (*from >= *to || (*to - *from < BATCH && *to < size))
		return false;
	s->asked = *to;
	return true;
}

static void push(struct ck_ahead *a, const struct range *r)
{
	struct fetcher *f;

	if (a->nthreads == 0)
		return;
	f = &a->fetchers[r->file % (uint32_t)a->nthreads];
	pthread_mutex_lock(&a->lock);
	if (f->count < QUEUE) {
		f->queue[(f->head + f->count++) % QUEUE] = *r;
		pthread_cond_signal(&f->more);
	}
	pthread_mutex_unlock(&a->lock);
}

static void queue_range(void *arg, uint32_t file, uint64_t fpos, uint64_t len)
{
	struct ck_ahead *a = arg;

	if (!ck_files_is_remote(a->files, file))
		push(a, &(struct range){ file, fpos, len });
}

/* Queues the ranges that the ops of a plan load. */
static void queue_plan(struct ck_ahead *a, const struct ck_plan *plan,
		       const struct ck_layout *layout)
{
	for (size_t i = 0; i < plan->ncopies; i++) {
		const struct ck_plan_op *c = &plan->copies[i];
		const struct ck_extent *e = &layout->extents[c->chunk];
		uint64_t fpos = e->pos + c->src, end;

		if (!e->err && !e->memory && e->file != CK_NO_FILE &&
		    ck_range_end(plan, c, e->pos, &end))
			queue_range(a, e->file, fpos, end - fpos);
	}
}

static void queue_box(struct ck_ahead *a, const struct ck_layout *layout,
		      const uint64_t *box, uint64_t begin, uint64_t end)
{
	struct ck_workspace *s = ck_workspace_get();
	struct ck_request q;

	if (!s || layout->err)
		return;
	q = ck_range_request(layout, box);
	for (q.begin = begin; q.begin < end; q.begin = q.end) {
		q.end = ck_min(q.begin + PLAN_STEP, end);
		if (ck_plan_make(&q, &s->plan))
			return;
		queue_plan(a, &s->plan, layout);
		ck_workspace_trim(s);
	}
}

static void queue_part(struct ck_ahead *a, const struct ck_open_slice *o,
		       uint32_t i, uint64_t begin, uint64_t end)
{
	struct ck_part part = ck_slice_part(ck_open_slice_slice(o), i);
	const struct ck_layout *known;

	if (part.kind == CK_PART_RANGE)
		queue_range(a, part.number, part.at.fpos + begin, end - begin);
	if (part.kind != CK_PART_BOX)
		return;
	ck_range_source(&part, &begin, &end);
	known = ck_open_slice_known(o, i);
	if (known)
		queue_box(a, known, part.at.box, begin, end);
	else /* to locate the part might block */
		ck_open_slice_guess(o, i, begin, end, queue_range, a);
}

static void queue_slice(struct ck_ahead *a, const struct ck_open_slice *o,
			uint64_t from, uint64_t to)
{
	const struct ck_slice *slice = ck_open_slice_slice(o);
	uint32_t i = ck_slice_find(slice, from);
	uint64_t at = ck_slice_begin(slice, i), next;

	for (; i < slice->nparts && at < to; i++, at = next) {
		uint64_t begin = ck_max(from, at);
		uint64_t end;

		next = ck_slice_begin(slice, i + 1);
		end = ck_min(to, next);
		if (begin < end)
			queue_part(a, o, i, begin - at, end - at);
	}
}

void ck_ahead_note(struct ck_ahead *a, struct ck_ahead_stream *s,
		   const struct ck_read *r)
{
	uint64_t size, from, to;
	bool due;

	if (!a || r->len == 0)
		return;
	size = ck_open_slice_slice(r->from)->size;
	pthread_mutex_lock(&a->lock);
	due = advance(s, size, r->vpos, r->vpos + r->len, &from, &to);
	pthread_mutex_unlock(&a->lock);
	if (due)
		queue_slice(a, r->from, from, to);
}
