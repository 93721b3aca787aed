/* SPDX-License-Identifier: MIT */
/*
 * raw: raw/<stem> is the bytes of the whole tensor and nothing else.
 */
#include "view_internal.h"

static uint64_t raw_size(const struct ck_catalog *c, uint32_t tensor)
{
	return c->tensors[tensor].nbytes;
}

static int raw_slice(const struct ck_catalog *c, uint32_t tensor,
		     struct ck_slice **out)
{
	return ck_view_slice_make(c, tensor, (struct ck_str){ NULL, 0 }, out);
}

const struct ck_view ck_view_raw = {
	.dir = "raw",
	.suffix = "",
	.size = raw_size,
	.slice = raw_slice,
};
