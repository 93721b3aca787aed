/* SPDX-License-Identifier: MIT */
/*
 * value_change: the norm of a tensor, and that of its difference from an earlier one, in one pass.
 * Sums are computed in double; differences of integers of 64 bits are exact before. The difference
 * of complex elements is that of their parts. The processor's AVX2 units are used if it has them. A
 * part of values. One thread for each struct.
 */
#ifndef CKPTFS_VALUE_CHANGE_H
#define CKPTFS_VALUE_CHANGE_H

#include "value_form.h"

/* Set up by ck_value_change_make(). */
struct ck_value_change {
	struct ck_value_form form;
	uint64_t n; /* values, see value_form.h */
	uint64_t nan, inf, finite;
	uint64_t both;	/* values of elements that are finite in both tensors */
	double squares; /* sum of squares of the finite values */
	double differences; /* sum of squared differences of those in `both` */
};

struct ck_value_change ck_value_change_make(uint8_t dtype);
/* Adds `len` bytes, a multiple of form.size. was: those of the earlier tensor of the same dtype; or
 * NULL. Does nothing if the dtype has no values. */
void ck_value_change_add(struct ck_value_change *c, const uint8_t *now,
			 const uint8_t *was, size_t len);
/* Euclidean norms. NaN if there are no finite values. */
double ck_value_change_norm(const struct ck_value_change *c);
double ck_value_change_distance(const struct ck_value_change *c);

#endif
