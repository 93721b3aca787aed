/* SPDX-License-Identifier: MIT */
/*
 * stream: prefetch of remote ranges for sequential readers. Readers record their
 * reads and queue segments; one thread starts the segments, so that no reader waits
 * while they are planned, or while local bytes are copied. The thread that
 * completes a segment calls the readers that wait for it.
 *
 * All state, also that of each ck_stream, is protected by ck_streams.lock. done()
 * and drop() are called without it.
 */
#include "segments.h"

#include <errno.h>
#include <pthread.h>

enum {
	/* Bytes queued ahead of the reader, for segments of 2 MiB and more: they
	 * fit into a processor's cache, and cover a latency of 10 ms at 1 GB/s. */
	AHEAD = 16 << 20,
	AHEAD_MOST = 64 << 20, /* same, for the largest segments */
	KEPT = 64 << 20, /* bytes kept for slower readers of the same ranges */
	SEVERAL_MSEC =
		2000, /* after which a reader counts as the only one again */
	UNUSED_MSEC = 10000, /* until memory of unused segments is freed */
	TICK_MSEC = 1000,
};

struct ck_streams {
	/* Constant: */
	struct ck_streams_options options;
	/* bytes by which requests of one reader overtake each other */
	uint64_t near;
	uint64_t start; /* sequential bytes before prefetch starts */
	uint64_t ahead; /* most bytes queued ahead */
	uint64_t least; /* bytes of the smallest segment */
	pthread_t thread;

	pthread_mutex_t lock;
	/* Under lock, as every stream is: */
	pthread_cond_t changed;
	bool ending;
	uint32_t running; /* segments that are new or in flight */
	struct ck_segments segments;
	const void *last; /* last reader; may have been freed */
	uint64_t several; /* last change of the reader, in ms; 0: never */
	struct ck_stream_read *interrupted;
};

static uint64_t changes_of(const struct ck_streams *all)
{
	return ck_files_changes(all->options.route->files);
}

static void read_done(struct ck_read *r, int rc);

/* --- queueing ------------------------------------------------------------------- */

static void begin_anew(struct ck_stream *s, uint64_t begin, uint64_t end)
{
	s->begin = begin;
	s->next = end;
	s->asked = 0;
	s->nover = 0;
}

/* Continues the stream with an overtaking read that begins at `next`. */
static bool take_over(struct ck_stream *s)
{
	for (uint32_t i = 0; i < s->nover; i++)
		if (s->over[i].begin == s->next) {
			s->next = s->over[i].end;
			s->over[i] = s->over[--s->nover];
			return true;
		}
	return false;
}

/* Moves the stream on by a read. Returns true if the read is sequential. */
static bool advance(const struct ck_streams *all, struct ck_stream *s,
		    uint64_t begin, uint64_t end)
{
	if (begin == s->next) {
		s->next = end;
		while (take_over(s))
			;
		return true;
	}
	if (begin < s->begin || begin > s->next + all->near ||
	    s->next > begin + all->near ||
	    (begin > s->next && s->nover == CK_STREAM_OVERTAKING))
		begin_anew(s, begin, end);
	else if (begin > s->next)
		s->over[s->nover++] = (struct ck_stream_range){ begin, end };
	return false;
}

/* End of the bytes that are queued, or were read by the reader itself. */
static uint64_t end_of(const struct ck_stream *s)
{
	uint64_t end = ck_max(s->asked, s->next);

	for (uint32_t i = 0; i < s->nover; i++)
		end = ck_max(end, s->over[i].end);
	return end;
}

/* Queues a segment. Returns false if there is no memory for it. */
static bool add(struct ck_streams *all, struct ck_stream *s,
		struct ck_open_slice *from, uint64_t begin, uint64_t end)
{
	struct ck_segment *segment = ck_segments_add(&all->segments, s->slice,
						     begin, end, ck_msec_now());

	if (!segment)
		return false;
	segment->streams = all;
	segment->stream = s;
	segment->changes = changes_of(all);
	segment->read = (struct ck_read){ .from = from,
					  .vpos = begin,
					  .len = end - begin,
					  .to = segment->bytes,
					  .ahead = true,
					  .done = read_done,
					  .arg = segment };
	all->options.hold(s);
	all->running++;
	return true;
}

