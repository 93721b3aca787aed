/* SPDX-License-Identifier: MIT */
/*
 * view: what the user sees. One file of core/view for each part of the tree;
 * each is a pure function of the catalog. A view turns a name into an entry
 * and an entry into a slice.
 */
#ifndef CKPTFS_VIEW_H
#define CKPTFS_VIEW_H

#include "ckptfs/model.h"
#include "ckptfs/slice.h"

/* One directory of tensor files. */
struct ck_tensor_view {
	const char *dir;    /* its name in the root of the mount */
	const char *suffix; /* of its files, after the stem */
	/* Bytes of the file of a tensor; 0 if those of the tensor cannot be
	 * counted (its err says why). */
	uint64_t (*size)(const struct ck_catalog *c, uint32_t tensor);
	/* What the file consists of, no part where the bytes cannot be
	 * counted; ck_slice_free() it. 0 or -ENOMEM. */
	int (*slice)(const struct ck_catalog *c, uint32_t tensor,
		     struct ck_slice **out);
};

/* full/ and raw/, in the order shown. */
extern const struct ck_tensor_view *const ck_tensor_views[];
extern const size_t ck_ntensor_views;

/* The tensor whose file this name is; -ENOENT. */
CK_MUST_USE int ck_tensor_view_lookup(const struct ck_tensor_view *v,
				      const struct ck_catalog *c,
				      struct ck_str name, uint32_t *tensor);
/* Appends the file name of a tensor. */
void ck_tensor_view_name(const struct ck_tensor_view *v,
			 const struct ck_catalog *c, uint32_t tensor,
			 struct ck_buf *out);

/* --- local/: what each rank saved, as it saved it ------------------------------ */

/* A box is a chunk of the catalog. An owner is a rank, or a data file
 * that is named after none; it has a directory. */
struct ck_local;

/* The catalog must outlive it. Who saved which box stays as it is now, also
 * when a commit moves boxes to other files. -ENOMEM. */
CK_MUST_USE int ck_local_make(const struct ck_catalog *c,
			      struct ck_local **out);
void ck_local_free(struct ck_local *l);
uint32_t ck_local_count(const struct ck_local *l); /* of owners */
/* Appends the name of an owner's directory. */
void ck_local_name(const struct ck_local *l, uint32_t owner,
		   struct ck_buf *out);
CK_MUST_USE int ck_local_find(const struct ck_local *l, struct ck_str name,
			      uint32_t *owner);
/* How many boxes an owner has, and which is number i of them. */
uint32_t ck_local_boxes(const struct ck_local *l, uint32_t owner);
uint32_t ck_local_box(const struct ck_local *l, uint32_t owner, uint32_t i);
/* Appends the file name of a box; -ENOENT: no box of the owner has it. */
void ck_local_box_name(const struct ck_local *l, uint32_t box,
		       struct ck_buf *out);
CK_MUST_USE int ck_local_box_find(const struct ck_local *l, uint32_t owner,
				  struct ck_str name, uint32_t *box);
/* Bytes of the file of a box, and what it consists of; ck_slice_free() it. */
uint64_t ck_local_size(const struct ck_local *l, uint32_t box);
CK_MUST_USE int ck_local_slice(const struct ck_local *l, uint32_t box,
			       struct ck_slice **out);

#endif
