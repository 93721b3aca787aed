/* SPDX-License-Identifier: MIT */
/*
 * bits: a fixed number of bits in an array of words. Unused bits of the last
 * word stay 0, so that whole words can be counted. bits.h states the rules for
 * threads.
 */
#include "bits.h"

static size_t words_of(const struct ck_bits *b)
{
	return b->n / 64 + (b->n % 64 != 0);
}

int ck_bits_make(struct ck_bits *b, size_t n)
{
	*b = (struct ck_bits){ calloc(n / 64 + 1, sizeof(*b->words)), n };
	if (b->words)
		return 0;
	b->n = 0;
	return -ENOMEM;
}

void ck_bits_fini(struct ck_bits *b)
{
	free(b->words);
	*b = (struct ck_bits){ 0 };
}

size_t ck_bits_count(const struct ck_bits *b)
{
	size_t count = 0;

	for (size_t i = 0; i < words_of(b); i++)
		count += (unsigned)__builtin_popcountll(
			__atomic_load_n(&b->words[i], __ATOMIC_RELAXED));
	return count;
}

void ck_bits_clear_all(struct ck_bits *b)
{
	if (b->n)
		memset(b->words, 0, words_of(b) * sizeof(*b->words));
}
