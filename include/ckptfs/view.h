/* SPDX-License-Identifier: MIT */
/*
 * view: what the user sees. One file of core/view for each part of the tree;
 * each is a pure function of the catalog. A view turns a name into an entry
 * and an entry into a slice.
 */
#ifndef CKPTFS_VIEW_H
#define CKPTFS_VIEW_H

#include "ckptfs/layout.h"

/* One directory of tensor files. */
struct ck_view {
	const char *dir;    /* its name in the root of the mount */
	const char *suffix; /* of its files, after the stem */
	/* Bytes of the file of a tensor; 0 if those of the tensor cannot be
	 * counted (its err says why). */
	uint64_t (*size)(const struct ck_catalog *c, uint32_t tensor);
	/* What the file consists of, no part where the bytes cannot be
	 * counted; free() it. 0 or -ENOMEM. */
	int (*slice)(const struct ck_catalog *c, uint32_t tensor,
		     struct ck_slice **out);
};

/* full/ and raw/, in the order shown. */
extern const struct ck_view *const ck_views[];
extern const size_t ck_nviews;

/* The tensor whose file this name is; -ENOENT. */
CK_MUST_USE int ck_view_lookup(const struct ck_view *v,
			       const struct ck_catalog *c, struct ck_str name,
			       uint32_t *tensor);
/* Appends the file name of a tensor. */
void ck_view_name(const struct ck_view *v, const struct ck_catalog *c,
		  uint32_t tensor, struct ck_buf *out);

/* --- local/: what each rank saved, as it saved it ------------------------------ */

/* A box is an index in catalog->chunks. An owner is a rank, or a data file
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
/* False: no file had the box, it is in no directory. */
CK_MUST_USE bool ck_local_has_owner(const struct ck_local *l, uint32_t box,
				    uint32_t *owner);
/* Appends the file name of a box; -ENOENT: no box of the owner has it. */
void ck_local_box_name(const struct ck_local *l, uint32_t box,
		       struct ck_buf *out);
CK_MUST_USE int ck_local_box_find(const struct ck_local *l, uint32_t owner,
				  struct ck_str name, uint32_t *box);
/* Bytes of the file of a box, and what it consists of; free() it. */
uint64_t ck_local_size(const struct ck_local *l, uint32_t box);
CK_MUST_USE int ck_local_slice(const struct ck_local *l, uint32_t box,
			       struct ck_slice **out);

/* --- reports and order ---------------------------------------------------------- */

/* Indices in catalog->entries in natural order of the shown names, the order
 * of every list for people; free() it. NULL when out of memory. */
uint32_t *ck_report_order(const struct ck_catalog *c);
/* Brings indices of tensors into that order. */
void ck_report_sort(const struct ck_catalog *c, uint32_t *tensors, size_t n);

/* Appends the names that keep the prefixes of wrappers, escaped, in natural
 * order, with commas between: the first ones of many, and how many more. */
void ck_report_prefixed(const struct ck_catalog *c, struct ck_buf *out);

/* Reports of the control directory made from the catalog alone. */
#define CK_REPORT_CSV_HEADER "stem,dtype,shape,bytes,chunks,kind\n"
void ck_report_csv(const struct ck_catalog *c, struct ck_buf *out);
void ck_report_jsonl(const struct ck_catalog *c, struct ck_buf *out);
/* state_dict.json: the shown names in the nesting that the checkpoint's own
 * paths give; one flat object where there are none or they contradict each
 * other. */
void ck_report_state_dict(const struct ck_catalog *c, struct ck_buf *out);
/* One tensor as tensors.csv has it, with the newline. */
void ck_report_tensor_csv(const struct ck_catalog *c, uint32_t tensor,
			  struct ck_buf *out);
/* One tensor as tensors.jsonl has it, without the newline; `boxes` adds the
 * list of its boxes and their grid. */
void ck_report_tensor_json(const struct ck_catalog *c, uint32_t tensor,
			   bool boxes, struct ck_buf *out);

/* Names that a file system which folds case or normalises Unicode would take
 * for one, in groups. rows is owned. -ENOMEM. */
struct ck_alike {
	struct ck_alike_row {
		uint32_t entry; /* index in catalog->entries */
		bool first;	/* of its group */
	} * rows;

	size_t n;
};

CK_MUST_USE int ck_alike_find(const struct ck_catalog *c, struct ck_alike *out);
void ck_alike_fini(struct ck_alike *a);
/* How many parts each dimension is cut into, if the boxes are the cells of a
 * grid; -ENOENT: they are not, or t has a fault. -ENOMEM. */
CK_MUST_USE int ck_report_grid(const struct ck_catalog *c,
			       const struct ck_tensor *t,
			       int64_t grid[static CK_MAX_DIMS]);

#endif
