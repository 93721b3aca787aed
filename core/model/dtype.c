/* SPDX-License-Identifier: MIT */
/*
 * dtype: the element types that torch can save, one row each.
 *
 * Names and storage classes are those of torch/storage.py and
 * torch/_utils.py. `npy` is numpy's own name where numpy has the type, else
 * a void of the same width: numpy loads it and ml_dtypes views it. Types
 * packed below a byte with a quantizer (quint4x2, quint2x4) have no whole
 * number of bytes for each element of their shape, so size 0 and no npy.
 *
 * is_float says that flipping the top bit of a unit negates it; that is not
 * so for float8_e8m0fnu (no sign) and float4_e2m1fn_x2 (two in a byte).
 */
#include "ckptfs/model.h"

static const struct ck_dtype table[] = {
	[CK_DTYPE_UNKNOWN] = { "unknown", NULL, NULL, 0, 0, false, false },
	{ "float64", "<f8", "DoubleStorage", 8, 8, true, false },
	{ "float32", "<f4", "FloatStorage", 4, 4, true, false },
	{ "float16", "<f2", "HalfStorage", 2, 2, true, false },
	{ "bfloat16", "|V2", "BFloat16Storage", 2, 2, true, false },
	{ "int64", "<i8", "LongStorage", 8, 8, false, false },
	{ "int32", "<i4", "IntStorage", 4, 4, false, false },
	{ "int16", "<i2", "ShortStorage", 2, 2, false, false },
	{ "int8", "|i1", "CharStorage", 1, 1, false, false },
	{ "uint8", "|u1", "ByteStorage", 1, 1, false, false },
	{ "bool", "|b1", "BoolStorage", 1, 1, false, false },
	{ "complex128", "<c16", "ComplexDoubleStorage", 16, 8, true, true },
	{ "complex64", "<c8", "ComplexFloatStorage", 8, 4, true, true },
	{ "complex32", "|V4", NULL, 4, 2, true, true },
	{ "bcomplex32", "|V4", NULL, 4, 2, true, true },
	{ "uint64", "<u8", NULL, 8, 8, false, false },
	{ "uint32", "<u4", NULL, 4, 4, false, false },
	{ "uint16", "<u2", NULL, 2, 2, false, false },
	{ "float8_e4m3fn", "|V1", NULL, 1, 1, true, false },
	{ "float8_e5m2", "|V1", NULL, 1, 1, true, false },
	{ "float8_e4m3fnuz", "|V1", NULL, 1, 1, true, false },
	{ "float8_e5m2fnuz", "|V1", NULL, 1, 1, true, false },
	{ "float8_e8m0fnu", "|V1", NULL, 1, 1, false, false },
	{ "float4_e2m1fn_x2", "|V1", NULL, 1, 1, false, false },
	{ "qint8", "|V1", "QInt8Storage", 1, 1, false, false },
	{ "quint8", "|V1", "QUInt8Storage", 1, 1, false, false },
	{ "qint32", "|V4", "QInt32Storage", 4, 4, false, false },
	{ "quint4x2", NULL, "QUInt4x2Storage", 0, 0, false, false },
	{ "quint2x4", NULL, "QUInt2x4Storage", 0, 0, false, false },
	{ "bits8", "|V1", NULL, 1, 1, false, false },
	{ "bits1x8", "|V1", NULL, 1, 1, false, false },
	{ "bits2x4", "|V1", NULL, 1, 1, false, false },
	{ "bits4x2", "|V1", NULL, 1, 1, false, false },
	{ "bits16", "|V2", NULL, 2, 2, false, false },
};

const struct ck_dtype *ck_dtype_at(uint8_t id)
{
	return &table[id < CK_ARRAY_SIZE(table) ? id : CK_DTYPE_UNKNOWN];
}

uint8_t ck_dtype_by_name(struct ck_str name)
{
	for (uint8_t i = 1; i < CK_ARRAY_SIZE(table); i++)
		if (ck_str_is(name, table[i].name))
			return i;
	return CK_DTYPE_UNKNOWN;
}

/* What follows the last dot: old files say torch.cuda.FloatStorage. */
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
