/* SPDX-License-Identifier: MIT */
/*
 * value_bins: a histogram of values whose range is not known before. Values are counted in fine
 * bins, whose width is a power of two. If a value is outside of all fine bins, the width grows and
 * fine bins are merged, so that at least 4,095 of them always lie between the smallest and the
 * largest value, unless the width would be below the distance of neighbouring doubles, or below
 * 2^-1023. A part of values. One thread for each struct.
 */
#ifndef CKPTFS_VALUE_BINS_H
#define CKPTFS_VALUE_BINS_H

#include "ckptfs/base.h"

enum {
	CK_FINE_BINS = 16384,
	CK_WIDE_BINS = 32, /* of the result */
};

struct ck_value_bins {
	/* Some value was added, so that the next four are valid. */
	bool is_set;
	int exponent;	  /* the width of a fine bin is 2^exponent */
	int64_t base;	  /* lower edge of the first fine bin, in widths */
	double low, high; /* values in [low, high) need no other width */
	/* Of the fine bins; the last one counts values that are not finite. */
	uint64_t counts[CK_FINE_BINS + 1];
	uint64_t spare[CK_FINE_BINS + 1]; /* scratch */
};

void ck_value_bins_clear(struct ck_value_bins *b);
/* Adds n values, at most 320, which are aligned to 32 bytes; a multiple of 4 values can be read. min,
 * max: of all finite values that were added, and of these, which must have one. */
void ck_value_bins_add(struct ck_value_bins *b, const double *x, size_t n,
		       double min, double max);
/* Adds the values of `more`. min, max: of all finite values of both, of which there is one. */
void ck_value_bins_merge(struct ck_value_bins *b,
			 const struct ck_value_bins *more, double min,
			 double max);
/* Adds the counts of the fine bins to 32 equal bins from min to max: each by its lower edge. */
void ck_value_bins_sum(const struct ck_value_bins *b, double min, double max,
		       uint64_t out[static CK_WIDE_BINS]);

/* The 32 equal bins from min to max, as numpy.histogram defines them: each has its lower edge, and
 * the last one both. */
struct ck_wide_bins {
	double min, max;
	double edges[CK_WIDE_BINS + 1];
};

struct ck_wide_bins ck_wide_bins_make(double min, double max);
/* The bin of a value in [min, max]; 0 if both are equal. */
unsigned ck_wide_bin_of(const struct ck_wide_bins *w, double x);

#endif
