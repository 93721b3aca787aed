/* SPDX-License-Identifier: MIT */
/*
 * export_slab: a device allocation shared by small exports, each in its own range,
 * since an allocation takes longer than the fill of a small export. A process that
 * opens one can read the others, which are tensors of the same mount. Has no lock:
 * must hold ck_exports.lock.
 */
#ifndef CK_EXPORT_SLAB_H
#define CK_EXPORT_SLAB_H

#include "ckptfs/device.h"

enum {
	CK_SLAB = 2 << 20, /* bytes: the smallest allocation of a driver */
	CK_SLAB_UNIT = 4 << 10,
	CK_SLAB_UNITS = CK_SLAB / CK_SLAB_UNIT,
	CK_SLAB_MOST = CK_SLAB / 8, /* largest small export, in bytes */
};

struct ck_slab {
	struct ck_slab *next;
	struct ck_gather_memory *memory;
	uint8_t uuid[16]; /* UUID of the device */
	uint32_t used;	  /* units in use by exports */
	uint32_t users;	  /* exports with users */
	/* One bit for each unit that must not be reused: in use, or a transfer to
	 * it may still be in flight. */
	uint64_t taken[CK_SLAB_UNITS / 64];
};

/* Allocates a range for e, whose `bytes` and `uuid` are set and which has a user.
 * Returns false if no slab whose memory still exists has room. */
CK_MUST_USE bool ck_slab_take(struct ck_slab *first, struct ck_gatherer *g,
			      struct ck_export *e);
/* Makes a slab from an allocation of CK_SLAB bytes, and allocates a range for e in
 * it. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_slab_add(struct ck_slab **first,
			    struct ck_gather_memory *memory,
			    struct ck_export *e);
/* Frees the range of e, which must not have users. spoiled: a transfer may still be
 * in flight, so the range is never reused. Returns the allocation if the slab is
 * empty and was removed, else NULL. */
struct ck_gather_memory *ck_slab_put(struct ck_slab **first,
				     const struct ck_export *e, bool spoiled);

#endif
