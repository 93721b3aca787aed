/* SPDX-License-Identifier: MIT */
/*
 * hash: XXH3, compiled in, so that it uses the vector units of the target
 * machine without a shared library; a hasher those of AVX2 if the processor has
 * them. A hasher has one user at a time; the other
 * functions have no state.
 */
#include "ckptfs/base.h"
#include "hash_avx2.h"

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

/* XXH3_state_t needs an alignment of 64 bytes. */
struct ck_hasher {
	XXH3_state_t state;
};

struct ck_hasher *ck_hasher_make(uint64_t seed)
{
	struct ck_hasher *h = aligned_alloc(64, sizeof(*h));

	if (!h)
		return NULL;
	/* XXH3_64bits_reset_withSeed() reads the previous seed. */
	XXH3_INITSTATE(&h->state);
	(void)XXH3_64bits_reset_withSeed(&h->state, seed);
	return h;
}

void ck_hasher_add(struct ck_hasher *h, struct ck_str s)
{
#ifdef CK_HASH_AVX2
	if (__builtin_cpu_supports("avx2")) {
		ck_xxh3_add_avx2(&h->state, s.p, s.len);
		return;
	}
#endif
	(void)XXH3_64bits_update(&h->state, s.p, s.len);
}

uint64_t ck_hasher_sum(const struct ck_hasher *h)
{
	return XXH3_64bits_digest(&h->state);
}

/* XXH3_state_t is the same for both digest lengths; only the digest differs. */
void ck_hasher_sum128(const struct ck_hasher *h, uint8_t out[static 16])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&h->state));
	memcpy(out, canonical.digest, sizeof(canonical.digest));
}

void ck_hasher_free(struct ck_hasher *h)
{
	free(h);
}

uint64_t ck_hash_seed(void)
{
	uint64_t seed;

	/* Without random bytes a table may be slow, but is never wrong. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uintptr_t)&seed;
	return seed;
}

void ck_sum128_hex(const uint8_t sum[static 16], char out[static 33])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < 16; i++) {
		out[2 * i] = digits[sum[i] >> 4];
		out[2 * i + 1] = digits[sum[i] & 15];
	}
	out[32] = '\0';
}

void ck_hash128_hex(struct ck_str s, char out[static 33])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(s.p, s.len));
	ck_sum128_hex(canonical.digest, out);
}
