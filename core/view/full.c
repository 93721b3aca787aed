/* SPDX-License-Identifier: MIT */
/*
 * full: full/<stem>.npy is an npy header and the whole tensor.
 */
#include "view_internal.h"

#include <errno.h>

static uint64_t full_size(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = &c->tensors[tensor];

	if (!ck_view_has_bytes(t))
		return 0;
	return ck_npy_header_len(t->dtype, t->ndim, ck_catalog_shape(c, t)) +
	       t->nbytes;
}

static int full_slice(const struct ck_catalog *c, uint32_t tensor,
		      struct ck_slice **out)
{
	const struct ck_tensor *t = &c->tensors[tensor];
	struct ck_buf header = { 0 };
	int rc;

	if (ck_view_has_bytes(t))
		ck_npy_header(t->dtype, t->ndim, ck_catalog_shape(c, t),
			      &header);
	rc = header.err;
	if (rc == 0)
		rc = ck_view_slice_make(
			c, tensor, (struct ck_str){ header.data, header.len },
			out);
	ck_buf_fini(&header);
	return rc;
}

const struct ck_view ck_view_full = {
	.dir = "full",
	.suffix = ".npy",
	.size = full_size,
	.slice = full_slice,
};
