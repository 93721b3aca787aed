/* SPDX-License-Identifier: MIT */
/*
 * hash: XXH3 compiled in, so that it uses the vector units of the machine it
 * was built for and links nothing.
 */
#include "ckptfs/base.h"

#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t ck_hash64(struct ck_str s)
{
	return XXH3_64bits(s.p, s.len);
}

uint64_t ck_hash64_seeded(struct ck_str s, uint64_t seed)
{
	return XXH3_64bits_withSeed(s.p, s.len, seed);
}

uint64_t ck_hash_seed(void)
{
	uint64_t seed;

	/* Without randomness a table may be slow, never wrong. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uintptr_t)&seed;
	return seed;
}

void ck_hash128_hex(struct ck_str s, char out[static 33])
{
	static const char digits[] = "0123456789abcdef";
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(s.p, s.len));
	for (size_t i = 0; i < sizeof(canonical.digest); i++) {
		out[2 * i] = digits[canonical.digest[i] >> 4];
		out[2 * i + 1] = digits[canonical.digest[i] & 15];
	}
	out[32] = '\0';
}
