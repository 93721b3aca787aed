/* SPDX-License-Identifier: MIT */
/*
 * undone: archives whose stream transforms were undone. The last few are kept, because
 * tensors that are parts of one archive are read one after another, and each would undo all
 * of it.
 */
#ifndef CK_UNDONE_H
#define CK_UNDONE_H

#include "../item/item.h"
#include "../item/stored.h"
#include "ckptfs/format.h"

struct ck_undone {
	uint8_t *bytes; /* len */
	size_t len;	/* bytes */
	uint64_t pos;	/* bytes: of its first element */
	uint8_t change; /* enum ck_change */
	/* Of one that is kept, whose box has one dimension: */
	uint64_t stride; /* bytes */
	struct ck_item item;
	uint64_t touched; /* of its file, see ck_files_touched() */
	unsigned refs;	  /* private, under ck_undones.lock */
};

/* Undoes an archive and finds the elements of its box. out->bytes are the caller's; NULL on
 * an error. Errors as of an archive. */
CK_MUST_USE int ck_archive_undo(struct ck_stored *stored,
				struct ck_str transforms,
				const struct ck_item_want *want,
				struct ck_undone *out, uint64_t *strides,
				struct ck_diag *d);

struct ck_undones *ck_undones_make(void); /* NULL: out of memory */
void ck_undones_free(struct ck_undones *u);

/* Returns the kept archive of an item if its file is still the same, else undoes it. *out is
 * also set on errors; pass it to ck_undones_keep() if it is not NULL. Errors as of an
 * archive. */
CK_MUST_USE int ck_undone_get(struct ck_undones *u, const struct ck_item *item,
			      struct ck_stored *stored,
			      struct ck_str transforms,
			      const struct ck_item_want *want,
			      struct ck_undone **out, struct ck_diag *d);
/* Keeps an archive if its file is still the same, else drops it. NULL is allowed. */
void ck_undones_keep(struct ck_undones *u, struct ck_undone *undone, bool same);

#endif
