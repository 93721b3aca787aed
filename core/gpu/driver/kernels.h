/* SPDX-License-Identifier: MIT */
/* kernels: the compiled kernels.cu, in the forms that the driver loads. */
#ifndef CK_KERNELS_H
#define CK_KERNELS_H

#include <stddef.h>

/* An embedded file. Constant. */
struct ck_kernels {
	const unsigned char
		*bytes; /* followed by a 0, which the driver needs for PTX */
	size_t len;	/* 0 if the file is empty */
};

/* Machine code for the architectures of this build; empty if built without
 * nvcc. */
extern const struct ck_kernels ck_kernels_fatbin;
/* PTX for sm_80 and later, which the driver compiles at load time. */
extern const struct ck_kernels ck_kernels_ptx;

#endif
