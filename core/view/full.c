/* SPDX-License-Identifier: MIT */
/*
 * full: the view full/. full/<stem>.npy consists of an npy header and the whole
 * tensor. No state beside the catalog; any thread.
 */
#include "syntax/npy.h"
#include "view_internal.h"

#include <errno.h>

static uint64_t full_size(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	if (!ck_view_has_bytes(t))
		return 0;
	return ck_npy_header_len(t->dtype, t->ndim, t->shape) + t->nbytes;
}

static int full_slice(const struct ck_catalog *c, uint32_t tensor,
		      struct ck_slice **out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	struct ck_view_part part = { .tensor = tensor,
				     .nbytes = t->nbytes,
				     .has_tensor = ck_view_has_bytes(t) };
	struct ck_buf header = { 0 };
	int rc;

	if (part.has_tensor)
		ck_npy_header(t->dtype, t->ndim, t->shape, &header);
	part.literal = (struct ck_str){ header.data, header.len };
	rc = header.err ? header.err : ck_view_slice_make(&part, out);
	ck_buf_fini(&header);
	return rc;
}

const struct ck_tensor_view ck_view_full = {
	.view = { .top = "full", .suffix = ".npy", CK_TENSOR_VIEW },
	.suffix = ".npy",
	.accepts = CK_ACCEPTS_NPY,
	.is_shown = ck_tensor_is_whole,
	.size = full_size,
	.slice = full_slice,
};
