/* SPDX-License-Identifier: MIT */
/*
 * local: what each rank saved, as it saved it. A box is a chunk of the catalog. An
 * owner is a rank, or a data file that is named after none; it has a directory.
 */
#ifndef CK_LOCAL_H
#define CK_LOCAL_H

#include "ckptfs/view.h"

struct ck_local;

/* Who saved which box stays as it is now, also when a commit moves boxes to other
 * files. -ENOMEM. */
CK_MUST_USE int ck_local_make(const struct ck_catalog *c,
			      struct ck_local **out);
void ck_local_free(struct ck_local *l);
uint32_t ck_local_count(const struct ck_local *l); /* of owners */
/* How many boxes an owner has, and which is number i of them. */
uint32_t ck_local_boxes(const struct ck_local *l, uint32_t owner);
uint32_t ck_local_box(const struct ck_local *l, uint32_t owner, uint32_t i);

/* Of a catalog of the same checkpoint: */

/* Appends the name of an owner's directory. */
void ck_local_name(const struct ck_local *l, const struct ck_catalog *c,
		   uint32_t owner, struct ck_buf *out);
CK_MUST_USE int ck_local_find(const struct ck_local *l,
			      const struct ck_catalog *c, struct ck_str name,
			      uint32_t *owner);
/* Appends the file name of a box; -ENOENT: no box of the owner has it. */
void ck_local_box_name(const struct ck_local *l, const struct ck_catalog *c,
		       uint32_t box, struct ck_buf *out);
CK_MUST_USE int ck_local_box_find(const struct ck_local *l,
				  const struct ck_catalog *c, uint32_t owner,
				  struct ck_str name, uint32_t *box);
/* Bytes of the file of a box, and what it consists of; ck_slice_free() it. */
uint64_t ck_local_size(const struct ck_catalog *c, uint32_t box);
CK_MUST_USE int ck_local_slice(const struct ck_catalog *c, uint32_t box,
			       struct ck_slice **out);

#endif