/* Queues as many bytes ahead as were read, in segments that grow with them. */
static void ask(struct ck_streams *all, struct ck_stream *s,
		struct ck_open_slice *from)
{
	const struct ck_segments *segments = &all->segments;
	uint64_t size = ck_open_slice_slice(from)->size;
	uint64_t most = s->most ? s->most : all->ahead;
	uint64_t ahead = ck_min(s->next - s->begin, most);
	uint64_t till = ck_min(s->next + ahead, size);
	uint64_t least = ck_min(ck_max(ahead / 4, all->least), segments->most);
	uint64_t at = end_of(s);

	while (at < till) {
		const struct ck_segment *there = ck_segments_find(segments,
								  s->slice, at);
		uint64_t end = ck_min(till, at + segments->most);

		if (there) {
			at = there->end;
			continue;
		}
		if (end - at < least && end < size)
			break;
		end = ck_min(end, ck_segments_next(segments, s->slice, at));
		if (!add(all, s, from, at, end))
			break;
		at = end;
	}
	s->asked = at;
}

static void note(struct ck_streams *all, struct ck_stream *s,
		 const struct ck_read *what, bool remote)
{
	if (!advance(all, s, what->vpos, what->vpos + what->len) || !remote ||
	    s->next - s->begin < all->start || all->ending)
		return;
	ask(all, s, what->from);
	if (all->segments.fresh.oldest)
		pthread_cond_signal(&all->changed);
}

/* A prefetched range is missing: it failed, or was evicted before a slow reader
 * reached it. Halves the bytes queued ahead. */
static void note_lost(const struct ck_streams *all, struct ck_stream *s,
		      const struct ck_read *what)
{
	if (what->vpos >= s->asked ||
	    ck_segments_find(&all->segments, s->slice, what->vpos))
		return;
	s->most = ck_max((s->most ? s->most : all->ahead) / 2, all->start);
	begin_anew(s, what->vpos, what->vpos);
}

void ck_stream_note(struct ck_streams *all, struct ck_stream *s,
		    const struct ck_read *what, bool remote)
{
	pthread_mutex_lock(&all->lock);
	if (remote) {
		s->here = false;
		note_lost(all, s, what);
	}
	note(all, s, what, remote);
	pthread_mutex_unlock(&all->lock);
}

/* --- reads from segments; under the lock ------------------------------------------- */

/* Finds the pieces of a read; counts those that are not ready. */
static int look(const struct ck_streams *all, const struct ck_stream *s,
		const struct ck_read *what, struct ck_stream_read *r)
{
	uint64_t changes = changes_of(all), end = what->vpos + what->len;

	r->n = r->left = 0;
	for (uint64_t at = what->vpos; at < end;) {
		struct ck_segment *from = ck_segments_find(&all->segments,
							   s->slice, at);
		uint64_t till;

		if (!from || from->changes != changes ||
		    r->n == CK_STREAM_PIECES)
			return -ENOENT;
		till = ck_min(end, from->end);
		r->bytes[r->n] = (struct iovec){
			from->bytes + (at - from->begin), till - at
		};
		r->pieces[r->n++] = (struct ck_stream_piece){ from, r, NULL };
		r->left += from->state != CK_SEGMENT_READY;
		at = till;
	}
	if (r->left && !r->done)
		return -EAGAIN;
	return r->left ? -EINPROGRESS : 0;
}

static void hold(struct ck_streams *all, struct ck_stream_read *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		struct ck_stream_piece *p = &r->pieces[i];

		ck_segments_hold(&all->segments, p->from);
		if (p->from->state == CK_SEGMENT_READY)
			continue;
		p->next = p->from->waiting;
		p->from->waiting = p;
	}
	r->waits = r->left > 0;
	r->begun = r->waits ? ck_msec_now() : 0;
}

/* taken: the reader used the bytes. */
static void release(struct ck_streams *all, struct ck_stream_read *r,
		    bool taken)
{
	uint64_t now = ck_msec_now();

	for (uint32_t i = 0; i < r->n; i++)
		ck_segments_release(&all->segments, r->pieces[i].from,
				    taken ? r->bytes[i].iov_len : 0, now);
	r->n = 0;
}

