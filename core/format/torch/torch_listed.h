/* SPDX-License-Identifier: MIT */
/*
 * torch_listed: rows of a checkpoint that lists its files and its tensors beside the files: torch
 * files whose tensors are parts by that list, and rows of files that are not torch files. Used by
 * the thread that loads the checkpoint.
 */
#ifndef CK_TORCH_LISTED_H
#define CK_TORCH_LISTED_H

#include "entries.h"
#include "format/item/item_tensor.h"

/* The list of tensors. */
struct ck_torch_layout {
	void *ctx;
	/* Called for each tensor of a torch file that is being read. *part is read
	 * from the value itself, NULL for a plain tensor; the function may set it to memory
	 * of the arena of the file. Returns 0, or -ENOMEM. */
	int (*part)(void *ctx, struct ck_torch_load *l, uint32_t row,
		    const struct ck_pv *value,
		    const struct ck_rank_part **part);
};

/* A local tensor in C order. */
struct ck_torch_dense {
	struct ck_str dtype; /* torch's name without "torch." */
	uint32_t ndim;
	const int64_t *size; /* in elements */
	struct ck_item item;
};

/* Adds the description and the boxes of a row that is in a file without a pickle. Returns 0, or
 * -ENOMEM. In torch_copy.c. */
CK_MUST_USE int ck_torch_dense_hold(struct ck_torch_load *l,
				    struct ck_torch_row *row,
				    const struct ck_rank_part *part,
				    const struct ck_torch_dense *dense);
/* Makes a path in an arena. key: the parts, joined by dots. NULL if memory is short. In
 * torch_rows.c. */
struct ck_torch_path *ck_torch_path_make(struct ck_arena *arena,
					 struct ck_str key,
					 const struct ck_path_part *parts,
					 uint32_t nparts);
/* Returns the name of the dtype of a tensor, or of its class, without "torch.". In torch_copy.c. */
struct ck_str ck_torch_dtype_name(const struct ck_torch_tensor *t);
/* Sets the value of a row to a pickle, which is copied to the arena of the load. Returns 0, or
 * -ENOMEM. In torch_values.c. */
CK_MUST_USE int ck_torch_value_set(struct ck_torch_load *l,
				   struct ck_torch_row *row,
				   struct ck_str pickle);

#endif
