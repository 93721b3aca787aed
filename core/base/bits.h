/* SPDX-License-Identifier: MIT */
/*
 * bits: a fixed number of bits, all 0 at first. A part of base.
 *
 * Any thread may call the functions that end in _atomic, and ck_bits_has() and
 * ck_bits_count(), at any time: concurrent changes of neighbouring bits are not
 * lost. They order no other memory. The other functions change whole words
 * without synchronisation: their caller owns the bits, or holds the lock that
 * protects them.
 */
#ifndef CKPTFS_BITS_H
#define CKPTFS_BITS_H

#include "ckptfs/base.h"

#include <assert.h>

/* Zero-initialised it has no bits. */
struct ck_bits {
	uint64_t *words; /* owned */
	size_t n;	 /* number of bits; an index must be below it */
};

/* Returns 0, or -ENOMEM: then b has no bits. */
CK_MUST_USE int ck_bits_make(struct ck_bits *b, size_t n);
void ck_bits_fini(struct ck_bits *b);
/* The number of bits that are set. */
size_t ck_bits_count(const struct ck_bits *b);
void ck_bits_clear_all(struct ck_bits *b);

/* Other threads may see some of them set before the rest. */

static inline uint64_t ck_bits_mask(size_t i)
{
	return UINT64_C(1) << i % 64;
}

static inline uint64_t *ck_bits_word(const struct ck_bits *b, size_t i)
{
	assert(i < b->n);
	return &b->words[i / 64];
}

static inline CK_MUST_USE bool ck_bits_has(const struct ck_bits *b, size_t i)
{
	return __atomic_load_n(ck_bits_word(b, i), __ATOMIC_RELAXED) &
	       ck_bits_mask(i);
}

static inline void ck_bits_set(struct ck_bits *b, size_t i)
{
	*ck_bits_word(b, i) |= ck_bits_mask(i);
}

static inline void ck_bits_clear(struct ck_bits *b, size_t i)
{
	*ck_bits_word(b, i) &= ~ck_bits_mask(i);
}

static inline void ck_bits_set_atomic(struct ck_bits *b, size_t i)
{
	__atomic_fetch_or(ck_bits_word(b, i), ck_bits_mask(i),
			  __ATOMIC_RELAXED);
}

/* True if the bit was set. If several threads clear it, one gets true. */
static inline bool ck_bits_clear_atomic(struct ck_bits *b, size_t i)
{
	return __atomic_fetch_and(ck_bits_word(b, i), ~ck_bits_mask(i),
				  __ATOMIC_RELAXED) &
	       ck_bits_mask(i);
}

#endif
