/* SPDX-License-Identifier: MIT */
/*
 * layout_internal: a layout as core/format has it. layout.c keeps and shares
 * them, locate.c finds what is in them.
 */
#ifndef CK_LAYOUT_INTERNAL_H
#define CK_LAYOUT_INTERNAL_H

#include "ckptfs/format.h"
#include "items_read.h"

/* --- layout.c ------------------------------------------------------------------ */

/* The layouts found so far; one list for each checkpoint. NULL if memory is short. */
struct ck_layouts *ck_layouts_make(const struct ck_catalog *c);
void ck_layouts_free(struct ck_layouts *l); /* NULL is allowed */
/* A tensor has another version: the layout of the version before is not shared any
 * more. */
void ck_layouts_forget(struct ck_checkpoint *cp, uint32_t tensor);

/* --- locate.c ------------------------------------------------------------------ */

struct ck_located {
	struct ck_layout layout; /* first: the layout is this */
	void *of_window; /* of one of a window: its boxes, order and chunks */
	struct ck_owned *owner; /* has what the tensor's row points to */
	/* Under ck_layouts.lock, once others can have it: */
	uint32_t refs;
	bool keep; /* also when nobody uses it */
};

/* Finds the boxes of a tensor that a window touches, or all. old: what was found
 * of the same version before, or NULL. Reads files, and so is called without a
 * lock. Shortages of this process only. */
CK_MUST_USE int ck_locate(struct ck_checkpoint *cp, const struct ck_catalog *c,
			  uint32_t tensor, const uint64_t *window,
			  const struct ck_located *old,
			  struct ck_located **out);
void ck_located_free(struct ck_located *l); /* NULL is allowed */

/* --- archive.c ------------------------------------------------------------------ */

/* Finds box i of a tensor in an item that is an archive: fills its extent and strides.
 * Errors are those of ck_item_locate(), -ESTALE, and of open(2). */
CK_MUST_USE int ck_archive_locate(struct ck_checkpoint *cp,
				  const struct ck_catalog *c,
				  const struct ck_tensor *t, uint32_t i,
				  const struct ck_item *item,
				  struct ck_extent *extent, uint64_t *strides,
				  struct ck_diag *d);

#endif