/* Bytes that were read are kept while there are several readers. */
static void note_reader(struct ck_streams *all, const struct ck_stream *s)
{
	uint64_t now = ck_msec_now();

	if (all->last && all->last != s)
		all->several = now;
	all->last = s;
	all->segments.kept = all->several && now - all->several < SEVERAL_MSEC
				     ? KEPT
				     : 0;
}

int ck_stream_read(struct ck_streams *all, struct ck_stream *s,
		   const struct ck_read *what, struct ck_stream_read *r)
{
	int rc;

	pthread_mutex_lock(&all->lock);
	rc = r->cancelled ? -EINTR : look(all, s, what, r);
	if (rc == 0 || rc == -EINPROGRESS) {
		note_reader(all, s);
		hold(all, r);
		note(all, s, what, !s->here);
	} else {
		r->n = 0;
	}
	pthread_mutex_unlock(&all->lock);
	return rc;
}

void ck_stream_put(struct ck_streams *all, struct ck_stream_read *r)
{
	pthread_mutex_lock(&all->lock);
	release(all, r, true);
	pthread_mutex_unlock(&all->lock);
}

void ck_stream_interrupt(struct ck_streams *all, struct ck_stream_read *r)
{
	pthread_mutex_lock(&all->lock);
	if (r->waits && !r->cancelled) {
		r->later = all->interrupted;
		all->interrupted = r;
		pthread_cond_signal(&all->changed);
	}
	r->cancelled = true;
	pthread_mutex_unlock(&all->lock);
}

/* --- segments that come ------------------------------------------------------------ */

static void interrupted_forget(struct ck_streams *all,
			       const struct ck_stream_read *r)
{
	struct ck_stream_read **at = &all->interrupted;

	while (*at && *at != r)
		at = &(*at)->later;
	if (*at)
		*at = r->later;
}

/* Lists the reads that wait for no other segment. Must hold the lock. */
static struct ck_stream_read *settle(struct ck_streams *all,
				     struct ck_segment *s, bool good)
{
	struct ck_stream_read *list = NULL;

	for (struct ck_stream_piece *p = s->waiting; p; p = p->next) {
		struct ck_stream_read *r = p->read;

		r->failed |= !good;
		if (--r->left)
			continue;
		if (r->cancelled)
			interrupted_forget(all, r);
		r->waits = false;
		r->later = list;
		list = r;
	}
	s->waiting = NULL;
	return list;
}

static void call(const struct ck_streams *all, struct ck_stream_read *r, int rc)
{
	ck_stats_waited(all->segments.stats, ck_msec_now() - r->begun);
	r->done(r, rc);
}

static void call_all(struct ck_streams *all, struct ck_stream_read *list)
{
	while (list) {
		struct ck_stream_read *r = list;
		int rc = r->failed ? -EIO : 0;

		list = r->later;
		if (rc) {
			pthread_mutex_lock(&all->lock);
			release(all, r, false);
			pthread_mutex_unlock(&all->lock);
		}
		call(all, r, rc);
	}
}

