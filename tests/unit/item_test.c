/* SPDX-License-Identifier: MIT */
/*
 * Items: where the tensor of a torch.save archive lies, whatever its dtype,
 * strides and wrapping; what is not the tensor wanted (EIO). S-Z6 and S-N1 of
 * the security statements.
 */
#include "item_case.h"
#include "tap.h"

static void sets(struct iw_tensor *t, uint32_t ndim, const int64_t *size,
		 const int64_t *stride)
{
	t->ndim = ndim;
	for (uint32_t i = 0; i < ndim; i++) {
		t->size[i] = size[i];
		t->stride[i] = stride[i];
	}
}

#define DIMS(...) ((const int64_t[]){ __VA_ARGS__ })

/* --- tensors ------------------------------------------------------------------- */

static void test_worked_example(void)
{
	struct iw_tensor t = iw_tensor_default();
	struct iw *w = item(&t);
	struct got got;

	eq_err(locate(w, &t, &got, NULL), 0);
	eq_u64(got.ipos, 704);
	eq_u64(got.strides[0], 12);
	eq_u64(got.strides[1], 4);
	eq_u64(got.change, 0);
	eq_u64(w->reads, 1);
	iw_free(w);
}

static void test_every_dtype(void)
{
	for (uint8_t id = 1; ck_dtype_at(id)->size; id++) {
		const struct ck_dtype *dtype = ck_dtype_at(id);
		struct iw_tensor t = iw_tensor_default();
		struct got got;

		t.dtype = dtype->name;
		t.rebuild = "_rebuild_tensor_v3";
		t.storage = "UntypedStorage";
		t.numel = 6 * dtype->size;
		eq_err(try_tensor(&t, &got), 0);
		eq_u64(got.strides[0], 3u * dtype->size);
		if (!dtype->storage)
			continue;
		t.storage = dtype->storage;
		t.numel = 6;
		eq_err(try_tensor(&t, &got), 0);
		t.dtype = NULL;
		t.quantizer = dtype->name[0] == 'q';
		t.rebuild = t.quantizer ? "_rebuild_qtensor"
					: "_rebuild_tensor_v2";
		eq_err(try_tensor(&t, &got), 0);
		eq_u64(got.strides[1], dtype->size);
	}
}

static void test_dtype_below_a_byte_is_refused(void)
{
	static const char *const storages[] = { "QUInt4x2Storage",
						"QUInt2x4Storage" };

	for (size_t i = 0; i < CK_ARRAY_SIZE(storages); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct got got;

		t.storage = storages[i];
		t.rebuild = "_rebuild_qtensor";
		t.quantizer = true;
		eq_err(try_tensor(&t, &got), -EBADMSG);
	}
}

/* Any strides and offset that stay inside the storage; one element less in
 * it and the tensor does not fit. */
static void test_layouts(void)
{
	static const struct {
		const char *what;
		int64_t numel, offset;
		uint32_t ndim;
		int64_t size[5], stride[5];
	} rows[] = {
		{ "C order", 6, 0, 2, { 2, 3 }, { 3, 1 } },
		{ "transposed", 6, 0, 2, { 3, 2 }, { 1, 3 } },
		{ "scalar", 1, 0, 0, { 0 }, { 0 } },
		{ "scalar in a buffer", 10, 9, 0, { 0 }, { 0 } },
		{ "expanded", 1, 0, 2, { 300, 400 }, { 0, 0 } },
		{ "expanded once", 3, 0, 2, { 300, 3 }, { 0, 1 } },
		{ "view with offset", 20, 8, 2, { 3, 4 }, { 4, 1 } },
		{ "every other row", 9, 0, 2, { 3, 1 }, { 4, 1 } },
		{ "channels_last",
		  120,
		  0,
		  4,
		  { 2, 3, 4, 5 },
		  { 60, 1, 15, 3 } },
		{ "overlapping window", 5, 0, 2, { 3, 3 }, { 1, 1 } },
		{ "size 1, stride huge", 4, 3, 1, { 1 }, { INT64_MAX } },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct got got;

		t.numel = rows[i].numel;
		t.offset = rows[i].offset;
		sets(&t, rows[i].ndim, rows[i].size, rows[i].stride);
		printf("# %s\n", rows[i].what);
		eq_err(try_tensor(&t, &got), 0);
		eq_u64(got.ipos, (uint64_t)t.offset * 4);
		for (uint32_t k = 0; k < t.ndim; k++)
			if (t.size[k] > 1)
				eq_u64(got.strides[k],
				       (uint64_t)t.stride[k] * 4);
		t.numel--;
		eq_err(try_tensor(&t, &got), -EIO);
		t.numel++;
		t.offset++;
		eq_err(try_tensor(&t, &got), -EIO);
	}
}

