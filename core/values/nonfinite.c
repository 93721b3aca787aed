/* SPDX-License-Identifier: MIT */
/*
 * nonfinite: compares units of 1 to 8 bytes with a pattern, in the lanes of vectors. The loops are
 * compiled for any processor and for AVX2. A search is a pass in file order, in which the index
 * of the first tensor found so far only decreases; tensors behind it are skipped.
 */
#include "nonfinite.h"
#include "value_form.h"

#include <stdatomic.h>

enum {
	VECTOR = 32,  /* bytes */
	PIECE = 4096, /* bytes between two tests of the result */
};

typedef uint8_t units_8 __attribute__((vector_size(VECTOR)));
typedef uint16_t units_16 __attribute__((vector_size(VECTOR)));
typedef uint32_t units_32 __attribute__((vector_size(VECTOR)));
typedef uint64_t units_64 __attribute__((vector_size(VECTOR)));

#define LOOP static inline __attribute__((always_inline))

/* --- forms ------------------------------------------------------------------------------- */

/* Bits of a value, or of a part of a complex one. The largest exponent is that of NaN and
 * infinities, where there are infinities. */
static const struct {
	const char *name;
	uint8_t width;
	uint64_t mask, bits;
} forms[] = {
	{ "float64", 8, 0x7ff0000000000000, 0x7ff0000000000000 },
	{ "complex128", 8, 0x7ff0000000000000, 0x7ff0000000000000 },
	{ "float32", 4, 0x7f800000, 0x7f800000 },
	{ "complex64", 4, 0x7f800000, 0x7f800000 },
	{ "float16", 2, 0x7c00, 0x7c00 },
	{ "complex32", 2, 0x7c00, 0x7c00 },
	{ "bfloat16", 2, 0x7f80, 0x7f80 },
	{ "bcomplex32", 2, 0x7f80, 0x7f80 },
	{ "float8_e5m2", 1, 0x7c, 0x7c },
	{ "float8_e4m3fn", 1, 0x7f, 0x7f },
	{ "float8_e4m3fnuz", 1, 0xff, 0x80 },
	{ "float8_e5m2fnuz", 1, 0xff, 0x80 },
	{ "float8_e8m0fnu", 1, 0xff, 0xff },
};

struct ck_nonfinite_form ck_nonfinite_form_of(uint8_t dtype)
{
	const char *name = ck_dtype_at(dtype)->name;
	struct ck_nonfinite_form f = { 0 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(forms); i++) {
		if (strcmp(forms[i].name, name) != 0)
			continue;
		f.width = forms[i].width;
		for (unsigned k = 0; k < f.width; k++) {
			f.mask[k] = (uint8_t)(forms[i].mask >> 8 * k);
			f.bits[k] = (uint8_t)(forms[i].bits >> 8 * k);
		}
	}
	return f;
}

/* --- bytes ------------------------------------------------------------------------------- */

/* Defines a function: true if a unit of `len` bytes, a multiple of VECTOR, has the pattern. */
#define SEARCH(name, units, unit)                                              \
	LOOP bool name(const struct ck_nonfinite_form *f, const uint8_t *p,    \
		       size_t len)                                             \
	{                                                                      \
		unit mask, bits;                                               \
		units x, found = { 0 };                                        \
		units_64 sum;                                                  \
                                                                               \
		memcpy(&mask, f->mask, sizeof(mask));                          \
		memcpy(&bits, f->bits, sizeof(bits));                          \
		for (size_t i = 0; i < len; i += VECTOR) {                     \
			memcpy(&x, p + i, sizeof(x));                          \
			found |= (units)((x & mask) == bits);                  \
		}                                                              \
		sum = (units_64)found;                                         \
		return (sum[0] | sum[1] | sum[2] | sum[3]) != 0;               \
	}

SEARCH(search_8, units_8, uint8_t)
SEARCH(search_16, units_16, uint16_t)
SEARCH(search_32, units_32, uint32_t)
SEARCH(search_64, units_64, uint64_t)

LOOP bool search(const struct ck_nonfinite_form *f, const uint8_t *p,
		 size_t len)
{
	switch (f->width) {
	case 1: return search_8(f, p, len);
	case 2: return search_16(f, p, len);
	case 4: return search_32(f, p, len);
	default: return search_64(f, p, len);
	}
}

static bool search_plain(const struct ck_nonfinite_form *f, const uint8_t *p,
			 size_t len)
{
	return search(f, p, len);
}

