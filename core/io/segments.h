/* SPDX-License-Identifier: MIT */
/*
 * segments: ranges of slices, and the memory that their bytes are brought into. No two of
 * one slice overlap. Whoever calls these has a lock of his own.
 */
#ifndef CK_SEGMENTS_H
#define CK_SEGMENTS_H

#include "ckptfs/stats.h"
#include "ckptfs/stream.h"

enum ck_segment_state {
	CK_SEGMENT_NEW, /* it will be asked for */
	CK_SEGMENT_COMING,
	CK_SEGMENT_READY,
	CK_SEGMENT_GONE, /* it has failed: in no table */
};

struct ck_segment {
	struct ck_segment *same; /* in its bucket */
	struct ck_segment *before,
		*after;		    /* in a list, while it is new or idle */
	uint64_t slice, begin, end; /* vpos */
	uint8_t *bytes;
	uint64_t room;	  /* bytes of memory */
	uint64_t taken;	  /* bytes that were given to readers */
	uint64_t changes; /* of files, that were known when it was asked for */
	uint64_t used;	  /* when it was used last, in milliseconds */
	uint32_t readers; /* who have, or wait for, its bytes */
	enum ck_segment_state state;
	struct ck_stream_piece *waiting;
	struct ck_streams *streams;
	struct ck_stream *stream; /* for which it comes; held until it came */
	struct ck_read read;
};

struct ck_segment_list {
	struct ck_segment *oldest, *newest;
	uint64_t bytes; /* of their memory */
};

enum { CK_SEGMENT_BUCKETS = 64 };

/* Zero-initialise, but for the limits. */
struct ck_segments {
	uint64_t most;	/* bytes of one */
	uint64_t cache; /* bytes of all */
	uint64_t
		kept; /* bytes of spent ones that stay for others; may change */
	uint64_t bytes; /* that they have */
	struct ck_segment *buckets[CK_SEGMENT_BUCKETS];
	struct ck_stats *stats;	      /* NULL: nobody counts */
	struct ck_segment_list fresh; /* new ones */
	/* Nobody has bytes of these: */
	struct ck_segment_list idle;
	struct ck_segment_list spent; /* and all of their bytes were taken */
};

/* The one that has a byte of a slice; NULL: none has. */
struct ck_segment *ck_segments_find(const struct ck_segments *all,
				    uint64_t slice, uint64_t vpos);
/* Where the next one begins at or behind vpos, which is in none; UINT64_MAX: nowhere. */
uint64_t ck_segments_next(const struct ck_segments *all, uint64_t slice,
			  uint64_t vpos);
/* A new one for a range that no other has, of at most `most` bytes; NULL: there is no
 * memory for it. now: milliseconds. */
struct ck_segment *ck_segments_add(struct ck_segments *all, uint64_t slice,
				   uint64_t begin, uint64_t end, uint64_t now);
/* The next new one, which is on its way from now on; NULL: there is none. */
struct ck_segment *ck_segments_start(struct ck_segments *all);
/* Its bytes came, or have failed. Without readers a failed one is freed. */
void ck_segments_came(struct ck_segments *all, struct ck_segment *s, bool good,
		      uint64_t now);
void ck_segments_hold(struct ck_segments *all, struct ck_segment *s);
/* taken: bytes that the reader has used. */
void ck_segments_release(struct ck_segments *all, struct ck_segment *s,
			 uint64_t taken, uint64_t now);
/* Frees those that nobody has used for so many milliseconds, or three times as long if
 * there are bytes of it that nobody has read. */
void ck_segments_age(struct ck_segments *all, uint64_t now, uint64_t msec);

#endif
