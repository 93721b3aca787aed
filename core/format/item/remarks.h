/* SPDX-License-Identifier: MIT */
/*
 * remarks: facts that only the pickles of items have, collected as items are read: classes
 * that the reader does not know, entries that hold a DTensor of one rank, and quantizers.
 *
 * Each function may be called by any thread. If memory is short, a fact is not recorded.
 */
#ifndef CK_REMARKS_H
#define CK_REMARKS_H

#include "ckptfs/pickle.h"

struct ck_remarks;

struct ck_remarks *ck_remarks_make(void); /* NULL if memory is exhausted */
void ck_remarks_free(struct ck_remarks *r);

/* Notes the unknown classes that a pickle names. r may be NULL. */
void ck_remarks_classes(struct ck_remarks *r, const struct ck_pickle *p);
/* Notes that the object of this number holds a DTensor of one rank. */
void ck_remarks_dtensor(struct ck_remarks *r, uint32_t object);
/* Notes the quantizer of an item of the tensor of this number, in words. */
void ck_remarks_quantizer(struct ck_remarks *r, uint32_t tensor,
			  struct ck_str words);

/* The classes, in no order, copied into an array and an arena of the caller. -ENOMEM: the
 * array may have some of them. */
CK_MUST_USE int ck_remarks_list_classes(struct ck_remarks *r,
					struct ck_arena *arena,
					struct ck_str **out, size_t *n);
/* The i-th object noted by ck_remarks_dtensor(), in order of numbers; false: there are no
 * more. */
CK_MUST_USE bool ck_remarks_dtensor_at(struct ck_remarks *r, size_t i,
				       uint32_t *object);
/* Appends the words recorded for a tensor's quantizer, if there are any. */
void ck_remarks_print_quantizer(struct ck_remarks *r, uint32_t tensor,
				struct ck_buf *out);

#endif
