/* SPDX-License-Identifier: MIT */
/*
 * item: any bytes as an item. Input: a byte for the expected dtype (its number, and bit 7 if the
 * item is transformed by zstd), one for the number of dimensions, one for each size, then the
 * item. The whole tensor of an accepted item must be inside the item.
 */
#include "format/item/item.h"

#include <errno.h>

enum { TRANSFORMED = 0x80, LIMIT = 1 << 20, DIMS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_memory(void *ctx, void *buf, size_t len, uint64_t ipos)
{
	const struct ck_str *item = ctx;

	if (ipos > item->len || len > item->len - ipos)
		abort(); /* asked for bytes past the item */
	memcpy(buf, item->p + ipos, len);
	return 0;
}

/* Every element of the tensor is inside. */
static void check_inside(const struct ck_item_want *want, uint64_t ipos,
			 const uint64_t *strides, uint64_t len)
{
	uint64_t end, reach;

	for (uint32_t i = 0; i < want->ndim; i++) {
		if (want->size[i] == 0)
			return;
	}
	if (!ck_add(&end, ipos, ck_dtype_at(want->dtype)->size))
		abort();
	for (uint32_t i = 0; i < want->ndim; i++) {
		if (!ck_mul(&reach, (uint64_t)want->size[i] - 1, strides[i]) ||
		    !ck_add(&end, end, reach))
			abort();
	}
	if (end > len)
		abort();
}

static void locate(const struct ck_item_want *want, struct ck_str item)
{
	const struct ck_zip_source src = { &item, read_memory, item.len };
	uint64_t ipos, strides[CK_MAX_DIMS];
	struct ck_diag d = { 0 };
	uint16_t change;
	int rc = ck_item_locate(&src, want, &ipos, strides, &change, &d);

	if (rc == 0)
		check_inside(want, ipos, strides, item.len);
	else if ((rc != -EBADMSG && rc != -EIO) || d.err != -rc || !*d.text)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_cur c = ck_cur_make(data, size);
	int64_t sizes[DIMS];
	struct ck_item_want want = { .size = sizes };
	struct ck_str item;
	uint8_t dtype, ndim, dim;
	void *undone = NULL;

	if (!ck_cur_u8(&c, &dtype) || !ck_cur_u8(&c, &ndim))
		return 0;
	want.dtype = (uint8_t)(dtype & ~TRANSFORMED);
	want.ndim = ndim % (DIMS + 1);
	for (uint32_t i = 0; i < want.ndim; i++) {
		if (!ck_cur_u8(&c, &dim))
			return 0;
		sizes[i] = dim;
	}
	if (!ck_cur_bytes(&c, ck_cur_left(&c), &item))
		return 0;
	if (dtype & TRANSFORMED &&
	    ck_transform_undo(CK_STR("stream.zstd/1"), item, LIMIT, &undone,
			      &item.len, NULL) < 0)
		return 0;
	if (undone)
		item.p = undone;
	locate(&want, item);
	free(undone);
	return 0;
}
