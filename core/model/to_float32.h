/* SPDX-License-Identifier: MIT */
/*
 * to_float32: values of smaller float dtypes as float32. Each value is exact; a NaN becomes
 * some NaN. Pure functions. A part of model.
 */
#ifndef CKPTFS_TO_FLOAT32_H
#define CKPTFS_TO_FLOAT32_H

#include "ckptfs/model.h"

/* A function whose loops become vector code: gcc needs -O3 for loops of any length, clang does
 * that with -O2. */
#ifdef __clang__
#define CK_VECTORIZED
#else
#define CK_VECTORIZED __attribute__((optimize("O3")))
#endif

/* Number of the dtype float32. */
uint8_t ck_dtype_float32(void);
/* True for dtypes of which every value is one of float32. */
CK_MUST_USE bool ck_dtype_fits_float32(uint8_t dtype);
/* Converts n elements of a dtype that fits. The memory must not overlap, and needs no
 * alignment. */
void ck_to_float32(uint8_t dtype, const uint8_t *from, uint8_t *to, size_t n);

#endif
