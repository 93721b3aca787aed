/* SPDX-License-Identifier: MIT */
/*
 * value_tally: statistics and a histogram of the values of a tensor, in one pass.
 *
 * Counts, minimum and maximum are exact; the other figures are as value_stats.h states. The
 * histogram has 32 equal bins between minimum and maximum; each bin has its lower edge, and the
 * last one both edges. It is exact for dtypes whose values have at most 16 bits. In the others, a
 * value that is at most 1/100 of a bin's width above an edge may be counted below that edge, if
 * the width is at least 2^-1000. If all values are equal they are in the first bin.
 *
 * A part of values. One thread for each tally.
 */
#ifndef CKPTFS_VALUE_TALLY_H
#define CKPTFS_VALUE_TALLY_H

#include "value_bins.h"
#include "value_form.h"

/* Of values, see value_form.h; all but the counts are those of the finite ones. */
struct ck_figures {
	uint64_t n, zeros, nan, inf, finite;
	double min, max, mean, deviation, norm; /* 0 if `finite` is 0 */
	uint64_t bins[CK_WIDE_BINS];
	bool has_values; /* false: the dtype has no values, and all else is 0 */
};

struct ck_value_tally;

/* A tally for any number of tensors, one after another: less than 4 MiB. NULL if out of memory. */
struct ck_value_tally *ck_value_tally_make(void);
void ck_value_tally_free(struct ck_value_tally *t); /* NULL is allowed */
/* Begins with a tensor; drops what was added before. */
void ck_value_tally_begin(struct ck_value_tally *t, uint8_t dtype);
/* Adds `len` bytes, whole elements. */
void ck_value_tally_add(struct ck_value_tally *t, const uint8_t *bytes,
			size_t len);
/* Adds the values of another part of the same tensor, behind what was added before. */
void ck_value_tally_merge(struct ck_value_tally *t,
			  const struct ck_value_tally *more);
/* The figures of all that was added since ck_value_tally_begin(). */
void ck_value_tally_end(struct ck_value_tally *t, struct ck_figures *out);

#endif
