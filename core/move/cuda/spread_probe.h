/* SPDX-License-Identifier: MIT */
/*
 * spread_probe: how fast bytes come to memory of the first device, as works that are asked for as
 * any others.
 */
#ifndef CK_SPREAD_PROBE_H
#define CK_SPREAD_PROBE_H

#include "ckptfs/gpu.h"

struct ck_spread_probe {
	double rate, sec; /* bytes a second, and for a few bytes */
};

/* Nothing else is on its way. -ENOSPC: there is no room for that; -EIO. */
CK_MUST_USE int ck_spread_probe(struct ck_gpu *g,
				const struct ck_gpu_options *options,
				const struct ck_gpu_memory *to,
				struct ck_spread_probe *out);
/* Bytes of the memory that it needs. */
CK_MUST_USE size_t ck_spread_probe_size(const struct ck_gpu_options *options);

#endif
