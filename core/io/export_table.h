/* SPDX-License-Identifier: MIT */
/*
 * export_table: all exports of a mount, by their slices, and those that nobody has, by when they
 * were given back. Nobody else may use it at the same time.
 */
#ifndef CK_EXPORT_TABLE_H
#define CK_EXPORT_TABLE_H

#include "ckptfs/export.h"

struct ck_export_table {
	struct ck_export **buckets;
	size_t n, cap; /* exports; buckets, a power of two */
	struct ck_export *oldest, *newest; /* of those that nobody has */
	uint64_t idle;			   /* bytes of those */
};

/* -ENOMEM. */
CK_MUST_USE int ck_export_table_make(struct ck_export_table *t);
/* It is empty. Zeros are allowed. */
void ck_export_table_fini(struct ck_export_table *t);
void ck_export_table_add(struct ck_export_table *t, struct ck_export *e);
/* Also one that nobody has. */
void ck_export_table_remove(struct ck_export_table *t, struct ck_export *e);
/* The first of that slice, or of a few others; the next ones follow by `next`. */
struct ck_export *ck_export_table_find(const struct ck_export_table *t,
				       uint64_t slice);
/* Nobody has it from now on, */
void ck_export_table_idle(struct ck_export_table *t, struct ck_export *e);
/* or somebody does. */
void ck_export_table_use(struct ck_export_table *t, struct ck_export *e);

#endif
