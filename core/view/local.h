/* SPDX-License-Identifier: MIT */
/*
 * local: the data that each rank saved, as it was saved. An entry is a box (a
 * chunk of the catalog) or an object. An owner is a rank, or a data file
 * without a rank in its name; each owner has a directory.
 */
#ifndef CK_LOCAL_H
#define CK_LOCAL_H

#include "ckptfs/view.h"

struct ck_local_owner {
	bool is_rank;
	uint32_t file; /* first data file of the owner */
	uint64_t rank;
	uint32_t begin; /* first of its entries in ck_local.entries */
	uint32_t end;
};

/* Constant, except `noted`. */
struct ck_local {
	struct ck_local_owner *owners;
	uint32_t nowners, nboxes;
	uint32_t nentries;  /* entry nboxes + i is object i */
	uint32_t *of_entry; /* owner of each; CK_NO_OWNER: not shown */
	uint32_t *entries;  /* entries with an owner, sorted by owner */
	uint32_t nshown;    /* length of `entries` */
	/* Of the view: */
	const struct ck_view_options *options;
	bool has_mesh; /* some tensor is a DTensor */
	bool noted;    /* atomic: the log has the line about flat parameters */
};

#define CK_NO_OWNER UINT32_MAX

/* Builds the index. It stays valid when a commit moves boxes to other files.
 * Returns 0, -ENOMEM, or -EOVERFLOW if there are too many entries. */
CK_MUST_USE int ck_local_make(const struct ck_catalog *c,
			      struct ck_local **out);
void ck_local_free(struct ck_local *l);
/* The number of entries of an owner, and entry i of them. */
uint32_t ck_local_boxes(const struct ck_local *l, uint32_t owner);
uint32_t ck_local_box(const struct ck_local *l, uint32_t owner, uint32_t i);

/* The following functions take any generation of the same catalog. */

/* Append the name of an owner's directory; find an owner by that name. Returns
 * 0, -ENOENT if no owner has the name, or -ENOMEM. */
void ck_local_name(const struct ck_local *l, const struct ck_catalog *c,
		   uint32_t owner, struct ck_buf *out);
CK_MUST_USE int ck_local_find(const struct ck_local *l,
			      const struct ck_catalog *c, struct ck_str name,
			      uint32_t *owner);
/* True if an entry is an object, which *object becomes; false if it is a
 * box. */
bool ck_local_is_object(const struct ck_local *l, uint32_t entry,
			uint32_t *object);
/* Append the file name of an entry; find an entry of an owner by that name.
 * Returns 0, -ENOENT if no entry of the owner has the name, or -ENOMEM. */
void ck_local_box_name(const struct ck_local *l, const struct ck_catalog *c,
		       uint32_t box, struct ck_buf *out);
CK_MUST_USE int ck_local_box_find(const struct ck_local *l,
				  const struct ck_catalog *c, uint32_t owner,
				  struct ck_str name, uint32_t *box);
/* Size in bytes and slice of the file of a box. The caller frees the slice with
 * ck_slice_free(). */
uint64_t ck_local_size(const struct ck_catalog *c, uint32_t box);
CK_MUST_USE int ck_local_slice(const struct ck_catalog *c, uint32_t box,
			       struct ck_slice **out);

#endif
