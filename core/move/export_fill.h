/* SPDX-License-Identifier: MIT */
/*
 * export_fill: brings the bytes of an export to its memory, several pieces at a time.
 */
#ifndef CK_EXPORT_FILL_H
#define CK_EXPORT_FILL_H

#include "ckptfs/export.h"

struct ck_exports {
	/* Constant: */
	struct ck_route route;
	uint64_t cache;

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed; /* of exports that are being filled */
	struct ck_export *first;
	struct ck_export_wish *wishes; /* of those who wait */
	bool stopped;
	uint64_t clock;
};

/* Waits until all are there. Errors as of ck_read; -EOPNOTSUPP: the memory is gone. */
CK_MUST_USE int ck_export_fill(struct ck_exports *all, struct ck_export_wish *w,
			       struct ck_gather_memory *memory);
/* Under ck_exports.lock: it is not wanted any more. */
void ck_export_fill_stop(struct ck_export_fill *f);

#endif
