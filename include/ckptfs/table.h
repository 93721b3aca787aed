/* SPDX-License-Identifier: MIT */
/*
 * table: lookups. A hash table from texts to numbers: the caller stores the texts, and
 * a callback returns the text of a number. Any threads may call ck_table_find() at the
 * same time; a change needs exclusive access. A list of texts over it, and binary search.
 * A part of base.
 */
#ifndef CKPTFS_TABLE_H
#define CKPTFS_TABLE_H

#include "ckptfs/base.h"

/* Initialise key and arg, and the rest to zeros. A random seed prevents chosen
 * collisions. */
struct ck_table {
	struct ck_str (*key)(const void *arg, uint32_t number);
	const void *arg;
	/* private */
	uint32_t *slots; /* number + 1; 0: free */
	size_t n, used;
	uint64_t seed;
};

/* The number of a text, or -1. */
int64_t ck_table_find(const struct ck_table *t, struct ck_str text);
/* Sets *out to the number of a text; a text that is not in the table gets
 * `number`. Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_table_add(struct ck_table *t, struct ck_str text,
			     uint32_t number, uint32_t *out);
/* Removes all texts and frees the memory. */
void ck_table_fini(struct ck_table *t);

/* Texts, each once, with a number that never changes: its position in `all`. Zero-initialise.
 * It must not move once it has a text. One thread. */
struct ck_texts {
	struct ck_str *all;
	uint32_t n;
	/* private */
	struct ck_table table;
	struct ck_arena copies;
	size_t cap;
};

/* Finds or adds a text; a copy of it, if `copy`, else caller keeps it. Returns 0, or
 * -ENOMEM. */
CK_MUST_USE int ck_texts_add(struct ck_texts *t, struct ck_str text, bool copy,
			     uint32_t *number);
void ck_texts_fini(struct ck_texts *t);

/* Binary search: the number of leading indexes i in [0, n) for which `before`, an
 * expression of the variable i, is true. It must be false for all later ones. */
#define CK_COUNT_BEFORE(n, i, before)                                          \
	({                                                                     \
		size_t search_lo = 0, search_hi = (n);                         \
		while (search_lo < search_hi) {                                \
			size_t i = search_lo + (search_hi - search_lo) / 2;    \
			if (before)                                            \
				search_lo = i + 1;                             \
			else                                                   \
				search_hi = i;                                 \
		}                                                              \
		search_lo;                                                     \
	})

#endif