static void test_no_elements(void)
{
	static const int64_t sizes[][2] = {
		{ 0, 2 }, { 3, 0 }, { 0, 0 }, { 0, INT64_MAX }
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct got got;

		t.numel = 0;
		sets(&t, 2, sizes[i], DIMS(INT64_MAX, 7));
		t.offset = 100;
		eq_err(try_tensor(&t, &got), 0);
		eq_u64(got.ipos, 0);
		t.numel = 2; /* FSDP2 pads */
		eq_err(try_tensor(&t, &got), 0);
	}
}

static void test_numbers_that_overflow(void)
{
	static const struct {
		int64_t offset, size[2], stride[2];
	} rows[] = {
		{ 0, { 1ll << 32, 1ll << 32 }, { 1ll << 32, 1 } },
		{ 0, { INT64_MAX, 2 }, { 2, 1 } },
		{ 0, { 2, 2 }, { INT64_MAX, INT64_MAX } },
		{ 0, { 3, 3 }, { INT64_MAX, INT64_MAX } },
		{ INT64_MAX, { 2, 2 }, { INT64_MAX, 1 } },
		{ INT64_MAX, { 2, 2 }, { INT64_MAX - 1, 2 } },
		{ 1ll << 62, { 1, 1 }, { 1, 1 } },
		{ 0, { 2, 1 }, { 1ll << 62, 1 } },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct got got;

		t.offset = rows[i].offset;
		sets(&t, 2, rows[i].size, rows[i].stride);
		eq_err(try_tensor(&t, &got), -EIO);
	}
}

static void test_many_dimensions(void)
{
	struct iw_tensor t = iw_tensor_default();
	struct got got;

	for (int i = 0; i < CK_MAX_DIMS + 1; i++)
		t.size[i] = t.stride[i] = 1;
	t.ndim = CK_MAX_DIMS;
	eq_err(try_tensor(&t, &got), 0);
	t.ndim = CK_MAX_DIMS + 1;
	eq_err(try_tensor(&t, &got), -EBADMSG);
}

/* --- not the tensor wanted --------------------------------------------------------- */

