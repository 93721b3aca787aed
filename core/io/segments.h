/* SPDX-License-Identifier: MIT */
/*
 * segments: prefetched ranges of slices, and their memory. Segments of one slice
 * never overlap. A segment is new, in flight (COMING), ready, or has failed (GONE).
 * A ready one without readers is idle, or spent if all its bytes were taken; the
 * memory of both is reused. Has no lock: must hold ck_streams.lock.
 */
#ifndef CK_SEGMENTS_H
#define CK_SEGMENTS_H

#include "ckptfs/stream.h"
#include "source/stats.h"

enum ck_segment_state {
	CK_SEGMENT_NEW, /* queued */
	CK_SEGMENT_IN_FLIGHT,
	CK_SEGMENT_READY,
	CK_SEGMENT_FAILED, /* failed, and removed from the table */
};

struct ck_segment {
	struct ck_segment *same; /* next in its bucket */
	struct ck_segment *before,
		/* neighbours in a list, while it is new, idle or spent */
		*after;
	uint64_t slice, begin, end; /* range in the slice, in bytes */
	uint8_t *bytes;
	uint64_t room;	  /* bytes of `bytes` */
	uint64_t taken;	  /* bytes delivered to readers */
	uint64_t changes; /* ck_files_changes() when it was added */
	uint64_t used;	  /* last use, in milliseconds */
	uint32_t readers; /* readers that hold or wait for its bytes */
	enum ck_segment_state state;
	struct ck_stream_piece *waiting;
	struct ck_streams *streams;
	/* stream that caused it; held while in flight */
	struct ck_stream *stream;
	struct ck_read read;
};

struct ck_segment_list {
	struct ck_segment *oldest, *newest;
	uint64_t bytes; /* sum of `room` */
};

enum { CK_SEGMENT_BUCKETS = 64 };

/* Zero-initialise all fields but the limits. */
struct ck_segments {
	uint64_t most;	/* limit: bytes of one segment */
	uint64_t cache; /* limit: bytes of all segments */
	/* Bytes of spent segments that are kept for other readers; may change. */
	uint64_t kept;
	uint64_t bytes; /* bytes of all segments */
	struct ck_segment *buckets[CK_SEGMENT_BUCKETS];
	struct ck_stats *stats;	      /* NULL: not counted */
	struct ck_segment_list fresh; /* new, in order */
	/* Ready, without readers: */
	struct ck_segment_list idle;
	struct ck_segment_list spent; /* all bytes were taken */
};

/* Segment that contains a byte of a slice; NULL if no segment does. */
struct ck_segment *ck_segments_find(const struct ck_segments *all,
				    uint64_t slice, uint64_t vpos);
/* Offset of the first segment at or behind vpos, which must be in no segment;
 * UINT64_MAX if no segment follows. */
uint64_t ck_segments_next(const struct ck_segments *all, uint64_t slice,
			  uint64_t vpos);
/* Adds a new segment for a range that overlaps no other, of at most `most` bytes.
 * NULL if out of memory. now: milliseconds. */
struct ck_segment *ck_segments_add(struct ck_segments *all, uint64_t slice,
				   uint64_t begin, uint64_t end, uint64_t now);
/* Takes the oldest new segment, which is in flight then; NULL if all are. */
struct ck_segment *ck_segments_start(struct ck_segments *all);
/* Completes a segment; good: its bytes are there. Frees a failed one without
 * readers. */
void ck_segments_complete(struct ck_segments *all, struct ck_segment *s,
			  bool good, uint64_t now);
void ck_segments_hold(struct ck_segments *all, struct ck_segment *s);
/* taken: bytes that the reader used. */
void ck_segments_release(struct ck_segments *all, struct ck_segment *s,
			 uint64_t taken, uint64_t now);
/* Frees segments that were unused for `msec` milliseconds; three times as long if
 * some bytes were not taken. */
void ck_segments_age(struct ck_segments *all, uint64_t now, uint64_t msec);

#endif
