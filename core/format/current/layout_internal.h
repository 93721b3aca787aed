/* SPDX-License-Identifier: MIT */
/*
 * layout_internal: the layouts of tensors inside core/format. locate.c makes a layout,
 * current_layout.c shares it between its users, and archive.c locates one box. A layout is
 * constant once it is shared, except for its references and `touches`. Any thread may call
 * the functions.
 */
#ifndef CK_LAYOUT_INTERNAL_H
#define CK_LAYOUT_INTERNAL_H

#include "ckptfs/format.h"
#include "items_read.h"

/* --- current_layout.c ----------------------------------------------------------- */

/* Makes the table of shared layouts of a checkpoint, empty. NULL if memory is short. */
struct ck_layouts *ck_layouts_make(const struct ck_catalog *c);
void ck_layouts_free(struct ck_layouts *l); /* NULL is allowed */
/* Called when a commit has published another version of a tensor: the layout of the previous
 * version is not shared any more. Its users keep it. */
void ck_layouts_forget(struct ck_checkpoint *cp, uint32_t tensor);

/* --- locate.c ------------------------------------------------------------------ */

struct ck_located {
	/* Must be first: the address of the layout is that of this struct. */
	struct ck_layout layout;
	/* Owned: boxes, order and chunks of a window; NULL: of the whole tensor. */
	void *of_window;
	/* Reference to the memory that the tensor's row points to. */
	struct ck_owned *owner;
	/* Under ck_layouts.lock, once the layout is shared: */
	uint32_t refs;
	bool keep; /* not freed with its last reference */
};

/* Locates the boxes of a tensor that a window touches; NULL: all boxes. old: an older layout
 * of the same version, whose boxes are reused where the file has not changed its ctime; or
 * NULL. Must be called without a lock, because it reads files. Faults of single boxes are in
 * the layout. Caller owns *out. Returns 0, or: -ENOMEM, -EMFILE and other shortages of this
 * process; -EREMOTE if remote ranges must be fetched first. */
CK_MUST_USE int ck_locate(struct ck_checkpoint *cp, const struct ck_catalog *c,
			  uint32_t tensor, const uint64_t *window,
			  const struct ck_located *old,
			  struct ck_located **out);
void ck_located_free(struct ck_located *l); /* NULL is allowed */

/* --- archive.c ------------------------------------------------------------------ */

/* Locates box i of a tensor in an item that is an archive or a blob. Fills the extent and the
 * ndim strides, in bytes. The owner of the layout frees extent->memory. Returns 0, or: errors of
 * ck_item_locate() and ck_blob_locate(); -ESTALE if the file was replaced; -EREMOTE if remote
 * ranges must be fetched first; errors of open(2). */
CK_MUST_USE int ck_archive_locate(struct ck_checkpoint *cp,
				  const struct ck_catalog *c,
				  const struct ck_tensor *t, uint32_t i,
				  const struct ck_item *item,
				  struct ck_extent *extent, uint64_t *strides,
				  struct ck_diag *d);

#endif