static void test_other_tensor_than_wanted(void)
{
	static const struct {
		const char *storage;
		uint32_t ndim;
		int64_t size[3];
		const char *text;
	} rows[] = {
		{ "FloatStorage",
		  2,
		  { 2, 4 },
		  "its item has another shape; expected [2,4], found [2,3]" },
		{ "FloatStorage",
		  2,
		  { 3, 2 },
		  "its item has another shape; expected [3,2], found [2,3]" },
		{ "FloatStorage",
		  1,
		  { 6 },
		  "its item has another shape; expected [6], found [2,3]" },
		{ "FloatStorage",
		  0,
		  { 0 },
		  "its item has another shape; expected [], found [2,3]" },
		{ "FloatStorage",
		  3,
		  { 2, 3, 1 },
		  "its item has another shape; expected [2,3,1], found [2,3]" },
		{ "IntStorage",
		  2,
		  { 2, 3 },
		  "its item has another dtype; expected int32, found float32" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct iw *w = item(&t);
		struct ck_diag d = { 0 };
		struct got got;

		t.storage = rows[i].storage;
		sets(&t, rows[i].ndim, rows[i].size, rows[i].size);
		eq_err(locate(w, &t, &got, &d), -EIO);
		eq_text(d.text, rows[i].text);
		iw_free(w);
	}
}

/* --- byte order, bits ------------------------------------------------------------- */

static void test_byteorder(void)
{
	static const struct {
		const char *order, *storage;
		int rc;
		uint16_t change;
	} rows[] = {
		{ "big", "FloatStorage", 0, CK_CHANGE_SWAP },
		{ "big", "ComplexFloatStorage", 0, CK_CHANGE_SWAP },
		{ "big", "ByteStorage", 0, 0 },
		{ "little", "FloatStorage", 0, 0 },
		{ "", "FloatStorage", -EBADMSG, 0 },
		{ "Big", "FloatStorage", -EBADMSG, 0 },
		{ "big\n", "FloatStorage", -EBADMSG, 0 },
		{ "little\n", "FloatStorage", -EBADMSG, 0 },
		{ "littl", "FloatStorage", -EBADMSG, 0 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct iw *w = iw_make();
		struct got got;
		struct pk p;

		t.storage = rows[i].storage;
		pk_begin(&p);
		pk_tensor(&p, &t, true);
		iw_item(w, pk_end(&p), rows[i].order,
			(struct ck_str){ zeros, storage_len(&t) });
		ck_buf_fini(&p.b);
		eq_err(try_item(w, &t, &got), rows[i].rc);
		eq_u64(got.change, rows[i].change);
	}
}

static void test_no_byteorder_is_little(void)
{
	struct iw_tensor t = iw_tensor_default();
	struct iw *w = iw_make();
	struct got got;
	struct pk p;

	pk_begin(&p);
	pk_tensor(&p, &t, true);
	iw_record(w, "data.pkl", pk_end(&p));
	iw_record(w, "data/0", (struct ck_str){ zeros, 24 });
	iw_record(w, "version", CK_STR("3\n"));
	iw_finish(w);
	eq_err(locate(w, &t, &got, NULL), 0);
	eq_u64(got.ipos, w->at[1].data);
	eq_u64(got.change, 0);
	ck_buf_fini(&p.b);
	iw_free(w);
}

static void test_conj_and_neg(void)
{
	for (int bits = 0; bits < 4; bits++) {
		struct iw_tensor t = iw_tensor_default();
		int conj = bits & 1 ? CK_CHANGE_CONJ : 0;
		int neg = bits & 2 ? CK_CHANGE_NEG : 0;
		struct got got;

		t.conj = conj;
		t.neg = neg;
		eq_err(try_tensor(&t, &got), conj ? -EBADMSG : 0);
		t.storage = "ComplexFloatStorage";
		eq_err(try_tensor(&t, &got), 0);
		eq_i64(got.change, conj | neg);
		t.rebuild = "_rebuild_tensor_v3";
		t.dtype = "complex64";
		eq_err(try_tensor(&t, &got), 0);
		eq_i64(got.change, conj | neg);
	}
}

/* --- wrapping ----------------------------------------------------------------------- */

/* rebuild(tensor, requires_grad, hooks[, state]) */
static void wrap(struct pk *p, const char *func, int depth,
		 const struct iw_tensor *t)
{
	bool state = strcmp(func, "_rebuild_parameter_with_state") == 0;

	for (int i = 0; i < depth; i++) {
		pk_global(p, "torch._utils", func);
		pk_mark(p);
	}
	pk_tensor(p, t, true);
	for (int i = 0; i < depth; i++) {
		pk_bool(p, true);
		pk_empty_ordered_dict(p);
		if (state)
			pk_op(p, '}');
		pk_tuple(p);
		pk_reduce(p);
	}
}

static void test_parameters(void)
{
	static const struct {
		const char *func;
		int depth, rc;
	} rows[] = {
		{ "_rebuild_parameter", 1, 0 },
		{ "_rebuild_parameter_with_state", 1, 0 },
		{ "_rebuild_parameter", 3, 0 },
		{ "_rebuild_parameter", 20, -EBADMSG },
		{ "_rebuild_paramete", 1, -EBADMSG },
		{ "_rebuild_tensor_v2", 1, -EBADMSG },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct got got;
		struct pk p;

		pk_begin(&p);
		wrap(&p, rows[i].func, rows[i].depth, &t);
		eq_err(try_item(item_with(&p, &t), &t, &got), rows[i].rc);
	}
}

/* A plain tensor with attributes. */
static void test_tensor_with_attributes(void)
{
	static const struct {
		const char *module, *func;
		int rc;
	} rows[] = {
		{ "torch._tensor", "_rebuild_from_type_v2", 0 },
		{ "torch.tensor", "_rebuild_from_type_v2", 0 },
		{ "torch._tensor", "_rebuild_from_type_v3", -EBADMSG },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct got got;
		struct pk p;

		pk_begin(&p);
		pk_global(&p, rows[i].module, rows[i].func);
		pk_mark(&p);
		pk_tensor(&p, &t, false);
		pk_op(&p, '}');
		pk_tuple(&p);
		pk_reduce(&p);
		eq_err(try_item(item_with(&p, &t), &t, &got), rows[i].rc);
	}
}

int main(void)
{
	test_worked_example();
	test_every_dtype();
	test_dtype_below_a_byte_is_refused();
	test_layouts();
	test_no_elements();
	test_numbers_that_overflow();
	test_many_dimensions();
	test_other_tensor_than_wanted();
	test_byteorder();
	test_no_byteorder_is_little();
	test_conj_and_neg();
	test_parameters();
	test_tensor_with_attributes();
	return tap_done();
}
