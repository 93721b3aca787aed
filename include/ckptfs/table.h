/* SPDX-License-Identifier: MIT */
/* table: numbers by text, where whoever has the texts has them by number. A part of base. */
#ifndef CKPTFS_TABLE_H
#define CKPTFS_TABLE_H

#include "ckptfs/base.h"

/* Begins with key and arg set. No text can be made that collides on purpose. */
struct ck_table {
	struct ck_str (*key)(const void *arg, uint32_t number);
	const void *arg;
	/* private */
	uint32_t *slots; /* a number + 1; 0: none */
	size_t n, used;
	uint64_t seed;
};

/* The number of a text; -1: there is none. */
int64_t ck_table_find(const struct ck_table *t, struct ck_str text);
/* The same, and if there is none it is `number` from now on. -ENOMEM. */
CK_MUST_USE int ck_table_add(struct ck_table *t, struct ck_str text,
			     uint32_t number, uint32_t *out);
/* Forgets all; memory is freed. */
void ck_table_fini(struct ck_table *t);

#endif
