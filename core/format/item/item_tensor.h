/* SPDX-License-Identifier: MIT */
/*
 * item_tensor: a tensor in a pickle of torch.save: its dtype, shape and strides, and
 * the key of its storage. Independent of the container that has the storage. Stateless;
 * any thread.
 */
#ifndef CK_ITEM_TENSOR_H
#define CK_ITEM_TENSOR_H

#include "ckptfs/layout.h"
#include "ckptfs/pickle.h"

struct ck_torch_tensor {
	/* ck_dtype_at(); CK_DTYPE_UNKNOWN if only its name is known */
	uint8_t dtype;
	uint16_t change; /* enum ck_change, without CK_CHANGE_SWAP */
	/* such as "torch.float32"; empty if only the class implies it */
	struct ck_str name;
	/* of the storage; empty for a meta tensor, which has no storage */
	struct ck_str class;
	struct ck_str key; /* of the storage */
	uint64_t storage;  /* bytes of the storage; 0 if dtype is unknown */
	uint64_t offset;   /* elements */
	uint32_t ndim;
	int64_t size[CK_MAX_DIMS];
	int64_t stride[CK_MAX_DIMS]; /* elements */
	struct ck_pv quantizer;	     /* a tuple; CK_PV_NONE if not quantized */
};

/* Reads v of the pickle p as a tensor. Texts of *out point into p. Returns 1; 0 if v is
 * not a tensor, then out->name is the function that it calls, or "a value"; or:
 * -EBADMSG if it is a malformed tensor. */
CK_MUST_USE int ck_torch_tensor_take(const struct ck_pickle *p,
				     const struct ck_pv *v,
				     struct ck_torch_tensor *out,
				     struct ck_diag *d);
/* Sets *empty if the tensor has no elements; else sets *elements to the number of
 * elements that its storage must have. False if that number overflows. */
CK_MUST_USE bool ck_torch_tensor_reach(const struct ck_torch_tensor *t,
				       bool *empty, uint64_t *elements);
/* Sets ndim strides in bytes. The dtype must be known. */
void ck_torch_tensor_strides(const struct ck_torch_tensor *t,
			     uint64_t *strides);

#endif
