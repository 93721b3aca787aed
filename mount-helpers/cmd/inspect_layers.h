/* SPDX-License-Identifier: MIT */
/*
 * inspect_layers: tensors whose names differ by one number only, together.
 */
#ifndef CKPTFS_INSPECT_LAYERS_H
#define CKPTFS_INSPECT_LAYERS_H

#include "inspect_totals.h"

/* Layers [first, last] under one stem, all of one form: what follows the
 * number in their tensors' names, the dtypes and the shapes are the same. */
struct ck_layers_row {
	struct ck_str stem; /* up to the number; borrowed from the catalog */
	uint64_t first, last;
	struct ck_total total; /* of all of them, its name is empty */
};

/* In natural order. */
struct ck_layers {
	struct ck_layers_row *rows;
	size_t n;
	size_t shared; /* bytes that all names of the tensors begin with */
};

/* Layers of a list of tensors. The number is the first part of a name that is
 * one, behind the parts that all names share. -ENOMEM. */
CK_MUST_USE int ck_layers_find(const struct ck_catalog *c,
			       const uint32_t *tensors, size_t n,
			       struct ck_layers *out);
void ck_layers_fini(struct ck_layers *l);
/* A prefix, as ck_totals_by_prefix() has it, that is a layer itself. */
bool ck_layers_have(const struct ck_layers *l, struct ck_str prefix);
/* The row begins right behind what all names share. */
bool ck_layers_row_is_top(const struct ck_layers *l,
			  const struct ck_layers_row *row);
/* Appends "model.layers.{0..23}", or "model.layers.5". */
void ck_layers_row_name(const struct ck_layers_row *row, struct ck_buf *out);

#endif
