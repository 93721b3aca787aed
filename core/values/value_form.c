/* SPDX-License-Identifier: MIT */
/*
 * value_form: a table by the name of a dtype, and a loop for each way of storing a value.
 * Integers are loaded as the bytes of a little-endian number. No state.
 */
#include "value_form.h"
#include "model/to_float32.h"

#include <endian.h>

enum { NARROW = 256 }; /* floats on their way to double */

enum source {
	SOURCE_FLOAT, /* ck_to_float32() converts it */
	SOURCE_FLOAT4,
	SOURCE_FLOAT64,
	SOURCE_I8,
	SOURCE_U8,
	SOURCE_I16,
	SOURCE_U16,
	SOURCE_I32,
	SOURCE_U32,
	SOURCE_I64,
	SOURCE_U64,
};

/* dtypes that ck_to_float32() does not convert. */
static const struct {
	const char *name;
	uint8_t source; /* enum source */
	const char *
		part; /* dtype of the two parts of a complex element, or NULL */
} forms[] = {
	{ "float64", SOURCE_FLOAT64, NULL },
	{ "complex128", SOURCE_FLOAT64, "float64" },
	{ "complex64", SOURCE_FLOAT, "float32" },
	{ "complex32", SOURCE_FLOAT, "float16" },
	{ "bcomplex32", SOURCE_FLOAT, "bfloat16" },
	{ "float4_e2m1fn_x2", SOURCE_FLOAT4, NULL },
	{ "int64", SOURCE_I64, NULL },
	{ "int32", SOURCE_I32, NULL },
	{ "int16", SOURCE_I16, NULL },
	{ "int8", SOURCE_I8, NULL },
	{ "uint8", SOURCE_U8, NULL },
	{ "bool", SOURCE_U8, NULL },
	{ "uint64", SOURCE_U64, NULL },
	{ "uint32", SOURCE_U32, NULL },
	{ "uint16", SOURCE_U16, NULL },
	{ "qint8", SOURCE_I8, NULL },
	{ "quint8", SOURCE_U8, NULL },
	{ "qint32", SOURCE_I32, NULL },
	{ "bits8", SOURCE_U8, NULL },
	{ "bits1x8", SOURCE_U8, NULL },
	{ "bits2x4", SOURCE_U8, NULL },
	{ "bits4x2", SOURCE_U8, NULL },
	{ "bits16", SOURCE_U16, NULL },
};

struct ck_value_form ck_value_form_of(uint8_t dtype)
{
	const struct ck_dtype *is = ck_dtype_at(dtype);
	struct ck_value_form f = { .dtype = dtype, .each = 1 };
	size_t i = 0;

	while (i < CK_ARRAY_SIZE(forms) && strcmp(forms[i].name, is->name) != 0)
		i++;
	if (i == CK_ARRAY_SIZE(forms)) {
		f.size = ck_dtype_fits_float32(dtype) ? is->size : 0;
		f.is_float = true;
		return f;
	}
	f.size = is->size;
	f.source = forms[i].source;
	f.is_complex = forms[i].part != NULL;
	if (forms[i].part)
		f.dtype = ck_dtype_by_name(ck_str_from(forms[i].part));
	f.each = forms[i].part || f.source == SOURCE_FLOAT4 ? 2 : 1;
	f.is_float = f.source == SOURCE_FLOAT || f.source == SOURCE_FLOAT64;
	f.is_long = f.source >= SOURCE_I64;
	f.is_signed = f.source == SOURCE_I64;
	f.is_wide = f.source == SOURCE_FLOAT64 || f.source >= SOURCE_I32;
	return f;
}

struct ck_value_form ck_value_form_part(const struct ck_value_form *f)
{
	struct ck_value_form part = *f;

	if (f->is_complex) {
		part.is_complex = false;
		part.each = 1;
		part.size = f->size / 2;
	}
	return part;
}

/* --- loops ---------------------------------------------------------------------------- */

