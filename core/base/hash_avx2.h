/* SPDX-License-Identifier: MIT */
/* hash_avx2: the loop of XXH3 for processors with AVX2, which is three times as fast as that for all
 * processors of this kind. Private to base. No state. */
#ifndef CK_HASH_AVX2_H
#define CK_HASH_AVX2_H

#include <stddef.h>

/* Adds bytes to an XXH3_state_t. */
void ck_xxh3_add_avx2(void *state, const void *bytes, size_t len);

#endif
