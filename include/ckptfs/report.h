/* SPDX-License-Identifier: MIT */
/*
 * report: prints the catalog for people and for programs: tables, the nesting
 * of a state dict, and names that could be confused. Any thread.
 */
#ifndef CKPTFS_REPORT_H
#define CKPTFS_REPORT_H

#include "ckptfs/model.h"

/* Indices in catalog->entries in natural order of the shown names, the order
 * of every list for people; free() it. NULL when out of memory. */
uint32_t *ck_report_order(const struct ck_catalog *c);
/* Sorts indices of tensors into that order. */
void ck_report_sort(const struct ck_catalog *c, uint32_t *tensors, size_t n);

/* Appends the names that keep the prefixes of wrappers, escaped, in natural
 * order, separated by commas. Of many names: the first ones, and the number of
 * the rest. */
void ck_report_prefixed(const struct ck_catalog *c, struct ck_buf *out);

/* Reports of the control directory made from the catalog alone. */
#define CK_REPORT_CSV_HEADER "stem,dtype,shape,bytes,chunks,kind\n"
void ck_report_csv(const struct ck_catalog *c, struct ck_buf *out);
void ck_report_jsonl(const struct ck_catalog *c, struct ck_buf *out);
/* state_dict.json: the shown names, nested by the paths in the checkpoint; one
 * flat object if it has no paths or they contradict each other. */
void ck_report_state_dict(const struct ck_catalog *c, struct ck_buf *out);
/* One line of tensors.csv, with the newline. */
void ck_report_tensor_csv(const struct ck_catalog *c, uint32_t tensor,
			  struct ck_buf *out);

/* Adds members to the JSON object of a box; more() also appends the comma
 * before them. */
struct ck_report_boxes {
	void (*more)(void *arg, const struct ck_item *item, struct ck_buf *out);
	void *arg;
};

/* One line of tensors.jsonl, without the newline; `boxes`, if it is not NULL,
 * adds the list of boxes and their grid. */
void ck_report_tensor_json(const struct ck_catalog *c, uint32_t tensor,
			   const struct ck_report_boxes *boxes,
			   struct ck_buf *out);

/* Groups of names that are equal on a file system that folds case or normalises
 * Unicode. rows is owned. */
struct ck_alike {
	struct ck_alike_row {
		uint32_t entry; /* index in catalog->entries */
		bool first;	/* of its group */
	} * rows;

	size_t n;
};

CK_MUST_USE int ck_alike_find(const struct ck_catalog *c, struct ck_alike *out);
void ck_alike_fini(struct ck_alike *a);
/* The number of parts of each dimension, if the boxes are the cells of a grid.
 * Returns 0, -ENOMEM, or -ENOENT if they are not, or if t has a fault. */
CK_MUST_USE int ck_report_grid(const struct ck_tensor *t,
			       int64_t grid[static CK_MAX_DIMS]);

#endif
