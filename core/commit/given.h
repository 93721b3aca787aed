/* SPDX-License-Identifier: MIT */
/*
 * given: which bytes of a file were written, and which are missing.
 */
#ifndef CK_COMMIT_GIVEN_H
#define CK_COMMIT_GIVEN_H

#include "ckptfs/base.h"

/* --- ranges.c ---------------------------------------------------------------- */

/* Disjoint ranges of a file, sorted. Zero-initialise. */
struct ck_ranges {
	struct ck_range {
		uint64_t begin, end;
	} * r;

	size_t n, cap;
};

/* -ENOSPC: they would be more than anybody needs; -ENOMEM. */
CK_MUST_USE int ck_ranges_add(struct ck_ranges *ranges, uint64_t begin,
			      uint64_t end);
/* Removes [begin, end). Errors as of add, since one range may become two. */
CK_MUST_USE int ck_ranges_remove(struct ck_ranges *ranges, uint64_t begin,
				 uint64_t end);
/* What is behind end is gone. */
void ck_ranges_cut(struct ck_ranges *ranges, uint64_t end);
/* Makes of [*begin, *end) the last part that they do not have; false: they
 * have all of it. */
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

/* --- given.c: what of a file was written ------------------------------------- */

/* Zero-initialise. */
struct ck_given {
	struct ck_ranges written; /* and not cut off since */
	struct ck_ranges failed;  /* by a write, and not written since */
	uint64_t end;		  /* of the file: where the farthest write
				   * ended, or as it was set */
	uint32_t by;		  /* the thread of all writes; 0: see jumped */
	bool sized;		  /* the end was set */
	bool jumped; /* bytes that were skipped are missing, not zeros: not one
		      * thread wrote from front to back */
};

/* As of a file begun anew. */
void ck_given_clear(struct ck_given *g);
void ck_given_fini(struct ck_given *g);
/* thread: 0 is one that cannot be told from others. Errors as of
 * ck_ranges_add(): then it has to be said to have failed. */
CK_MUST_USE int ck_given_write(struct ck_given *g, uint64_t begin, uint64_t end,
			       uint32_t thread);
CK_MUST_USE int ck_given_fail(struct ck_given *g, uint64_t begin, uint64_t end);
void ck_given_size(struct ck_given *g, uint64_t size);
bool ck_given_nothing(const struct ck_given *g);
/* Some bytes were written, and those that were skipped are zeros. */
bool ck_given_skips(const struct ck_given *g);
/* All of [begin, end) was written, and no write failed for good. */
bool ck_given_all(const struct ck_given *g, uint64_t begin, uint64_t end);
/* How many behind begin were written. */
uint64_t ck_given_bytes(const struct ck_given *g, uint64_t begin);

#endif