#if defined(__x86_64__) && !defined(CK_WITHOUT_AVX2)
#define HAS_AVX2 1

static __attribute__((target("avx2"))) bool search_avx2(
	const struct ck_nonfinite_form *f, const uint8_t *p, size_t len)
{
	return search(f, p, len);
}
#endif

static bool search_run(const struct ck_nonfinite_form *f, const uint8_t *p,
		       size_t len)
{
#ifdef HAS_AVX2
	if (__builtin_cpu_supports("avx2"))
		return search_avx2(f, p, len);
#endif
	return search_plain(f, p, len);
}

bool ck_nonfinite_is_in(const struct ck_nonfinite_form *f, const uint8_t *bytes,
			size_t len)
{
	uint8_t tail[VECTOR] = { 0 }; /* zeros are finite */
	size_t whole = len / VECTOR * VECTOR, piece;

	if (f->width == 0)
		return false;
	for (size_t at = 0; at < whole; at += piece) {
		piece = (size_t)ck_min(PIECE, whole - at);
		if (search_run(f, bytes + at, piece))
			return true;
	}
	if (whole == len)
		return false;
	memcpy(tail, bytes + whole, len - whole);
	return search_run(f, tail, sizeof(tail));
}

/* --- tensors ------------------------------------------------------------------------------ */

/* The argument of the callbacks. A row is an index in `rows`, which have only tensors that may
 * have such values; index[row] is that in `all`, ascending. */
struct finding {
	const struct ck_catalog *c;
	struct ck_nonfinite *all;
	struct ck_pass_row *rows;
	size_t *index;
	size_t n;
	_Atomic size_t first; /* the first row found so far; n: none */
};

static struct ck_nonfinite_form form_of(const struct ck_catalog *c,
					uint32_t tensor)
{
	return ck_nonfinite_form_of(ck_catalog_tensor(c, tensor)->dtype);
}

/* Tensors of unknown dtypes are read, which fails. */
static bool is_searched(const struct ck_catalog *c, uint32_t tensor)
{
	return form_of(c, tensor).width ||
	       ck_catalog_tensor(c, tensor)->dtype == CK_DTYPE_UNKNOWN;
}

static int find_begin(void *arg, size_t row)
{
	const struct finding *g = arg;

	return row > atomic_load(&g->first);
}

static int find_take(void *arg, const struct ck_pass_block *b)
{
	struct finding *g = arg;
	const struct ck_nonfinite_form f = form_of(g->c,
						   g->rows[b->row].tensor[0]);
	size_t first = atomic_load(&g->first);

	if (b->row >= first)
		return 1;
	if (!ck_nonfinite_is_in(&f, b->bytes[0], b->len))
		return 0;
	while (b->row < first &&
	       !atomic_compare_exchange_weak(&g->first, &first, b->row))
		continue;
	return 1;
}

static void find_end(void *arg, size_t row, unsigned from, int rc)
{
	const struct finding *g = arg;

	(void)from;
	g->all[g->index[row]].err = -rc;
}

uint64_t ck_nonfinite_bytes(const struct ck_catalog *c,
			    const struct ck_nonfinite *all, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		if (is_searched(c, all[i].tensor))
			sum += ck_pass_tensor_bytes(c, all[i].tensor);
	return sum;
}

int ck_nonfinite_find(const struct ck_pass_source *from,
		      struct ck_nonfinite *all, size_t n,
		      const struct ck_nonfinite_options *o, size_t *first)
{
	ck_auto_free struct ck_pass_row *rows = calloc(n + 1, sizeof(*rows));
	ck_auto_free size_t *index = calloc(n + 1, sizeof(*index));
	struct finding g = {
		.c = from->c, .all = all, .rows = rows, .index = index
	};
	struct ck_pass pass = {
		.from = { *from },
		.nfrom = 1,
		.rows = rows,
		.threads = o->threads,
		.begin = find_begin,
		.take = find_take,
		.end = find_end,
		.arg = &g,
		.progress = o->progress,
		.progress_arg = o->arg,
	};
	int rc;

	if (!rows || !index)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		all[i].err = 0;
		if (!is_searched(from->c, all[i].tensor))
			continue;
		rows[g.n].tensor[0] = all[i].tensor;
		index[g.n++] = i;
	}
	pass.n = g.n;
	atomic_init(&g.first, g.n);
	rc = ck_pass_run(&pass);
	*first = g.first < g.n ? index[g.first] : n;
	return rc;
}
