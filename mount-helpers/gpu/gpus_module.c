/* SPDX-License-Identifier: MIT */
/*
 * gpus_module: the table that ckptfs-gpu.so exports. Constant.
 */
#include "gpus.h"

CK_EXPORT extern const struct ck_gpus_module ckptfs_gpu;
const struct ck_gpus_module ckptfs_gpu = {
	.is = { .version = CK_GPUS_VERSION, .program = CK_VERSION },
	.make = ck_gpus_make,
	.start = ck_gpus_start,
	.settle = ck_gpus_settle,
	.part = ck_gpus_part,
	.end = ck_gpus_end,
	.forker_start = ck_gpus_forker_start,
	.run = ck_gpus_run,
};
