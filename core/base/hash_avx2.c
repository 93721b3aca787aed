/* SPDX-License-Identifier: MIT */
/* hash_avx2: compiled for AVX2, unlike all other files; hash.c calls it on processors that have it. */
#include "hash_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void ck_xxh3_add_avx2(void *state, const void *bytes, size_t len)
{
	(void)XXH3_128bits_update(state, bytes, len);
}
