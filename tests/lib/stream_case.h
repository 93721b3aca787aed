/* SPDX-License-Identifier: MIT */
/*
 * stream_case: readers of one slice as a mount has them: what segments have they take
 * from there, and ask for the rest by themselves. All in one thread.
 */
#ifndef CK_STREAM_CASE_H
#define CK_STREAM_CASE_H

#include "answerer.h"
#include "ckptfs/stream.h"

#include <semaphore.h>

struct stream_case {
	struct ck_streams *streams;
	struct ck_route route;
	struct ck_files *files;
	struct ck_open_slice *opened;
	/* The mover, which answers only while a read waits; NULL: any time. */
	struct answerer *lazy;
	/* Counts of reads: served from segments, after waiting for
	 * segments, by a direct fetch without a segment, or after a failed
	 * one, and interrupted. */
	unsigned ready, waited, alone, failed, interrupted;
	/* Atomic: */
	unsigned held;
};

/* One reader. */
struct stream_reader {
	struct ck_stream stream; /* first */
	struct stream_case *c;
};

static inline void stream_case_hold(struct ck_stream *s)
{
	__atomic_fetch_add(&((struct stream_reader *)s->reader)->c->held, 1,
			   __ATOMIC_RELAXED);
}

static inline void stream_case_drop(struct ck_stream *s)
{
	__atomic_fetch_sub(&((struct stream_reader *)s->reader)->c->held, 1,
			   __ATOMIC_RELAXED);
}

/* files: some of which are remote; the mover brings their bytes. */
static inline void stream_case_begin(struct stream_case *c, struct ck_files *in,
				     struct ck_open_slice *opened,
				     struct ck_backend *backend,
				     uint64_t segment, uint64_t cache,
				     uint32_t unused_msec)
{
	struct ck_streams_options o = { .route = &c->route,
					.segment = segment,
					.cache = cache,
					.unused_msec = unused_msec,
					.hold = stream_case_hold,
					.drop = stream_case_drop };

	*c = (struct stream_case){ .files = in, .opened = opened };
	ck_route_init(&c->route, in, backend);
	if (ck_streams_make(&o, &c->streams))
		abort();
}

static inline void stream_case_waits(struct stream_case *c, bool waits)
{
	if (c->lazy)
		answerer_hold(c->lazy, !waits);
}

/* From now on. */
static inline void stream_case_be_lazy(struct stream_case *c,
				       struct answerer *a)
{
	c->lazy = a;
	stream_case_waits(c, false);
}

/* Whether nothing is held any more. */
static inline bool stream_case_end(struct stream_case *c)
{
	stream_case_waits(c, true);
	ck_streams_free(c->streams);
	ck_route_fini(&c->route);
	return __atomic_load_n(&c->held, __ATOMIC_RELAXED) == 0;
}

static inline void stream_reader_begin(struct stream_reader *r,
				       struct stream_case *c, uint64_t slice)
{
	*r = (struct stream_reader){ .stream = { .slice = slice, .reader = r },
				     .c = c };
}

struct stream_wait {
	sem_t done;
	int rc;
};

static inline void stream_wake(struct ck_stream_read *r, int rc)
{
	struct stream_wait *w = r->arg;

	w->rc = rc;
	sem_post(&w->done);
}

/* Copies a segment and releases it. */
static inline void stream_copy(struct stream_case *c, struct ck_stream_read *s,
			       uint8_t *to)
{
	for (uint32_t i = 0; i < s->n; i++) {
		memcpy(to, s->bytes[i].iov_base, s->bytes[i].iov_len);
		to += s->bytes[i].iov_len;
	}
	ck_stream_put(c->streams, s);
}

/* By those that are on their way. As of ck_stream_read(). */
static inline int stream_await(struct stream_reader *r,
			       const struct ck_read *what, bool interrupt)
{
	struct stream_wait w = { .rc = 0 };
	struct ck_stream_read s = { .done = stream_wake, .arg = &w };
	int rc;

	sem_init(&w.done, 0, 0);
	rc = ck_stream_read(r->c->streams, &r->stream, what, &s);
	if (interrupt && rc == -EINPROGRESS)
		ck_stream_interrupt(r->c->streams, &s);
	if (rc == -EINPROGRESS) {
		stream_case_waits(r->c, true);
		while (sem_wait(&w.done))
			;
		stream_case_waits(r->c, false);
		rc = w.rc;
		r->c->waited += rc == 0;
		r->c->failed += rc == -EIO;
	}
	sem_destroy(&w.done);
	if (rc == 0)
		stream_copy(r->c, &s, what->to);
	return rc;
}

static inline int stream_alone(struct stream_reader *r, struct ck_read *what,
			       bool note)
{
	int rc = ck_host_read(r->c->files, what);

	if (note)
		ck_stream_note(r->c->streams, &r->stream, what, rc == -EREMOTE);
	r->c->alone++;
	if (rc != -EREMOTE)
		return rc;
	stream_case_waits(r->c, true);
	rc = ck_io_read(&r->c->route, what);
	stream_case_waits(r->c, false);
	return rc;
}

/* Bytes [vpos, vpos + len). 0, -EINTR, or errors as of ck_read. */
static inline int stream_case_read(struct stream_reader *r, uint64_t vpos,
				   uint64_t len, void *to, bool interrupt)
{
	struct ck_read what = {
		.from = r->c->opened, .vpos = vpos, .len = len, .to = to
	};
	struct ck_stream_read now = { .done = NULL };
	int rc = ck_stream_read(r->c->streams, &r->stream, &what, &now);

	if (rc == 0) {
		stream_copy(r->c, &now, to);
		r->c->ready++;
		return 0;
	}
	if (rc != -EAGAIN)
		return stream_alone(r, &what, true);
	rc = stream_await(r, &what, interrupt);
	r->c->interrupted += rc == -EINTR;
	if (rc == 0 || rc == -EINTR)
		return rc;
	what.short_deadline = true;
	return stream_alone(r, &what, rc == -ENOENT);
}

static inline void stream_case_take(void *arg, const struct iovec *bytes,
				    uint32_t n)
{
	uint8_t **to = arg;

	for (uint32_t i = 0; i < n; i++) {
		memcpy(*to, bytes[i].iov_base, bytes[i].iov_len);
		*to += bytes[i].iov_len;
	}
}

/* The same by one who does not know what segments are. */
static inline int stream_case_pass(struct stream_reader *r, uint64_t vpos,
				   uint64_t len, uint8_t *to)
{
	uint8_t *room = malloc(len), *end = to;
	struct ck_read what = {
		.from = r->c->opened, .vpos = vpos, .len = len, .to = room
	};
	int rc;

	stream_case_waits(r->c, true);
	rc = ck_stream_pass(r->c->streams, &r->c->route, &r->stream, &what,
			    stream_case_take, &end);
	stream_case_waits(r->c, false);
	free(room);
	return rc == 0 && end != to + len ? -EPROTO : rc;
}

#endif
