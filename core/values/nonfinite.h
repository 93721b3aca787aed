/* SPDX-License-Identifier: MIT */
/*
 * nonfinite: finds NaN and infinities by their bits, without converting values: in bytes, and as
 * the first tensor of a list that has one. Only dtypes of floating-point and complex numbers have
 * them. A part of values.
 */
#ifndef CKPTFS_NONFINITE_H
#define CKPTFS_NONFINITE_H

#include "tensor_pass.h"

/* A unit of `width` bytes is NaN or infinite if its bits under `mask` are `bits`. Both are
 * little-endian, as tensors are stored. width 0: no value of the dtype is. Constant. */
struct ck_nonfinite_form {
	uint8_t width; /* 1, 2, 4 or 8; of a complex dtype that of a part */
	uint8_t mask[8], bits[8];
};

struct ck_nonfinite_form ck_nonfinite_form_of(uint8_t dtype);
/* True if one of `len` bytes' values is NaN or infinite. len: a multiple of the width. The bytes
 * need no alignment. The processor's AVX2 units are used if it has them. Any thread. */
CK_MUST_USE bool ck_nonfinite_is_in(const struct ck_nonfinite_form *f,
				    const uint8_t *bytes, size_t len);

/* A tensor that is searched. */
struct ck_nonfinite {
	uint32_t tensor; /* row in the catalog; set by the caller */
	int err;	 /* 0, or the positive errno of reading it */
};

struct ck_nonfinite_options {
	unsigned threads; /* as in ck_pass */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
};

/* Bytes that a search of n tensors reads at most, for progress. */
uint64_t ck_nonfinite_bytes(const struct ck_catalog *c,
			    const struct ck_nonfinite *all, size_t n);
/* Sets *first to the index of the first of n tensors with a NaN or an infinity; n: none that
 * can be read has one. Tensors behind *first are not read to their end; their `err` is
 * undefined. Tensors of other dtypes are not read, and have no `err`. Returns 0, or: shortages of
 * this process. */
CK_MUST_USE int ck_nonfinite_find(const struct ck_pass_source *from,
				  struct ck_nonfinite *all, size_t n,
				  const struct ck_nonfinite_options *o,
				  size_t *first);

#endif
