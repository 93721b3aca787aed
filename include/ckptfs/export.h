/* SPDX-License-Identifier: MIT */
/*
 * export: tensors in memory of a device, which other processes open. Who asks for the same
 * bytes on the same device has the same memory, unless he wants it for himself; whoever
 * comes first has it filled, and the others wait for that. A part of move.
 */
#ifndef CKPTFS_EXPORT_H
#define CKPTFS_EXPORT_H

#include "ckptfs/move.h"

struct ck_exports; /* all of one mount; any thread */

/* One, of those who have it. */
struct ck_export {
	/* Constant, once somebody has it: */
	struct ck_gather_memory *memory; /* where others may have a part, too */
	uint64_t at; /* byte of it where the bytes begin, a multiple of 256 */
	uint64_t bytes;
	/* Private, under ck_exports.lock: */
	struct ck_export *next; /* of those that are found with it */
	uint64_t slice;		/* what it has; */
	uint64_t touches;	/* ck_files_touches() before it was filled */
	uint8_t uuid[16];
	struct ck_slab *slab; /* that it lies in; NULL: it has `memory` alone */
	uint64_t room;	      /* bytes of memory that are its alone */
	bool own;	      /* nobody else is given it */
	bool with_file;	      /* it is opened by a descriptor */
	bool there, failed;   /* neither: it is being filled */
	uint32_t users;	      /* with who fills it */
	bool idle; /* nobody has it: among those, by when it was given back: */
	struct ck_export *older, *newer;
};

/* What is wanted: bytes [vpos, vpos + len) of an open slice, which are all of one box. */
struct ck_export_wish {
	struct ck_open_slice *from;
	struct ck_files *files; /* as of ck_read */
	uint64_t vpos, len;	/* len is not 0 */
	/* Slices that have the same bytes have the same number, and no others. */
	uint64_t slice;
	uint8_t uuid[16]; /* of the device */
	bool own, with_file;
	/* Private: */
	struct ck_export_wish *next; /* under ck_exports.lock */
	struct ck_export_fill
		*fill; /* under ck_exports.lock: reads on the way */
	bool unwanted; /* atomic */
};

/* gatherer: has allocate(). cache: bytes of memory that nobody has at a time and that are
 * kept for those who come. All is the caller's. NULL: out of memory. */
struct ck_exports *ck_exports_make(struct ck_files *files,
				   struct ck_backend *remote,
				   struct ck_gatherer *gatherer,
				   uint64_t cache);
/* Nobody has one. NULL is allowed. */
void ck_exports_free(struct ck_exports *all);
/* Waits until the bytes are there. -EBUSY: somebody has them in the other form; errors as
 * of ck_read and of allocate(). */
CK_MUST_USE int ck_exports_get(struct ck_exports *all, struct ck_export_wish *w,
			       struct ck_export **out);
/* ck_exports_get() of it ends soon, with -EINTR if the bytes have not come. May be called
 * before it begins and until it has returned. */
void ck_exports_interrupt(struct ck_exports *all, struct ck_export_wish *w);
/* Nobody gets anything any more: those who wait end soon, with -EINTR. */
void ck_exports_stop(struct ck_exports *all);
void ck_exports_put(struct ck_exports *all, struct ck_export *e);

#endif
