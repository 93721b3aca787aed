/* SPDX-License-Identifier: MIT */
/*
 * export_fill: copies the bytes of an export to its memory, several pieces at a time.
 * Several threads fill a large export, since a copy in memory is slower than the link
 * to a device.
 */
#ifndef CK_EXPORT_FILL_H
#define CK_EXPORT_FILL_H

#include "ckptfs/move.h"
#include "export_slab.h"
#include "export_table.h"

struct ck_exports {
	/* Constant: */
	struct ck_route route;
	uint64_t cache;

	pthread_mutex_t lock;
	/* Protected by lock: */
	pthread_cond_t changed; /* of exports that are being filled */
	struct ck_export_table table;
	struct ck_slab *slabs;
	uint64_t kept; /* bytes of allocations of which no export has users */
	struct ck_export_wish *wishes; /* waiting requests */
	uint32_t helpers; /* threads that fill beside those of the requests */
	bool stopped;
};

/* Fills the export, from byte e->at of its memory on. Blocks. Returns 0, or: -EOPNOTSUPP
 * if the memory is gone; -EINTR if cancelled; errors of ck_read. */
CK_MUST_USE int ck_export_fill(struct ck_exports *all, struct ck_export_wish *w,
			       const struct ck_export *e);
/* Cancels a fill. Must hold ck_exports.lock. */
void ck_export_fill_stop(struct ck_export_fill *f);

#endif
