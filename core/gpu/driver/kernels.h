/* SPDX-License-Identifier: MIT */
/*
 * kernels: the machine code of kernels.cu, as the driver takes it.
 */
#ifndef CK_KERNELS_H
#define CK_KERNELS_H

#include <stddef.h>

/* What is in a file of this build. Constant. */
struct ck_kernels {
	const unsigned char
		*bytes; /* behind them is a 0, as the driver wants of PTX */
	size_t len;	/* 0: there is none */
};

/* For the architectures of this build; none where it was built without nvcc. */
extern const struct ck_kernels ck_kernels_fatbin;
/* For all since sm_80, which the driver compiles first. */
extern const struct ck_kernels ck_kernels_ptx;

#endif
