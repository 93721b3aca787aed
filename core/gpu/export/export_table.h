/* SPDX-License-Identifier: MIT */
/*
 * export_table: all exports of a mount by slice, and the idle ones, without users,
 * in the order of release. Has no lock: must hold ck_exports.lock.
 */
#ifndef CK_EXPORT_TABLE_H
#define CK_EXPORT_TABLE_H

#include "ckptfs/device.h"

struct ck_export_table {
	struct ck_export **buckets;
	size_t n, cap; /* exports; buckets, a power of two */
	struct ck_export *oldest, *newest; /* idle exports */
	uint64_t idle;			   /* bytes of idle exports */
};

/* Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_export_table_make(struct ck_export_table *t);
/* The table must be empty. A zeroed table is allowed. */
void ck_export_table_fini(struct ck_export_table *t);
void ck_export_table_add(struct ck_export_table *t, struct ck_export *e);
/* Removes an export, which may be idle. */
void ck_export_table_remove(struct ck_export_table *t, struct ck_export *e);
/* First export in the bucket of a slice; the others follow by `next`. The bucket
 * may contain other slices. NULL if empty. */
struct ck_export *ck_export_table_find(const struct ck_export_table *t,
				       uint64_t slice);
/* Marks an export idle. */
void ck_export_table_idle(struct ck_export_table *t, struct ck_export *e);
/* Marks an idle export used. */
void ck_export_table_use(struct ck_export_table *t, struct ck_export *e);

#endif
