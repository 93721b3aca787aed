/* SPDX-License-Identifier: MIT */
/*
 * export: the exports of a mount in device memory, behind ck_export_ops (device.h):
 * export.c has requests and users, export_table.c finds exports, export_slab.c packs
 * small ones into one allocation, and export_fill.c copies their bytes.
 */
#ifndef CK_EXPORT_H
#define CK_EXPORT_H

#include "ckptfs/io.h"

extern const struct ck_export_ops ck_gpu_exports;

/* --- table; must hold ck_exports.lock ------------------------------------------------ */

/* All exports by slice, and the idle ones, without users, in the order of release. */
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

/* --- slabs; must hold ck_exports.lock ------------------------------------------------ */

enum {
	CK_SLAB = 2 << 20, /* bytes: the smallest allocation of a driver */
	CK_SLAB_UNIT = 4 << 10,
	CK_SLAB_UNITS = CK_SLAB / CK_SLAB_UNIT,
	CK_SLAB_MOST = CK_SLAB / 8, /* largest small export, in bytes */
};

/* A device allocation shared by small exports, each in its own range, since an allocation
 * takes longer than the fill of a small export. A process that opens one can read the
 * others, which are tensors of the same mount. */
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
CK_MUST_USE bool ck_slab_take(struct ck_slab *first, struct ck_gather_engine *g,
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

/* --- fill ------------------------------------------------------------------------------- */

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
	struct ck_export_request *wishes; /* waiting requests */
	uint32_t helpers; /* threads that fill beside those of the requests */
	bool stopped;
};

/* Fills the export, from byte e->at of its memory on. Blocks. Returns 0, or: -EOPNOTSUPP
 * if the memory is gone; -EINTR if cancelled; errors of ck_read. */
CK_MUST_USE int ck_export_fill(struct ck_exports *all,
			       struct ck_export_request *w,
			       const struct ck_export *e);
/* Cancels a fill. Must hold ck_exports.lock. */
void ck_export_fill_stop(struct ck_export_fill *f);

#endif
