/* SPDX-License-Identifier: MIT */
/*
 * value_diff: differences between two tensors of one dtype and shape, in one pass, computed in
 * double; integers of 64 bits are subtracted before. An element here is an element of the tensor,
 * but each of the two values of a float4_e2m1fn_x2. The difference of complex elements is its
 * magnitude. A part of values. One thread for each struct.
 */
#ifndef CKPTFS_VALUE_DIFF_H
#define CKPTFS_VALUE_DIFF_H

#include "value_form.h"

/* Elements a and b differ by more than the tolerance if |a - b| > absolute + relative * |b|, or
 * if one of them is NaN or infinite, unless both are NaN, or the same infinity. */
struct ck_tolerance {
	double absolute, relative;
};

/* Set up by ck_value_diff_make(). */
struct ck_value_diff {
	struct ck_value_form form;
	struct ck_tolerance tolerance;
	uint64_t n;	  /* elements */
	uint64_t changed; /* their bits differ */
	uint64_t beyond;  /* they differ by more than the tolerance */
	uint64_t finite;  /* both are finite: those of the fields below */
	double max;	  /* largest absolute difference */
	double sum, rest; /* of absolute differences; private */
	double squares;	  /* sum of squared differences */
};

struct ck_value_diff ck_value_diff_make(uint8_t dtype, struct ck_tolerance t);
/* Adds `len` bytes of both, a multiple of form.size. Does nothing if the dtype has no values. */
void ck_value_diff_add(struct ck_value_diff *d, const uint8_t *a,
		       const uint8_t *b, size_t len);
/* Adds the differences of another part of the same tensor, behind those added before. */
void ck_value_diff_merge(struct ck_value_diff *d,
			 const struct ck_value_diff *more);
/* Mean absolute difference of the elements that are finite in both; NaN if there are none. */
double ck_value_diff_mean(const struct ck_value_diff *d);

#endif
