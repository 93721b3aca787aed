/* SPDX-License-Identifier: MIT */
/*
 * value_form: how the elements of a dtype become numbers. A complex element is two values, its
 * real and its imaginary part; a byte of float4_e2m1fn_x2 is two values, low bits first. Values
 * of quantized dtypes and of bits* are the stored integers. Each value is exact, except that integers
 * above 2^53 are rounded to the nearest double. Pure functions. A part of values.
 */
#ifndef CKPTFS_VALUE_FORM_H
#define CKPTFS_VALUE_FORM_H

#include "ckptfs/model.h"
#include <endian.h>

enum { CK_VALUES_BLOCK = 320 }; /* most values of a call: 2.5 KiB as double */

/* Constant once it is made. */
struct ck_value_form {
	uint8_t source; /* private: how a value is stored */
	uint8_t dtype; /* private: of a value, if ck_to_float32() converts it */
	uint8_t size;  /* bytes of an element; 0: the dtype has no values */
	uint8_t each;  /* values of an element */
	bool is_complex;
	bool is_float;	/* some values may be NaN or infinite */
	bool is_long;	/* integers of 64 bits, which a double may round */
	bool is_signed; /* of long integers */
	bool is_wide;	/* private: float32 does not have each value */
};

struct ck_value_form ck_value_form_of(uint8_t dtype);
/* The form of one part of a complex element; another form is its own part. */
struct ck_value_form ck_value_form_part(const struct ck_value_form *f);
/* Converts n elements, at most CK_VALUES_BLOCK / each. The bytes need no alignment. */
void ck_values_load(const struct ck_value_form *f, const uint8_t *from,
		    size_t n, double *to);

/* The distance of two integers of 64 bits, stored at `a` and `b`. It is rounded once: that of two
 * rounded integers may be 0. f: a form that is_long. */
static inline double ck_values_long_distance(const struct ck_value_form *f,
					     const uint8_t *a, const uint8_t *b)
{
	/* Maps signed integers to unsigned ones of the same order. */
	const uint64_t flip = f->is_signed ? UINT64_C(1) << 63 : 0;
	uint64_t p, q;

	memcpy(&p, a, sizeof(p));
	memcpy(&q, b, sizeof(q));
	p = le64toh(p) ^ flip;
	q = le64toh(q) ^ flip;
	return (double)(p > q ? p - q : q - p);
}

#endif
