/* SPDX-License-Identifier: MIT */
/*
 * to_float32: converts the bits of values. The loops of 16-bit types have no branches, so
 * that the compiler makes vector code of them. Types of 8 bits use a table of 256 values,
 * which is made at the first call and kept: the only state. Any thread.
 */
#include "to_float32.h"

#include <endian.h>
#include <math.h>

/* Tables of the 8-bit types. */
struct small {
	const char *name;
	unsigned mantissa; /* bits */
	float unit;	   /* the smallest value above 0 */
	bool has_inf;	   /* the largest exponent has no numbers */
	bool nan_is_zero;  /* the only NaN is -0, which does not exist */
};

static const struct small smalls[] = {
	{ "float8_e4m3fn", 3, 0x1p-9f, false, false },
	{ "float8_e5m2", 2, 0x1p-16f, true, false },
	{ "float8_e4m3fnuz", 3, 0x1p-10f, false, true },
	{ "float8_e5m2fnuz", 2, 0x1p-17f, false, true },
};

static bool is_called(uint8_t dtype, const char *name)
{
	return strcmp(ck_dtype_at(dtype)->name, name) == 0;
}

static const struct small *small_of(uint8_t dtype)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(smalls); i++)
		if (is_called(dtype, smalls[i].name))
			return &smalls[i];
	return NULL;
}

uint8_t ck_dtype_float32(void)
{
	return ck_dtype_by_name(CK_STR("float32"));
}

bool ck_dtype_fits_float32(uint8_t dtype)
{
	return is_called(dtype, "float32") || is_called(dtype, "float16") ||
	       is_called(dtype, "bfloat16") || small_of(dtype) ||
	       is_called(dtype, "float8_e8m0fnu");
}

/* --- 8 bits --------------------------------------------------------------------------- */

static float small_value(const struct small *s, unsigned bits)
{
	unsigned exponent = (bits & 0x7f) >> s->mantissa;
	unsigned fraction = bits & ((1U << s->mantissa) - 1);
	uint64_t units = fraction;
	float value;

	if (s->nan_is_zero && bits == 0x80)
		return NAN;
	if (s->has_inf && exponent == 31)
		return fraction ? NAN : bits & 0x80 ? -INFINITY : INFINITY;
	if (!s->has_inf && !s->nan_is_zero && (bits & 0x7f) == 0x7f)
		return NAN;
	if (exponent)
		units = (uint64_t)(fraction + (1U << s->mantissa))
			<< (exponent - 1);
	value = (float)units * s->unit;
	return bits & 0x80 ? -value : value;
}

/* A power of two, from 2^-127 on. */
static float scale_value(unsigned bits)
{
	return bits == 0xff ? NAN : ldexpf(1, (int)bits - 127);
}

static void table_make(uint8_t dtype, uint32_t table[static 256])
{
	const struct small *s = small_of(dtype);

	for (unsigned i = 0; i < 256; i++) {
		float value = s ? small_value(s, i) : scale_value(i);

		memcpy(&table[i], &value, sizeof(value));
		table[i] = htole32(table[i]);
	}
}

/* A table for each of `smalls`, and one for scales. It is constant once it is made. */
enum { MISSING, IN_WORK, MADE };

static struct {
	unsigned state; /* atomic */
	uint32_t values[256];
} tables[CK_ARRAY_SIZE(smalls) + 1];

/* The table of a dtype. room: for the table while another thread makes the kept one. */
static const uint32_t *table_of(uint8_t dtype, uint32_t room[static 256])
{
	const struct small *s = small_of(dtype);
	size_t i = s ? (size_t)(s - smalls) : CK_ARRAY_SIZE(smalls);
	unsigned missing = MISSING;

	if (__atomic_load_n(&tables[i].state, __ATOMIC_ACQUIRE) == MADE)
		return tables[i].values;
	if (!__atomic_compare_exchange_n(&tables[i].state, &missing, IN_WORK,
					 false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED)) {
		table_make(dtype, room);
		return room;
	}
	table_make(dtype, tables[i].values);
	__atomic_store_n(&tables[i].state, MADE, __ATOMIC_RELEASE);
	return tables[i].values;
}

static void from_8(uint8_t dtype, const uint8_t *from, uint8_t *to, size_t n)
{
	uint32_t room[256];
	const uint32_t *table = table_of(dtype, room);

	for (size_t i = 0; i < n; i++)
		memcpy(to + 4 * i, &table[from[i]], 4);
}

/* --- 16 bits --------------------------------------------------------------------------- */

static inline uint32_t load_16(const uint8_t *from, size_t i)
{
	uint16_t bits;

	memcpy(&bits, from + 2 * i, sizeof(bits));
	return le16toh(bits);
}

static inline void store_32(uint8_t *to, size_t i, uint32_t bits)
{
	bits = htole32(bits);
	memcpy(to + 4 * i, &bits, sizeof(bits));
}

/* The exponent of float32 is larger by 112. Values without a leading bit are 2^-14 plus
 * themselves, minus 2^-14: that is exact, and needs no denormal float32. No branches. */
static inline uint32_t float16_bits(uint32_t half)
{
	const uint32_t least = 113U << 23; /* 2^-14 */
	uint32_t rest = (half & 0x7fff) << 13;
	uint32_t sign = (half & 0x8000) << 16;
	uint32_t number = rest + (112U << 23), tiny = rest + least;
	uint32_t is_tiny;
	float value, low;

	memcpy(&value, &tiny, sizeof(value));
	memcpy(&low, &least, sizeof(low));
	value -= low;
	memcpy(&tiny, &value, sizeof(tiny));
	is_tiny = UINT32_MAX * (rest < (1U << 23));
	number = (tiny & is_tiny) | (number & ~is_tiny);
	return sign | number | 0x7f800000U * (rest >= (31U << 23));
}

static inline uint32_t bfloat16_bits(uint32_t half)
{
	return half << 16;
}

/* Calls `bits` for each value. */
static inline __attribute__((always_inline)) void from_16(
	const uint8_t *restrict from, uint8_t *restrict to, size_t n,
	uint32_t (*bits)(uint32_t half))
{
	for (size_t i = 0; i < n; i++)
		store_32(to, i, bits(load_16(from, i)));
}

static CK_VECTORIZED void from_bfloat16(const uint8_t *from, uint8_t *to,
					size_t n)
{
	from_16(from, to, n, bfloat16_bits);
}

static CK_VECTORIZED void from_float16(const uint8_t *from, uint8_t *to,
				       size_t n)
{
	from_16(from, to, n, float16_bits);
}

void ck_to_float32(uint8_t dtype, const uint8_t *from, uint8_t *to, size_t n)
{
	if (is_called(dtype, "bfloat16"))
		from_bfloat16(from, to, n);
	else if (is_called(dtype, "float16"))
		from_float16(from, to, n);
	else if (ck_dtype_at(dtype)->size == 1)
		from_8(dtype, from, to, n);
	else
		memcpy(to, from, 4 * n);
}
