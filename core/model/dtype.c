/* SPDX-License-Identifier: MIT */
/*
 * dtype: the table of element types that torch can save. Constant.
 *
 * Names and storage classes are those of torch/storage.py and torch/_utils.py; hub
 * names are those of the safetensors library. `npy` is the name in numpy, or, if numpy
 * lacks the type, a void of the same width: numpy loads it and ml_dtypes views it.
 * Types packed below a byte with a quantizer (quint4x2, quint2x4) have no whole number
 * of bytes for each element. So their size is 0, and they have no npy.
 *
 * is_float is true if inverting the top bit of a unit negates it. It is false for
 * float8_e8m0fnu (no sign) and float4_e2m1fn_x2 (two values in a byte).
 */
#include "ckptfs/model.h"

static const struct ck_dtype table[] = {
	[CK_DTYPE_UNKNOWN] = { "unknown", NULL, NULL, 0, 0, false, false,
			       NULL },
	{ "float64", "<f8", "DoubleStorage", 8, 8, true, false, "F64" },
	{ "float32", "<f4", "FloatStorage", 4, 4, true, false, "F32" },
	{ "float16", "<f2", "HalfStorage", 2, 2, true, false, "F16" },
	{ "bfloat16", "|V2", "BFloat16Storage", 2, 2, true, false, "BF16" },
	{ "int64", "<i8", "LongStorage", 8, 8, false, false, "I64" },
	{ "int32", "<i4", "IntStorage", 4, 4, false, false, "I32" },
	{ "int16", "<i2", "ShortStorage", 2, 2, false, false, "I16" },
	{ "int8", "|i1", "CharStorage", 1, 1, false, false, "I8" },
	{ "uint8", "|u1", "ByteStorage", 1, 1, false, false, "U8" },
	{ "bool", "|b1", "BoolStorage", 1, 1, false, false, "BOOL" },
	{ "complex128", "<c16", "ComplexDoubleStorage", 16, 8, true, true,
	  NULL },
	{ "complex64", "<c8", "ComplexFloatStorage", 8, 4, true, true, "C64" },
	{ "complex32", "|V4", NULL, 4, 2, true, true, NULL },
	{ "bcomplex32", "|V4", NULL, 4, 2, true, true, NULL },
	{ "uint64", "<u8", NULL, 8, 8, false, false, "U64" },
	{ "uint32", "<u4", NULL, 4, 4, false, false, "U32" },
	{ "uint16", "<u2", NULL, 2, 2, false, false, "U16" },
	{ "float8_e4m3fn", "|V1", NULL, 1, 1, true, false, "F8_E4M3" },
	{ "float8_e5m2", "|V1", NULL, 1, 1, true, false, "F8_E5M2" },
	{ "float8_e4m3fnuz", "|V1", NULL, 1, 1, true, false, "F8_E4M3FNUZ" },
	{ "float8_e5m2fnuz", "|V1", NULL, 1, 1, true, false, "F8_E5M2FNUZ" },
	{ "float8_e8m0fnu", "|V1", NULL, 1, 1, false, false, "F8_E8M0" },
	{ "float4_e2m1fn_x2", "|V1", NULL, 1, 1, false, false, "F4" },
	{ "qint8", "|V1", "QInt8Storage", 1, 1, false, false, NULL },
	{ "quint8", "|V1", "QUInt8Storage", 1, 1, false, false, NULL },
	{ "qint32", "|V4", "QInt32Storage", 4, 4, false, false, NULL },
	{ "quint4x2", NULL, "QUInt4x2Storage", 0, 0, false, false, NULL },
	{ "quint2x4", NULL, "QUInt2x4Storage", 0, 0, false, false, NULL },
	{ "bits8", "|V1", NULL, 1, 1, false, false, NULL },
	{ "bits1x8", "|V1", NULL, 1, 1, false, false, NULL },
	{ "bits2x4", "|V1", NULL, 1, 1, false, false, NULL },
	{ "bits4x2", "|V1", NULL, 1, 1, false, false, NULL },
	{ "bits16", "|V2", NULL, 2, 2, false, false, NULL },
};

const struct ck_dtype *ck_dtype_at(uint8_t id)
{
	return &table[id < CK_ARRAY_SIZE(table) ? id : CK_DTYPE_UNKNOWN];
}

bool ck_dtype_is_quantized(uint8_t id)
{
	return ck_dtype_at(id)->name[0] == 'q';
}

unsigned ck_dtype_values(uint8_t id)
{
	return strcmp(ck_dtype_at(id)->name, "float4_e2m1fn_x2") == 0 ? 2 : 1;
}

uint8_t ck_dtype_by_name(struct ck_str name)
{
	for (uint8_t i = 1; i < CK_ARRAY_SIZE(table); i++)
		if (ck_str_is(name, table[i].name))
			return i;
	return CK_DTYPE_UNKNOWN;
}

/* Returns the part behind the last dot: old files have torch.cuda.FloatStorage. */
static struct ck_str last_component(struct ck_str s)
{
	const char *dot = s.len ? memrchr(s.p, '.', s.len) : NULL;

	if (!dot)
		return s;
	return (struct ck_str){ dot + 1, s.len - (size_t)(dot + 1 - s.p) };
}

uint8_t ck_dtype_by_storage(struct ck_str storage_class)
{
	struct ck_str name = last_component(storage_class);

	for (uint8_t i = 1; i < CK_ARRAY_SIZE(table); i++)
		if (table[i].storage && ck_str_is(name, table[i].storage))
			return i;
	return CK_DTYPE_UNKNOWN;
}

uint8_t ck_dtype_by_hub(struct ck_str name)
{
	for (uint8_t i = 1; i < CK_ARRAY_SIZE(table); i++)
		if (table[i].hub && ck_str_is(name, table[i].hub))
			return i;
	return CK_DTYPE_UNKNOWN;
}
