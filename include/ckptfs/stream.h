/* SPDX-License-Identifier: MIT */
/*
 * stream: prefetch of bytes of remote files. A sequential reader of an open slice
 * is a stream. The ranges that follow are fetched in segments, as many bytes as
 * were read so far, at most 64 MiB. All readers of a range share one segment, and
 * the memory of segments is reused. A part of io.
 *
 * A failed prefetch is not reported; the reader falls back to a direct fetch. One
 * thread starts the segments. The thread in which a segment completes calls its
 * waiting readers.
 */
#ifndef CKPTFS_STREAM_H
#define CKPTFS_STREAM_H

#include "ckptfs/io.h"

#include <sys/uio.h>

/* All streams of one mount. Any thread. */
struct ck_streams;

enum { CK_STREAM_OVERTAKING = 8 };

/* One reader of an open slice. Zero-initialise all fields but the first two. */
struct ck_stream {
	/* Constant. Equal for slices that have the same bytes, and different for
	 * all others: */
	uint64_t slice;
	void *reader; /* argument for hold() and drop() */
	/* Private, protected by ck_streams.lock. vpos where the sequential run
	 * began: */
	uint64_t begin;
	uint64_t next;	/* vpos up to which all bytes were read since `begin` */
	uint64_t asked; /* vpos up to which segments were queued */
	/* Limit of bytes queued ahead, lowered if segments were evicted before they
	 * were read; 0: the default. */
	uint64_t most;
	bool here; /* the last segment had no remote bytes */

	struct ck_stream_range {
		uint64_t begin, end;
	} over[CK_STREAM_OVERTAKING]; /* reads that overtook earlier ones */

	uint32_t nover;
};

struct ck_streams_options {
	struct ck_route *route;
	/* bytes of the largest segment, a power of two, at least CK_STREAM_LEAST */
	uint64_t segment;
	uint64_t cache; /* most bytes of all segments */
	/* until memory of unused segments is freed; 0: 10 s */
	uint32_t unused_msec;
	/* Keep the stream and its open slice alive from hold() to drop(), which are
	 * called in pairs. drop() is called without a lock. */
	void (*hold)(struct ck_stream *s);
	void (*drop)(struct ck_stream *s);
};

/* Starts the thread, so that it must not be called before the last fork(2). Returns
 * 0, or: -ENOMEM; errors of pthread_create(3). */
CK_MUST_USE int ck_streams_make(const struct ck_streams_options *options,
				struct ck_streams **out);
/* Cancels all segments and joins the thread. No reader may wait or read any more.
 * Must be called before the route ends. NULL is allowed. */
void ck_streams_free(struct ck_streams *all);
/* Bytes of memory of all segments. NULL is allowed. */
uint64_t ck_streams_bytes(struct ck_streams *all);

enum { CK_STREAM_PIECES = 8, CK_STREAM_LEAST = 64 };

/* A read from segments. Zero-initialise all fields but done and arg. */
struct ck_stream_read {
	/* Called once if the read had to wait, by any thread that holds no lock.
	 * rc: 0; -EIO if a segment failed; -EINTR if interrupted. NULL if the read
	 * must not wait. */
	void (*done)(struct ck_stream_read *r, int rc);
	void *arg;
	/* The bytes, valid from rc 0 until ck_stream_put(): */
	struct iovec bytes[CK_STREAM_PIECES];
	uint32_t n;

	/* Private, protected by ck_streams.lock: */
	struct ck_stream_piece {
		struct ck_segment *from;
		struct ck_stream_read *read;
		/* next read that waits for the same segment */
		struct ck_stream_piece *next;
	} pieces[CK_STREAM_PIECES];
	/* next read that is called together with it */
	struct ck_stream_read *later;
	/* number of segments that are not complete */
	uint32_t left;
	uint64_t begun; /* begin of the wait, in milliseconds */
	bool waits, cancelled, failed;
};

/* Finds the bytes of `what` in segments. The stream reads them now, so this may
 * queue the ranges that follow. Never blocks. Returns 0 if the bytes are there, or
 * -EINPROGRESS if done() is called, possibly before this returns. Otherwise
 * ck_stream_put() must not be called: -EAGAIN if some bytes have not arrived and
 * r->done is NULL; -ENOENT if no segment has some of the bytes; -EINTR if
 * interrupted. */
CK_MUST_USE int ck_stream_read(struct ck_streams *all, struct ck_stream *s,
			       const struct ck_read *what,
			       struct ck_stream_read *r);
/* Releases the bytes. */
void ck_stream_put(struct ck_streams *all, struct ck_stream_read *r);
/* Cancels a read: its done() is called soon, with -EINTR unless the bytes have
 * arrived. Does not call done(). May be called until done() has returned, and for a
 * read that does not wait. */
void ck_stream_interrupt(struct ck_streams *all, struct ck_stream_read *r);

/* Receives n contiguous ranges of bytes, which are valid until it returns. */
typedef void ck_stream_taker(void *arg, const struct iovec *bytes, uint32_t n);

/* Reads from segments, or else by the route, and blocks. Returns 0, or an error of
 * ck_io_read(). If 0, it has called `take` once, in the calling thread. Caller
 * owns what->to, a buffer for the bytes, which may remain unused. */
CK_MUST_USE int ck_stream_pass(struct ck_streams *all, struct ck_route *route,
			       struct ck_stream *s, struct ck_read *what,
			       ck_stream_taker *take, void *arg);

/* Records that the stream does this read by other means. remote: some of its
 * bytes are remote, so the ranges that follow may be queued. Never blocks, never
 * fails. */
void ck_stream_note(struct ck_streams *all, struct ck_stream *s,
		    const struct ck_read *what, bool remote);

#endif
