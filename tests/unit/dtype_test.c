/* SPDX-License-Identifier: MIT */
/* The table of dtypes against the widths that numpy's descr says. */
#include "ckptfs/model.h"
#include "tap.h"

static void test_rows_agree(void)
{
	unsigned rows = 0;

	for (uint8_t i = 1; ck_dtype_at(i) != ck_dtype_at(0); i++) {
		const struct ck_dtype *t = ck_dtype_at(i);

		rows++;
		eq_u64(ck_dtype_by_name(ck_str_from(t->name)), i);
		ok(!t->storage ||
		   ck_dtype_by_storage(ck_str_from(t->storage)) == i);
		ok((t->npy == NULL) == (t->size == 0));
		if (t->npy)
			eq_u64(strtoul(t->npy + 2, NULL, 10), t->size);
		eq_u64(t->unit, t->is_complex ? t->size / 2 : t->size);
		ok(!t->npy || (t->npy[0] == '|') == (t->size == 1) ||
		   t->npy[1] == 'V');
	}
	eq_u64(rows, 33);
}

static void test_known_rows(void)
{
	static const struct {
		const char *name, *npy, *storage;
	} rows[] = {
		{ "float32", "<f4", "FloatStorage" },
		{ "bfloat16", "|V2", "BFloat16Storage" },
		{ "bool", "|b1", "BoolStorage" },
		{ "complex128", "<c16", "ComplexDoubleStorage" },
		{ "complex32", "|V4", NULL },
		{ "bcomplex32", "|V4", NULL },
		{ "qint32", "|V4", "QInt32Storage" },
		{ "float4_e2m1fn_x2", "|V1", NULL },
		{ "bits16", "|V2", NULL },
		{ "uint16", "<u2", NULL },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		uint8_t id = ck_dtype_by_name(ck_str_from(rows[i].name));

		eq_text(ck_dtype_at(id)->npy, rows[i].npy);
		if (rows[i].storage)
			eq_u64(ck_dtype_by_storage(
				       ck_str_from(rows[i].storage)),
			       id);
	}
}

static void test_no_row(void)
{
	eq_u64(ck_dtype_by_name(CK_STR("")), 0);
	eq_u64(ck_dtype_by_name(CK_STR("unknown")), 0);
	eq_u64(ck_dtype_by_name(CK_STR("float3")), 0);
	eq_u64(ck_dtype_by_name(CK_STR("float322")), 0);
	eq_u64(ck_dtype_by_storage(CK_STR("torch.storage.UntypedStorage")), 0);
	eq_u64(ck_dtype_by_storage(CK_STR("")), 0);
	eq_u64(ck_dtype_by_storage(CK_STR("FloatStorage.")), 0);
	eq_text(ck_dtype_at(255)->name, "unknown");
	eq_u64(ck_dtype_at(0)->size, 0);
}

static void test_storage_module_is_ignored(void)
{
	uint8_t f32 = ck_dtype_by_name(CK_STR("float32"));

	eq_u64(ck_dtype_by_storage(CK_STR("torch.cuda.FloatStorage")), f32);
	eq_u64(ck_dtype_by_storage(CK_STR("FloatStorage")), f32);
}

static void test_packed_have_no_size(void)
{
	uint8_t id = ck_dtype_by_name(CK_STR("quint4x2"));

	ok(id != 0);
	eq_u64(ck_dtype_at(id)->size, 0);
	ok(ck_dtype_at(id)->npy == NULL);
	eq_u64(ck_dtype_by_storage(CK_STR("torch.QUInt4x2Storage")), id);
}

static void test_hub_names(void)
{
	unsigned named = 0;

	for (uint8_t i = 0; i < 64; i++) {
		const struct ck_dtype *dtype = ck_dtype_at(i);

		if (!dtype->hub)
			continue;
		eq_u64(ck_dtype_by_hub(ck_str_from(dtype->hub)), i);
		named++;
	}
	eq_u64(named, 20);
	eq_u64(ck_dtype_by_hub(CK_STR("BF16")),
	       ck_dtype_by_name(CK_STR("bfloat16")));
	eq_u64(ck_dtype_by_hub(CK_STR("")), 0);
	eq_u64(ck_dtype_by_hub(CK_STR("bf16")), 0);
}

int main(void)
{
	test_hub_names();
	test_rows_agree();
	test_known_rows();
	test_no_row();
	test_storage_module_is_ignored();
	test_packed_have_no_size();
	return tap_done();
}