/* here: all its bytes were local. */
static void came(struct ck_segment *s, int rc, bool here)
{
	struct ck_streams *all = s->streams;
	struct ck_stream *stream = s->stream;
	struct ck_stream_read *list;

	pthread_mutex_lock(&all->lock);
	stream->here |= here;
	list = settle(all, s, rc == 0);
	ck_segments_complete(&all->segments, s, rc == 0, ck_msec_now());
	pthread_mutex_unlock(&all->lock);
	all->options.drop(stream);
	call_all(all, list);
	pthread_mutex_lock(&all->lock);
	all->running--;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

static void read_done(struct ck_read *r, int rc)
{
	came(r->arg, rc, false);
}

static void start(const struct ck_streams *all, struct ck_segment *s)
{
	int rc = ck_route_read(all->options.route, &s->read);

	if (rc != -EINPROGRESS)
		came(s, rc, rc == 0);
}

/* --- the thread -------------------------------------------------------------------- */

static void unlink_piece(const struct ck_stream_piece *p)
{
	struct ck_stream_piece **at = &p->from->waiting;

	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
}

/* Takes an interrupted read. Must hold the lock. */
static struct ck_stream_read *take_interrupted(struct ck_streams *all)
{
	struct ck_stream_read *r = all->interrupted;

	if (!r)
		return NULL;
	all->interrupted = r->later;
	for (uint32_t i = 0; i < r->n; i++)
		unlink_piece(&r->pieces[i]);
	r->waits = false;
	release(all, r, false);
	return r;
}

static void wait_for_work(struct ck_streams *all)
{
	unsigned unused = all->options.unused_msec;
	unsigned tick = unused < TICK_MSEC ? unused : TICK_MSEC;
	struct timespec till = ck_time_in(CLOCK_MONOTONIC, tick);

	if (all->segments.bytes)
		(void)pthread_cond_timedwait(&all->changed, &all->lock, &till);
	else
		(void)pthread_cond_wait(&all->changed, &all->lock);
	ck_segments_age(&all->segments, ck_msec_now(), unused);
}

static void *run(void *arg)
{
	struct ck_streams *all = arg;

	pthread_mutex_lock(&all->lock);
	while (!all->ending || all->running) {
		struct ck_stream_read *r = take_interrupted(all);
		struct ck_segment *s = r ? NULL
					 : ck_segments_start(&all->segments);

		if (!r && !s) {
			wait_for_work(all);
			continue;
		}
		pthread_mutex_unlock(&all->lock);
		if (r)
			call(all, r, -EINTR);
		else
			start(all, s);
		pthread_mutex_lock(&all->lock);
	}
	pthread_mutex_unlock(&all->lock);
	return NULL;
}

/* --- making ------------------------------------------------------------------------ */

/* Limits the segment size so that at least four fit. */
static uint64_t most_of(const struct ck_streams_options *o)
{
	uint64_t most = o->segment;

	while (most > CK_STREAM_LEAST && most > o->cache / 4)
		most /= 2;
	return most;
}

static uint64_t ahead_of(uint64_t most, uint64_t cache)
{
	uint64_t ahead = ck_max(2 * most, ck_min(8 * most, (uint64_t)AHEAD));

	return ck_min(ck_min(ahead, (uint64_t)AHEAD_MOST), cache / 2);
}

static void limits(struct ck_streams *all, const struct ck_streams_options *o)
{
	uint64_t most = most_of(o);

	all->near = most / 2;
	all->start = most / 4;
	all->least = most / 16;
	all->ahead = ahead_of(most, o->cache);
	all->segments.most = most;
	while (all->segments.most > all->ahead / 8 &&
	       all->segments.most > CK_STREAM_LEAST)
		all->segments.most /= 2;
	all->segments.cache = o->cache;
}

static void destroy(struct ck_streams *all)
{
	pthread_cond_destroy(&all->changed);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

int ck_streams_make(const struct ck_streams_options *options,
		    struct ck_streams **out)
{
	struct ck_streams *all = calloc(1, sizeof(*all));
	pthread_condattr_t clock;
	int rc;

	if (!all)
		return -ENOMEM;
	all->options = *options;
	if (!options->unused_msec)
		all->options.unused_msec = UNUSED_MSEC;
	limits(all, options);
	all->segments.stats = ck_files_stats(options->route->files);
	pthread_mutex_init(&all->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&all->changed, &clock);
	pthread_condattr_destroy(&clock);
	rc = ck_thread_start(&all->thread, run, all);
	if (rc)
		destroy(all);
	else
		*out = all;
	return rc;
}

/* Interrupts segments in flight. */
static void interrupt_all(struct ck_streams *all)
{
	const struct ck_segments *segments = &all->segments;

	for (unsigned i = 0; i < CK_SEGMENT_BUCKETS; i++)
		for (struct ck_segment *s = segments->buckets[i]; s;
		     s = s->same)
			if (s->state < CK_SEGMENT_READY)
				ck_route_interrupt(all->options.route,
						   &s->read.waiter);
}

void ck_streams_free(struct ck_streams *all)
{
	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	all->ending = true;
	interrupt_all(all);
	pthread_cond_signal(&all->changed);
	pthread_mutex_unlock(&all->lock);
	pthread_join(all->thread, NULL);
	ck_segments_age(&all->segments, ck_msec_now(), 0);
	destroy(all);
}

uint64_t ck_streams_bytes(struct ck_streams *all)
{
	uint64_t bytes;

	if (!all)
		return 0;
	pthread_mutex_lock(&all->lock);
	bytes = all->segments.bytes;
	pthread_mutex_unlock(&all->lock);
	return bytes;
}
