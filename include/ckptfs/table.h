/* SPDX-License-Identifier: MIT */
/*
 * table: a hash table from texts to numbers. The caller stores the texts, and a
 * callback returns the text of a number. A part of base. Any threads may call
 * ck_table_find() at the same time; a change needs exclusive access.
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

#endif
