/* SPDX-License-Identifier: MIT */
/*
 * inspect_totals: tensors counted by element type and by where their names
 * lie.
 */
#ifndef CKPTFS_INSPECT_TOTALS_H
#define CKPTFS_INSPECT_TOTALS_H

#include "ckptfs/model.h"

struct ck_total {
	struct ck_str name; /* borrowed from the catalog */
	uint64_t tensors, bytes, chunks, elements;
	uint64_t parameters; /* values; two in an element of some dtypes */
};

/* Sums of a list of tensors, in natural order of the names. */
struct ck_totals {
	struct ck_total *rows;
	size_t n;
};

/* By dtype. -ENOMEM. */
CK_MUST_USE int ck_totals_by_dtype(const struct ck_catalog *c,
				   const uint32_t *tensors, size_t n,
				   struct ck_totals *out);
/* By prefix of the shown name: the parts between dots that all of them share,
 * and one more. -ENOMEM. */
CK_MUST_USE int ck_totals_by_prefix(const struct ck_catalog *c,
				    const uint32_t *tensors, size_t n,
				    struct ck_totals *out);
void ck_totals_fini(struct ck_totals *t);
/* Adds the numbers; bytes, elements and parameters saturate. */
void ck_total_add(struct ck_total *sum, const struct ck_total *more);
/* Adds one tensor. An alias adds no bytes. Elements and parameters are 0 if their number does
 * not fit. */
void ck_total_count(struct ck_total *sum, const struct ck_tensor *t);
/* The numbers as members of a JSON object. */
void ck_total_print_json(const struct ck_total *t, struct ck_buf *out);
/* Bytes of the dotted parts that the names of all these tensors begin with,
 * the last dot included. */
size_t ck_shared_prefix(const struct ck_catalog *c, const uint32_t *tensors,
			size_t n);

#endif
