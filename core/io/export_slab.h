/* SPDX-License-Identifier: MIT */
/*
 * export_slab: an allocation that small exports share, each at a place of its own: to ask for one
 * for each would take longer than to bring their bytes. Who opens one of them can see the others,
 * which are tensors of the same mount. Nobody else may use them at the same time.
 */
#ifndef CK_EXPORT_SLAB_H
#define CK_EXPORT_SLAB_H

#include "ckptfs/export.h"

enum {
	CK_SLAB = 2 << 20, /* bytes: a driver takes no less for an allocation */
	CK_SLAB_UNIT = 4 << 10,
	CK_SLAB_UNITS = CK_SLAB / CK_SLAB_UNIT,
	CK_SLAB_MOST = CK_SLAB / 8, /* bytes of a small export */
};

struct ck_slab {
	struct ck_slab *next;
	struct ck_gather_memory *memory;
	uint8_t uuid[16]; /* of its device */
	uint32_t used;	  /* units of exports */
	uint32_t users;	  /* of those, exports that somebody has */
	/* A bit for each unit that may not be given to another one: that is in use, or to
	 * which something may still be on its way. */
	uint64_t taken[CK_SLAB_UNITS / 64];
};

/* A place for e, which somebody has, and whose `bytes` and `uuid` are there, in one that its device still holds; false:
 * none has room. */
CK_MUST_USE bool ck_slab_take(struct ck_slab *first, struct ck_gatherer *g,
			      struct ck_export *e);
/* An allocation of CK_SLAB bytes on its device becomes one, with e in it. -ENOMEM. */
CK_MUST_USE int ck_slab_add(struct ck_slab **first,
			    struct ck_gather_memory *memory,
			    struct ck_export *e);
/* e has no place any more, and nobody has it. spoiled: something may still be on its way
 * there, and nobody else is given that place. NULL, or the allocation, in which nothing is any
 * more. */
struct ck_gather_memory *ck_slab_put(struct ck_slab **first,
				     const struct ck_export *e, bool spoiled);

#endif
