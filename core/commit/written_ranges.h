/* SPDX-License-Identifier: MIT */
/*
 * written_ranges: which bytes of a staged or scratch file were written, and which are
 * missing. No function locks; the caller does.
 */
#ifndef CKPTFS_WRITTEN_RANGES_H
#define CKPTFS_WRITTEN_RANGES_H

#include "ckptfs/base.h"

/* --- ranges.c ---------------------------------------------------------------- */

/* Disjoint ranges of a file, sorted. Zero-initialise. */
struct ck_ranges {
	struct ck_range {
		uint64_t begin, end;
	} * r;

	size_t n, cap;
};

/* Returns 0, or: -ENOSPC if there would be more than 2^20 ranges; -ENOMEM. */
CK_MUST_USE int ck_ranges_add(struct ck_ranges *ranges, uint64_t begin,
			      uint64_t end);
/* Removes [begin, end). Errors as of add, since one range may become two. */
CK_MUST_USE int ck_ranges_remove(struct ck_ranges *ranges, uint64_t begin,
				 uint64_t end);
/* Removes everything from `end` on. */
void ck_ranges_cut(struct ck_ranges *ranges, uint64_t end);
/* Reduces [*begin, *end) to the last part that the ranges do not have. Returns false if they
 * have all of it; *begin and *end are undefined then. */
bool ck_ranges_gap(const struct ck_ranges *ranges, uint64_t *begin,
		   uint64_t *end);
bool ck_ranges_have(const struct ck_ranges *ranges, uint64_t begin,
		    uint64_t end);
/* The shortest range of at least len bytes; with `after`, a range that it
 * returned before, the next longer one. NULL: there is none. */
const struct ck_range *ck_ranges_fit(const struct ck_ranges *ranges,
				     uint64_t len,
				     const struct ck_range *after);
/* Of the range that begins at begin, what is before end is gone. */
void ck_ranges_take(struct ck_ranges *ranges, uint64_t begin, uint64_t end);

/* --- written_ranges.c ---------------------------------------------------------- */

/* Zero-initialise. */
struct ck_written_ranges {
	struct ck_ranges ranges; /* written, and not cut off since */
	struct ck_ranges failed; /* by a write, and not written since */
	uint64_t end;		 /* size of the file: the end of the farthest
				  * write, or the size that was set */
	uint32_t by;		 /* the thread of all writes; 0: see jumped */
	bool sized;		 /* the size was set after the last write */
	bool closed; /* by that thread, after the last write and the last size */
	bool jumped; /* skipped bytes are missing, not zeros: the writes did not
		      * come from one thread, front to back, or something else
		      * was seen that tools for sparse files do not do */
};

/* Becomes the state of an empty file. */
void ck_written_clear(struct ck_written_ranges *g);
void ck_written_fini(struct ck_written_ranges *g);
/* Adds `len` bytes at `begin`, written by `thread`; 0 is a thread that cannot be
 * identified. Errors as of ck_ranges_add(); then call ck_written_fail(). */
CK_MUST_USE int ck_written_write(struct ck_written_ranges *g, uint64_t begin,
				 const void *bytes, uint64_t len,
				 uint32_t thread);
CK_MUST_USE int ck_written_fail(struct ck_written_ranges *g, uint64_t begin,
				uint64_t end);
/* Bytes of [begin, end) are unknown after a failed write to a file that is kept
 * for later: they become missing bytes, until they are written again. Errors as
 * of ck_ranges_add(). */
CK_MUST_USE int ck_written_lose(struct ck_written_ranges *g, uint64_t begin,
				uint64_t end);
void ck_written_size(struct ck_written_ranges *g, uint64_t size);
/* fallocate(2): the file ends at `size`; bytes that this adds, and those skipped before,
 * are missing until they are written. */
void ck_written_allocate(struct ck_written_ranges *g, uint64_t size);
bool ck_written_nothing(const struct ck_written_ranges *g);
/* fsync(2): a program that syncs a file with skipped bytes will write them. */
void ck_written_sync(struct ck_written_ranges *g);
/* close(2) by `thread`; 0: it did not call close(2), but ended, or is not known. */
void ck_written_close(struct ck_written_ranges *g, uint32_t thread);
/* Some bytes were written, and those that were skipped are zeros. */
bool ck_written_skips(const struct ck_written_ranges *g);
/* All of [begin, end) was written, and no write failed for good. */
bool ck_written_all(const struct ck_written_ranges *g, uint64_t begin,
		    uint64_t end);
/* Number of written bytes from `begin` on. */
uint64_t ck_written_bytes(const struct ck_written_ranges *g, uint64_t begin);

#endif
