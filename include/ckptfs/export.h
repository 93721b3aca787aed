/* SPDX-License-Identifier: MIT */
/*
 * export: tensors in device memory that other processes open. Requests for the same
 * bytes on the same device share one export, unless a request asks for its own. The
 * first request allocates and fills the export; later requests wait until it is
 * filled. A part of io.
 *
 * An export is being filled, then filled or failed. A filled one without users is
 * idle, and is cached until its memory is needed.
 */
#ifndef CKPTFS_EXPORT_H
#define CKPTFS_EXPORT_H

#include "ckptfs/move.h"

struct ck_exports; /* all exports of one mount; any thread */

/* One export, shared by its users. */
struct ck_export {
	/* Constant from the first ck_exports_get() on: */
	/* the allocation; may contain other exports */
	struct ck_gather_memory *memory;
	/* first byte of the export in `memory`, a multiple of 256 */
	uint64_t at;
	uint64_t bytes;
	/* Private, protected by ck_exports.lock: */
	struct ck_export *next; /* in the same bucket */
	uint64_t slice;		/* the key: ck_export_wish.slice */
	uint64_t touches;	/* ck_files_touches() before the fill */
	uint8_t uuid[16];
	/* allocation that contains it; NULL: `memory` is its own */
	struct ck_slab *slab;
	uint64_t room;	    /* bytes of `memory` reserved for it */
	bool own;	    /* not shared with other requests */
	bool with_file;	    /* shared by descriptor, not by handle */
	bool there, failed; /* filled; failed; neither: it is being filled */
	uint32_t users;	    /* users, and the thread that fills it */
	/* No users: it is in the list of idle exports, ordered by release. */
	bool idle;
	struct ck_export *older, *newer;
};

/* A request for bytes [vpos, vpos + len) of an open slice, all of one box. */
struct ck_export_wish {
	struct ck_open_slice *from;
	struct ck_files *files; /* as in ck_read */
	uint64_t vpos, len;	/* bytes; len is not 0 */
	/* Equal for slices that have the same bytes, and different for all
	 * others. */
	uint64_t slice;
	uint8_t uuid[16]; /* UUID of the device */
	bool own, with_file;
	/* Private. Next request, protected by ck_exports.lock: */
	struct ck_export_wish *next;
	struct ck_export_fill
		*fill; /* reads in flight, protected by ck_exports.lock */
	bool unwanted; /* atomic: interrupted */
};

/* gatherer: must have allocate(). cache: most bytes of idle exports that are
 * kept. Caller owns all arguments, which must outlive the result. NULL if out of
 * memory. */
struct ck_exports *ck_exports_make(struct ck_files *files,
				   struct ck_backend *remote,
				   struct ck_gatherer *gatherer,
				   uint64_t cache);
/* No export may have a user. NULL is allowed. */
void ck_exports_free(struct ck_exports *all);
/* Blocks until the export is filled. Returns 0, or: -EBUSY if a user has the same
 * bytes shared in the other form (descriptor or handle); -EINTR if interrupted or
 * stopped; errors of ck_read and of ck_gatherer.allocate. Caller must call
 * ck_exports_put(). */
CK_MUST_USE int ck_exports_get(struct ck_exports *all, struct ck_export_wish *w,
			       struct ck_export **out);
/* Cancels ck_exports_get() of this request: it ends soon, with -EINTR unless the
 * export is filled. May be called before it begins, and until it has returned. */
void ck_exports_interrupt(struct ck_exports *all, struct ck_export_wish *w);
/* Cancels all waiting requests and refuses later ones, both with -EINTR. */
void ck_exports_stop(struct ck_exports *all);
void ck_exports_put(struct ck_exports *all, struct ck_export *e);

#endif
