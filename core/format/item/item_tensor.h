/* SPDX-License-Identifier: MIT */
/*
 * item_tensor: a tensor as torch.save writes it into a pickle: of which storage, and which elements
 * of that. Whatever holds storages is not known here.
 */
#ifndef CK_ITEM_TENSOR_H
#define CK_ITEM_TENSOR_H

#include "ckptfs/layout.h"
#include "ckptfs/pickle.h"

struct ck_torch_tensor {
	uint8_t dtype; /* ck_dtype_at(); CK_DTYPE_UNKNOWN: only its name is known */
	uint16_t change;    /* enum ck_change, but for the byte order */
	struct ck_str name; /* "torch.float32"; empty: nothing says it */
	struct ck_str class
		; /* of the storage; empty: a meta tensor, which has none */
	struct ck_str key; /* of the storage */
	uint64_t storage;  /* bytes that it must have; 0 if dtype is unknown */
	uint64_t offset;   /* elements */
	uint32_t ndim;
	int64_t size[CK_MAX_DIMS];
	int64_t stride[CK_MAX_DIMS]; /* elements */
	struct ck_pv quantizer;	     /* a tuple; CK_PV_NONE if not quantized */
};

/* v of the pickle p as a tensor: 1 and *out, whose texts are p's; 0: it is none, and out->name
 * is the function that it calls, or "a value". -EBADMSG: a tensor, and malformed. */
CK_MUST_USE int ck_torch_tensor_take(const struct ck_pickle *p,
				     const struct ck_pv *v,
				     struct ck_torch_tensor *out,
				     struct ck_diag *d);
/* Is there an element, and how many elements must the storage have? False: more than can be
 * counted. */
CK_MUST_USE bool ck_torch_tensor_reach(const struct ck_torch_tensor *t,
				       bool *empty, uint64_t *elements);
/* Its strides in bytes, ndim; of a known dtype. */
void ck_torch_tensor_strides(const struct ck_torch_tensor *t,
			     uint64_t *strides);

#endif