static inline uint16_t load_16(const uint8_t *from, size_t i)
{
	uint16_t bits;

	memcpy(&bits, from + 2 * i, sizeof(bits));
	return le16toh(bits);
}

static inline uint32_t load_32(const uint8_t *from, size_t i)
{
	uint32_t bits;

	memcpy(&bits, from + 4 * i, sizeof(bits));
	return le32toh(bits);
}

static inline uint64_t load_64(const uint8_t *from, size_t i)
{
	uint64_t bits;

	memcpy(&bits, from + 8 * i, sizeof(bits));
	return le64toh(bits);
}

static inline double load_double(const uint8_t *from, size_t i)
{
	uint64_t bits = load_64(from, i);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Sign, two bits of exponent, one of mantissa. */
static void from_float4(const uint8_t *from, size_t n, float *to)
{
	static const float values[16] = { 0,  0.5f, 1,	   1.5f,  2,  3,
					  4,  6,    -0.0f, -0.5f, -1, -1.5f,
					  -2, -3,   -4,	   -6 };

	for (size_t i = 0; i < n; i++) {
		to[2 * i] = values[from[i] & 15];
		to[2 * i + 1] = values[from[i] >> 4];
	}
}

static void from_narrow(const struct ck_value_form *f, const uint8_t *from,
			size_t n, float *to)
{
	switch ((enum source)f->source) {
	case SOURCE_FLOAT:
		ck_to_float32(f->dtype, from, (uint8_t *)to, n * f->each);
		break;
	case SOURCE_FLOAT4: from_float4(from, n, to); break;
	case SOURCE_I8:
		for (size_t i = 0; i < n; i++)
			to[i] = (float)(int8_t)from[i];
		break;
	case SOURCE_U8:
		for (size_t i = 0; i < n; i++)
			to[i] = (float)from[i];
		break;
	case SOURCE_I16:
		for (size_t i = 0; i < n; i++)
			to[i] = (float)(int16_t)load_16(from, i);
		break;
	case SOURCE_U16:
		for (size_t i = 0; i < n; i++)
			to[i] = (float)load_16(from, i);
		break;
	case SOURCE_FLOAT64:
	case SOURCE_I32:
	case SOURCE_U32:
	case SOURCE_I64:
	case SOURCE_U64: break;
	}
}

static void from_wide(const struct ck_value_form *f, const uint8_t *from,
		      size_t n, double *to)
{
	switch ((enum source)f->source) {
	case SOURCE_FLOAT64:
		for (size_t i = 0; i < n * f->each; i++)
			to[i] = load_double(from, i);
		break;
	case SOURCE_I32:
		for (size_t i = 0; i < n; i++)
			to[i] = (double)(int32_t)load_32(from, i);
		break;
	case SOURCE_U32:
		for (size_t i = 0; i < n; i++)
			to[i] = (double)load_32(from, i);
		break;
	case SOURCE_I64:
		for (size_t i = 0; i < n; i++)
			to[i] = (double)(int64_t)load_64(from, i);
		break;
	case SOURCE_U64:
		for (size_t i = 0; i < n; i++)
			to[i] = (double)load_64(from, i);
		break;
	case SOURCE_FLOAT:
	case SOURCE_FLOAT4:
	case SOURCE_I8:
	case SOURCE_U8:
	case SOURCE_I16:
	case SOURCE_U16: break;
	}
}

static CK_VECTORIZED void widen(const float *restrict from, size_t n,
				double *restrict to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (double)from[i];
}

void ck_values_load(const struct ck_value_form *f, const uint8_t *from,
		    size_t n, double *to)
{
	float narrow[NARROW];
	size_t len;

	if (f->is_wide) {
		from_wide(f, from, n, to);
		return;
	}
	for (size_t at = 0; at < n; at += len) {
		len = (size_t)ck_min((unsigned)NARROW / f->each, n - at);
		from_narrow(f, from + at * f->size, len, narrow);
		widen(narrow, len * f->each, to + at * f->each);
	}
}
