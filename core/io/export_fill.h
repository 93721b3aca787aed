/* SPDX-License-Identifier: MIT */
/*
 * export_fill: brings the bytes of an export to its memory, several pieces at a time; those of
 * a large one by several threads, since a copy in memory is slower than the link to a device.
 */
#ifndef CK_EXPORT_FILL_H
#define CK_EXPORT_FILL_H

#include "export_slab.h"
#include "export_table.h"

struct ck_exports {
	/* Constant: */
	struct ck_route route;
	uint64_t cache;

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed; /* of exports that are being filled */
	struct ck_export_table table;
	struct ck_slab *slabs;
	uint64_t kept; /* bytes of allocations in which nobody has anything */
	struct ck_export_wish *wishes; /* of those who wait */
	uint32_t helpers; /* threads that fill beside those who asked */
	bool stopped;
};

/* Waits until all are there, at e->at of its memory. Errors as of ck_read; -EOPNOTSUPP: the
 * memory is gone. */
CK_MUST_USE int ck_export_fill(struct ck_exports *all, struct ck_export_wish *w,
			       const struct ck_export *e);
/* Under ck_exports.lock: it is not wanted any more. */
void ck_export_fill_stop(struct ck_export_fill *f);

#endif
