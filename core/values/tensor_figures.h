/* SPDX-License-Identifier: MIT */
/*
 * tensor_figures: statistics and a histogram of each of many tensors, in one pass over their bytes.
 * Each thread has a tally, and a tensor of several ranges up to CK_PASS_RANGES of them. A part of
 * values.
 */
#ifndef CKPTFS_TENSOR_FIGURES_H
#define CKPTFS_TENSOR_FIGURES_H

#include "tensor_pass.h"
#include "value_tally.h"

/* A tensor and its figures. */
struct ck_figured {
	uint32_t tensor;	   /* row in the catalog; set by the caller */
	int err;		   /* 0, or the positive errno of reading it */
	struct ck_figures figures; /* if err is 0 */
};

struct ck_figures_options {
	unsigned threads; /* as in ck_pass */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
};

/* Computes the figures of n tensors. A tensor that cannot be read has `err`. Returns 0, or:
 * shortages of this process. */
CK_MUST_USE int ck_figures_compute(const struct ck_pass_source *from,
				   struct ck_figured *all, size_t n,
				   const struct ck_figures_options *o);

#endif
