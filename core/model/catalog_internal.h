/* SPDX-License-Identifier: MIT */
/*
 * catalog_internal: what the files of the catalog share while it is built.
 */
#ifndef CK_MODEL_CATALOG_INTERNAL_H
#define CK_MODEL_CATALOG_INTERNAL_H

#include "ckptfs/model.h"

/* Elements allocated for each array of the catalog. */
struct ck_catalog_caps {
	size_t text, files, tensors, objects, entries, paths, parts, chunks,
		shapes, boxes, transforms, globals, replicas, strided, strides;
	size_t text_mapped, files_mapped; /* bytes of pages; 0: on the heap */
};

/* catalog_names.c: shown names, stems, the table by stem. */
CK_MUST_USE int ck_catalog_names_make(struct ck_catalog *c, struct ck_diag *d);

/* catalog_check.c: sizes, order and faults of tensors and items. */
CK_MUST_USE int ck_catalog_check(struct ck_catalog *c);

/* catalog_items.c: whether an item that needs no look is as long as box i of a
 * tensor without fault wants. */
CK_MUST_USE bool ck_catalog_item_fits(const struct ck_catalog *c,
				      const struct ck_tensor *t, uint32_t i,
				      const struct ck_item *item);

/* tiling.c: are boxes disjoint? */

/* Scratch for the boxes of one tensor after another. */
struct ck_tiling {
	/* set by the caller */
	const int64_t *boxes; /* 2 * ndim for each: offsets, sizes */
	uint32_t ndim;
	uint32_t n;	 /* boxes to look at */
	uint32_t *index; /* which; owned; reordered */
	uint64_t budget; /* steps that may still be done; reduced */
	/* a pair that overlaps */
	uint32_t a, b;
	/* private */
	uint32_t *spare;
	struct ck_tiling_range *stack;
};

enum ck_tiling_result {
	CK_TILING_DISJOINT,
	CK_TILING_OVERLAP,   /* a and b do */
	CK_TILING_IRREGULAR, /* out of budget: not known */
};

/* For at most `max` boxes at a time. */
CK_MUST_USE int ck_tiling_init(struct ck_tiling *t, uint32_t max);
void ck_tiling_fini(struct ck_tiling *t);
/* Sorts index by offsets, keeping the order of equal ones. Any values. */
void ck_tiling_sort(struct ck_tiling *t);
/* Do any two of the boxes share an element? All must be inside one tensor
 * and have a positive volume. */
enum ck_tiling_result ck_tiling_check(struct ck_tiling *t);

#endif
