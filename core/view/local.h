/* SPDX-License-Identifier: MIT */
/*
 * local: what each rank saved, as it saved it. An entry is a box, which is a chunk of
 * the catalog, or an object. An
 * owner is a rank, or a data file that is named after none; it has a directory.
 */
#ifndef CK_LOCAL_H
#define CK_LOCAL_H

#include "ckptfs/view.h"

struct ck_local_owner {
	bool is_rank;
	uint32_t file; /* its first data file */
	uint64_t rank;
	uint32_t begin; /* of its entries, in ck_local.entries */
	uint32_t end;
};

/* Constant. */
struct ck_local {
	struct ck_local_owner *owners;
	uint32_t nowners, nboxes;
	uint32_t nentries;  /* entry nboxes + i is object i */
	uint32_t *of_entry; /* owner of each; NO_OWNER: it is not here */
	uint32_t *entries;  /* sorted by owner */
	uint32_t nshown;    /* of them */
};

#define CK_NO_OWNER UINT32_MAX

/* Who saved which entry stays as it is now, also when a commit moves boxes to other
 * files. -ENOMEM. */
CK_MUST_USE int ck_local_make(const struct ck_catalog *c,
			      struct ck_local **out);
void ck_local_free(struct ck_local *l);
uint32_t ck_local_count(const struct ck_local *l); /* of owners */
/* How many entries an owner has, and which is number i of them. */
uint32_t ck_local_boxes(const struct ck_local *l, uint32_t owner);
uint32_t ck_local_box(const struct ck_local *l, uint32_t owner, uint32_t i);

/* Of a catalog of the same checkpoint: */

/* Appends the name of an owner's directory. */
void ck_local_name(const struct ck_local *l, const struct ck_catalog *c,
		   uint32_t owner, struct ck_buf *out);
CK_MUST_USE int ck_local_find(const struct ck_local *l,
			      const struct ck_catalog *c, struct ck_str name,
			      uint32_t *owner);
/* The object that an entry is; false: it is a box. */
bool ck_local_is_object(const struct ck_local *l, uint32_t entry,
			uint32_t *object);
/* Appends the file name of an entry; -ENOENT: none of the owner has it. */
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
