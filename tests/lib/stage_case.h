/* SPDX-License-Identifier: MIT */
/*
 * stage_case: transactions, and stages of the tensors and boxes of a checkpoint, by
 * their numbers.
 */
#ifndef CK_STAGE_CASE_H
#define CK_STAGE_CASE_H

#include "ckptfs/commit.h"
#include "syntax/npy.h"

#define ALL_BOXES UINT32_MAX /* in place of the number of a box */

/* What a view would make of it. A damaged tensor has nothing but its elements. */
static inline struct ck_slice *slice_of(const struct ck_catalog *c,
					uint32_t tensor, uint32_t box,
					enum ck_accepts accepts)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	const int64_t *at = box == ALL_BOXES ? NULL : ck_tensor_box(t, box);
	struct ck_slice_builder b = { .n = 0 };
	struct ck_buf header = { 0 };
	struct ck_slice *slice;

	if (accepts == CK_ACCEPTS_NPY && !t->err)
		ck_npy_header(t->dtype, t->ndim, at ? at + t->ndim : t->shape,
			      &header);
	ck_slice_add_bytes(&b, (struct ck_str){ header.data, header.len });
	ck_slice_add_box(&b, tensor, t->ndim, (const uint64_t *)at,
			 at ? ck_tensor_box_bytes(t, box) : t->nbytes);
	if (header.err || ck_slice_make(&b, &slice))
		abort();
	ck_buf_fini(&header);
	return slice;
}

/* A transaction that has begun; the caller ends it. */
static inline struct ck_transaction *begun(struct ck_writer *w, bool together)
{
	struct ck_transaction *x;

	if (ck_transaction_begin(w, together, &x))
		abort();
	return x;
}

/* Opens a stage of a tensor, or of one of its boxes. */
static inline int stage_case_open(struct ck_transaction *x,
				  struct ck_checkpoint *cp, uint32_t tensor,
				  uint32_t box, enum ck_accepts accepts,
				  struct ck_stage **out, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_slice *slice = slice_of(c, tensor, box, accepts);
	int rc = ck_stage_open(x, c, slice, accepts, out, d);

	ck_slice_free(slice);
	return rc;
}

#endif
