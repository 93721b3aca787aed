/* SPDX-License-Identifier: MIT */
/*
 * compare: compares the bytes of tensors of two checkpoints, which are read once, whatever their
 * layouts are. A part of values.
 */
#ifndef CKPTFS_COMPARE_H
#define CKPTFS_COMPARE_H

#include "tensor_pass.h"
#include "value_diff.h"

/* Two tensors of one dtype and shape. */
struct ck_compared {
	struct ck_pass_row row; /* set by the caller */
	unsigned from; /* the source that cannot be read, if `err` is set */
	int err;       /* 0, or the positive errno of reading it */
	bool differs;  /* some bytes differ */
	struct ck_value_diff diff; /* if ck_compare_options.values */
};

struct ck_compare_options {
	bool values; /* compute `diff` */
	struct ck_tolerance tolerance;
	unsigned threads; /* as in ck_pass */
	/* bytes: of one tensor of each pair */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
};

/* Compares n pairs. Returns 0, or: shortages of this process. */
CK_MUST_USE int ck_tensors_compare(const struct ck_pass_source from[2],
				   struct ck_compared *all, size_t n,
				   const struct ck_compare_options *o);

#endif
