/* SPDX-License-Identifier: MIT */
/*
 * stream: bytes of remote files that are brought before somebody asks for them. Who
 * reads an open slice from front to back is a stream: what follows is brought in
 * segments, as much as was read so far, 64 MiB at most. A segment is brought once for
 * all who read there, and its memory is used again. A part of move.
 *
 * What does not come this way says nothing: whoever needs it asks for it by itself.
 */
#ifndef CKPTFS_STREAM_H
#define CKPTFS_STREAM_H

#include "ckptfs/move.h"

#include <sys/uio.h>

/* All streams of one mount. Any thread. */
struct ck_streams;

enum { CK_STREAM_OVERTAKING = 8 };

/* One reader of an open slice; zero-initialise the rest. */
struct ck_stream {
	/* Constant: slices that have the same bytes have the same number, and no
	 * others: */
	uint64_t slice;
	void *reader; /* for hold() and drop() */
	/* Private, under ck_streams.lock: */
	uint64_t begin; /* vpos where it began to read on */
	uint64_t next;	/* vpos up to which all was read since */
	uint64_t asked; /* vpos up to which all was asked for */
	uint64_t
		most; /* bytes that are asked for ahead, if they were lost before */
	bool here; /* what was asked for last has no remote bytes */

	struct ck_stream_range {
		uint64_t begin, end;
	} over[CK_STREAM_OVERTAKING]; /* reads that have overtaken others */

	uint32_t nover;
};

struct ck_streams_options {
	struct ck_route *route;
	uint64_t
		segment; /* bytes of one at most, a power of two, at least CK_STREAM_LEAST */
	uint64_t cache;	      /* bytes of all segments at most */
	uint32_t unused_msec; /* until memory is given back that nobody uses; 0:
				* 10 s */
	/* The stream, and the slice that it reads, are there from hold() to drop(),
	 * which are called in pairs; drop() with no lock. */
	void (*hold)(struct ck_stream *s);
	void (*drop)(struct ck_stream *s);
};

/* Starts its thread: not before the last fork(2). -ENOMEM, errors of
 * pthread_create(3). */
CK_MUST_USE int ck_streams_make(const struct ck_streams_options *options,
				struct ck_streams **out);
/* Nothing is brought any more, and its thread has ended; nobody waits, or reads, any
 * more. Before the route ends. NULL is allowed. */
void ck_streams_free(struct ck_streams *all);
/* Bytes of memory that the segments have now. NULL is allowed. */
uint64_t ck_streams_bytes(struct ck_streams *all);

enum { CK_STREAM_PIECES = 8, CK_STREAM_LEAST = 64 };

/* A read that is answered from segments. Zero-initialise, but for done and arg. */
struct ck_stream_read {
	/* Called once if it had to wait, by any thread that holds no lock. rc: as of
	 * ck_stream_read(); what is brought has failed: -EIO. NULL: it does not
	 * wait. */
	void (*done)(struct ck_stream_read *r, int rc);
	void *arg;
	/* Where the bytes are, from 0 until ck_stream_put(). */
	struct iovec bytes[CK_STREAM_PIECES];
	uint32_t n;

	/* Private, under ck_streams.lock: */
	struct ck_stream_piece {
		struct ck_segment *from;
		struct ck_stream_read *read;
		struct ck_stream_piece
			*next; /* that waits for the same segment */
	} pieces[CK_STREAM_PIECES];
	struct ck_stream_read *later; /* that is called with it */
	uint32_t left;		      /* pieces that are on their way */
	uint64_t begun;		      /* when it began to wait, in ms */
	bool waits, unwanted, failed;
};

/* The bytes of `what`, within its slice; the stream reads them now, so what follows may
 * be asked for. 0: they are there. -EINPROGRESS: done() will be called, or was. Else
 * nothing is to be put back: -EAGAIN: they are not all there, and r->done is NULL;
 * -ENOENT: nobody brings all of them; -EINTR. Never waits. */
CK_MUST_USE int ck_stream_read(struct ck_streams *all, struct ck_stream *s,
			       const struct ck_read *what,
			       struct ck_stream_read *r);
/* Gives the bytes back. */
void ck_stream_put(struct ck_streams *all, struct ck_stream_read *r);
/* It is called soon, with -EINTR if they have not come. Does not call done(); may be
 * called until that has returned, also of one that does not wait. */
void ck_stream_interrupt(struct ck_streams *all, struct ck_stream_read *r);

/* Takes bytes in n pieces, one behind the other, which are not its own. */
typedef void ck_stream_taker(void *arg, const struct iovec *bytes, uint32_t n);

/* Reads from segments or by the route, and waits: as ck_move_read(). If there is no error
 * the bytes are handed over where they are, once and in the calling thread; what->to is
 * room for them, in which they need not be. */
CK_MUST_USE int ck_stream_pass(struct ck_streams *all, struct ck_route *route,
			       struct ck_stream *s, struct ck_read *what,
			       ck_stream_taker *take, void *arg);

/* The stream reads this now, from elsewhere; remote: something of it is remote, so what
 * follows may be asked for. Never waits, never fails. */
void ck_stream_note(struct ck_streams *all, struct ck_stream *s,
		    const struct ck_read *what, bool remote);

#endif
