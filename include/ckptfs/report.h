/* SPDX-License-Identifier: MIT */
/*
 * report: the whole catalog for people and for programs: tables, the nesting of
 * a state dict, and names that could be taken for each other.
 */
#ifndef CKPTFS_REPORT_H
#define CKPTFS_REPORT_H

#include "ckptfs/model.h"

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

/* What is said of each box beside its place: appended to its object, with the comma. */
struct ck_report_boxes {
	void (*more)(void *arg, const struct ck_item *item, struct ck_buf *out);
	void *arg;
};

/* One tensor as tensors.jsonl has it, without the newline; `boxes`, if it is not NULL,
 * adds the list of its boxes and their grid. */
void ck_report_tensor_json(const struct ck_catalog *c, uint32_t tensor,
			   const struct ck_report_boxes *boxes,
			   struct ck_buf *out);

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
CK_MUST_USE int ck_report_grid(const struct ck_tensor *t,
			       int64_t grid[static CK_MAX_DIMS]);

#endif
