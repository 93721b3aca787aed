/* SPDX-License-Identifier: MIT */
/*
 * raw: the view raw/. raw/<stem> consists of the bytes of the whole tensor,
 * without a header. No state beside the catalog; any thread.
 */
#include "view_internal.h"

static uint64_t raw_size(const struct ck_catalog *c, uint32_t tensor)
{
	return ck_catalog_tensor(c, tensor)->nbytes;
}

static int raw_slice(const struct ck_catalog *c, uint32_t tensor,
		     struct ck_slice **out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	struct ck_view_part part = { .tensor = tensor,
				     .nbytes = t->nbytes,
				     .has_tensor = ck_view_has_bytes(t) };

	return ck_view_slice_make(&part, out);
}

const struct ck_tensor_view ck_view_raw = {
	.view = { .top = "raw", .suffix = "", CK_TENSOR_VIEW },
	.suffix = "",
	.accepts = CK_ACCEPTS_RAW,
	.is_shown = ck_tensor_is_whole,
	.size = raw_size,
	.slice = raw_slice,
};
