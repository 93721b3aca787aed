/* SPDX-License-Identifier: MIT */
/*
 * pow10: for k from -292 to 324 the two halves of
 *
 *	g(k) = 10^k * 2^(127 - floor(log2(10^k)))
 *
 * rounded up: 128 bits, the highest of them set.
 */
#ifndef CK_POW10_H
#define CK_POW10_H

#include <stdint.h>

enum { CK_POW10_LEAST = -292, CK_POW10_MOST = 324 };

/* High and low half of each, from the least k on. */
extern const uint64_t ck_pow10[2 * (CK_POW10_MOST - CK_POW10_LEAST + 1)];

#endif
