/* SPDX-License-Identifier: MIT */
/*
 * f32: the view f32/. f32/<stem>.npy consists of an npy header and the whole tensor as
 * float32, for dtypes whose values float32 has. The I/O engine converts. No state beside
 * the catalog; any thread.
 */
#include "model/to_float32.h"
#include "syntax/npy.h"
#include "view_internal.h"

/* Sets *nbytes to the bytes of the elements. False if the tensor has no file, or its
 * bytes cannot be counted. */
static bool bytes_of(const struct ck_tensor *t, uint64_t *nbytes)
{
	enum { MARGIN = 1 << 16 }; /* for the header */

	uint64_t item = ck_dtype_at(t->dtype)->size;

	if (!ck_dtype_fits_float32(t->dtype) || !ck_view_has_bytes(t) ||
	    t->ndim > CK_MAX_DIMS)
		return false;
	*nbytes = t->nbytes / item * sizeof(float);
	return t->nbytes / item <= (INT64_MAX - MARGIN) / sizeof(float);
}

static bool is_shown(const struct ck_catalog *c, uint64_t tensor)
{
	uint64_t nbytes;

	return ck_tensor_is_whole(c, tensor) &&
	       bytes_of(ck_catalog_tensor(c, (uint32_t)tensor), &nbytes);
}

static int f32_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_file_content *out)
{
	int rc = ck_tensors_stat(c, dir, entry, out);

	if (rc == 0)
		out->as = ck_dtype_float32();
	return rc;
}

static bool f32_is_empty(const struct ck_catalog *c, const void *state)
{
	(void)state;
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (is_shown(c, i))
			return false;
	return true;
}

static uint64_t f32_count(const struct ck_catalog *c, const void *state)
{
	uint64_t n = 0;

	(void)state;
	for (uint32_t i = 0; i < c->tensors.n; i++)
		n += is_shown(c, i);
	return n;
}

static uint64_t f32_size(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	uint64_t nbytes;

	if (!bytes_of(t, &nbytes))
		return 0;
	return ck_npy_header_len(ck_dtype_float32(), t->ndim, t->shape) +
	       nbytes;
}

/* Elements of float32 need no conversion. */
static int f32_slice(const struct ck_catalog *c, uint32_t tensor,
		     struct ck_slice **out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	uint8_t as = ck_dtype_float32();
	struct ck_view_part part = { .tensor = tensor,
				     .from = t->dtype == as ? CK_DTYPE_UNKNOWN
							    : t->dtype };
	struct ck_buf header = { 0 };
	int rc;

	part.has_tensor = bytes_of(t, &part.nbytes);
	if (part.has_tensor)
		ck_npy_header(as, t->ndim, t->shape, &header);
	part.literal = (struct ck_str){ header.data, header.len };
	rc = header.err ? header.err : ck_view_slice_make(&part, out);
	ck_buf_fini(&header);
	return rc;
}

const struct ck_tensor_view ck_view_f32 = {
	.view = { .top = "f32",
		  .lookup = ck_tensors_lookup,
		  .next = ck_tensors_next,
		  .name = ck_tensors_name,
		  .stat = f32_stat,
		  .slice = ck_tensors_slice,
		  .is_empty = f32_is_empty,
		  .count = f32_count,
		  .is_form = true,
		  .is_on_request = true },
	.suffix = ".npy",
	.accepts = CK_ACCEPTS_NOTHING,
	.is_shown = is_shown,
	.size = f32_size,
	.slice = f32_slice,
};
