/* SPDX-License-Identifier: MIT */
/*
 * npy: the header that numpy writes before the elements of an array, and the
 * headers of other writers (numpy/lib/format.py). Any thread.
 */
#ifndef CKPTFS_NPY_H
#define CKPTFS_NPY_H

#include "ckptfs/model.h"

/* Appends the header numpy writes before C-order data: version 1.0, data at a
 * multiple of 64. dtype must have an npy descr; ndim <= CK_MAX_DIMS. */
void ck_npy_header(uint8_t dtype, uint32_t ndim, const int64_t *shape,
		   struct ck_buf *out);
/* The number of bytes that ck_npy_header() appends. */
uint64_t ck_npy_header_len(uint8_t dtype, uint32_t ndim, const int64_t *shape);

/* A header of any writer: any order of keys and spacing, versions 1.0 to
 * 3.0. */
struct ck_npy {
	struct ck_str descr; /* borrowed from the input */
	bool fortran_order;
	uint32_t ndim;
	uint64_t shape[CK_MAX_DIMS];
	uint64_t data; /* offset of the data */
};

/* Returns 0, or -EINVAL if this is not an npy header, or one that numpy
 * refuses. */
CK_MUST_USE int ck_npy_parse(struct ck_str bytes, struct ck_npy *out,
			     struct ck_diag *d);

#endif
