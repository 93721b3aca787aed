/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as an npy header: refused, or read within bounds, and then what
 * we would write for the same shape reads back the same. The bytes are also
 * taken as a dtype and a shape, whose header must read back.
 */
#include "ckptfs/model.h"
#include "must.h"
#include "syntax/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(uint8_t dtype, uint32_t ndim, const int64_t *shape)
{
	struct ck_buf b = { 0 };
	struct ck_npy n;

	ck_npy_header(dtype, ndim, shape, &b);
	must(b.err == 0 && b.len % 64 == 0);
	must(b.len == ck_npy_header_len(dtype, ndim, shape));
	must(ck_npy_parse((struct ck_str){ b.data, b.len }, &n, NULL) == 0);
	must(n.data == b.len && n.ndim == ndim && !n.fortran_order);
	must(ck_str_is(n.descr, ck_dtype_at(dtype)->npy));
	for (uint32_t d = 0; d < ndim; d++)
		must(n.shape[d] == (uint64_t)shape[d]);
	ck_buf_fini(&b);
}

static void as_header(const uint8_t *data, size_t size)
{
	struct ck_str bytes = { (const char *)data, size };
	int64_t shape[CK_MAX_DIMS];
	struct ck_diag d = { 0 };
	struct ck_npy n;

	if (ck_npy_parse(bytes, &n, &d)) {
		must(d.err != 0 && d.text[0]);
		return;
	}
	must(n.data <= size && n.ndim <= CK_MAX_DIMS);
	must(n.descr.p >= bytes.p && n.descr.p + n.descr.len <= bytes.p + size);
	for (uint32_t i = 0; i < n.ndim; i++) {
		must(n.shape[i] <= INT64_MAX);
		shape[i] = (int64_t)n.shape[i];
	}
	round_trip(1, n.ndim, shape);
}

static void as_shape(const uint8_t *data, size_t size)
{
	struct ck_cur c = ck_cur_make(data, size);
	int64_t shape[CK_MAX_DIMS];
	uint32_t ndim = 0;
	uint8_t dtype;
	uint64_t dim;

	if (!ck_cur_u8(&c, &dtype) || !ck_dtype_at(dtype)->npy)
		return;
	while (ndim < CK_MAX_DIMS && ck_cur_u64(&c, &dim))
		shape[ndim++] = (int64_t)(dim & INT64_MAX);
	round_trip(dtype, ndim, shape);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	as_header(data, size);
	as_shape(data, size);
	return 0;
}
