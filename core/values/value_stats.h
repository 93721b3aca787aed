/* SPDX-License-Identifier: MIT */
/*
 * value_stats: statistics of the values of a tensor, in one pass. Counts, minimum and maximum are
 * exact; the sum is within 1e-12 of the sum of absolute values. The processor's AVX2 units are
 * used if it has them, with the same results. A part of values. One thread for each struct.
 */
#ifndef CKPTFS_VALUE_STATS_H
#define CKPTFS_VALUE_STATS_H

#include "value_bins.h"
#include "value_form.h"

/* Set up by ck_value_stats_make(). NaN and infinities are counted, and are not in the fields
 * behind `finite`. */
struct ck_value_stats {
	struct ck_value_form form;
	uint64_t n; /* values, see value_form.h */
	uint64_t zeros, nan, inf, finite;
	double min, max; /* +inf and -inf if `finite` is 0 */
	/* Private: the sum and its rounding error; a finite value, the distance of the mean from
	 * it, and the sum of squared distances from the mean. Sums of large values may be above all
	 * doubles. */
	long double sum, rest, center, offset, squares;
	/* Also counts the finite values, unless it is NULL. The caller's. */
	struct ck_value_bins *bins;
};

struct ck_value_stats ck_value_stats_make(uint8_t dtype);
/* Adds `len` bytes, a multiple of form.size. Does nothing if the dtype has no values. */
void ck_value_stats_add(struct ck_value_stats *s, const uint8_t *bytes,
			size_t len);
/* Adds the statistics of another part of the same tensor, behind what was added before. Its bins
 * are added to those of `s`, if both have some. */
void ck_value_stats_merge(struct ck_value_stats *s,
			  const struct ck_value_stats *more);
/* Of finite values; 0 if there are none. The sum and the norm are infinite if no double has them. */
double ck_value_stats_sum(const struct ck_value_stats *s);
double ck_value_stats_mean(const struct ck_value_stats *s);
/* Standard deviation: the root of the mean squared distance from the mean. */
double ck_value_stats_deviation(const struct ck_value_stats *s);
/* Euclidean norm: the root of the sum of squares. */
double ck_value_stats_norm(const struct ck_value_stats *s);

#endif
