/* SPDX-License-Identifier: MIT */
/*
 * undone: archives whose stream transforms were undone. The last few are cached: tensors that
 * are parts of one archive are often read one after another, and each would undo all of it.
 * Any thread may call the functions.
 */
#ifndef CK_UNDONE_H
#define CK_UNDONE_H

#include "ckptfs/format.h"
#include "format/item/item.h"
#include "format/item/stored.h"

struct ck_undone {
	uint8_t *bytes; /* len */
	size_t len;	/* bytes */
	uint64_t pos;	/* offset of the first element, in bytes */
	uint8_t change; /* enum ck_change */
	/* Set by ck_undone_get() only, for boxes of one dimension: */
	uint64_t stride; /* bytes */
	struct ck_item item;
	uint64_t touched; /* of its file, see ck_files_touched() */
	unsigned refs;	  /* private, under ck_undones.lock */
};

/* Undoes an archive and locates the elements of its box; strides: ndim, in bytes. *out must be
 * zeroed before. Caller owns out->bytes, which is NULL on error. Returns 0, or errors of
 * ck_stored_undo() and ck_item_locate(). */
CK_MUST_USE int ck_archive_undo(struct ck_stored *stored,
				struct ck_str transforms,
				const struct ck_item_want *want,
				struct ck_undone *out, uint64_t *strides,
				struct ck_diag *d);

/* Makes the cache. NULL if memory is short. */
struct ck_undones *ck_undones_make(void);
void ck_undones_free(struct ck_undones *u); /* NULL is allowed */

/* Sets *out to the cached archive of an item if its file is still the same, else undoes it.
 * want: a box of one dimension. *out may also be set on error; the caller passes it to
 * ck_undones_keep() in each case. Returns 0, or: errors of ck_stored_touch() and
 * ck_archive_undo(); -ENOMEM. */
CK_MUST_USE int ck_undone_get(struct ck_undones *u, const struct ck_item *item,
			      struct ck_stored *stored,
			      struct ck_str transforms,
			      const struct ck_item_want *want,
			      struct ck_undone **out, struct ck_diag *d);
/* Drops the caller's reference. If `same`, the archive is cached first; same: it was read, and
 * its file was not replaced. Else the cached archive of the item is dropped, too. NULL is
 * allowed. */
void ck_undones_keep(struct ck_undones *u, struct ck_undone *undone, bool same);

#endif
