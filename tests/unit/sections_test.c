/* SPDX-License-Identifier: MIT */
/*
 * sections: random tables of random parts, read by ranges, are the bytes of their parts
 * behind each other; 8 bytes are kept for each row; limits; who has it last frees it.
 */
#include "model/sections.h"
#include "truth.h"

#include <malloc.h>

enum { MOST = 600, BYTES = MOST * 4096 };

/* Each part is one of those of the world's own slice. */
struct drawn {
	struct ck_sections_maker maker;
	struct world *w;
	uint32_t first[CK_SECTIONS_MAX]; /* part of each section */
	uint32_t which[MOST];
	struct ck_section sections[CK_SECTIONS_MAX];
	uint32_t n, nparts;
	unsigned freed;
};

static uint32_t number_of(const struct drawn *d, struct ck_section_at at)
{
	return d->first[at.section] + at.row * d->sections[at.section].columns +
	       at.column;
}

static const struct world_part *given(const struct ck_sections_maker *m,
				      struct ck_section_at at)
{
	const struct drawn *d = (const struct drawn *)m;

	return &d->w->given[d->which[number_of(d, at)]];
}

static uint64_t drawn_len(const struct ck_sections_maker *m,
			  struct ck_section_at at)
{
	return given(m, at)->len;
}

static struct ck_part drawn_part(const struct ck_sections_maker *m,
				 struct ck_section_at at)
{
	const struct drawn *d = (const struct drawn *)m;

	return d->w->parts[d->which[number_of(d, at)]];
}

static int drawn_make(const struct ck_sections_maker *m,
		      struct ck_section_at at, struct ck_buf *out)
{
	ck_buf_add(out, given(m, at)->literal, given(m, at)->len);
	return 0;
}

static void drawn_free(struct ck_sections_maker *m)
{
	((struct drawn *)m)->freed++;
}

static void draw(struct drawn *d, struct world *w, uint64_t *random)
{
	*d = (struct drawn){ .maker = { drawn_len, drawn_part, drawn_make,
					drawn_free },
			     .w = w,
			     .n = 1 + (uint32_t)boxes_below(random, 8) };
	for (uint32_t k = 0; k < d->n; k++) {
		struct ck_section *s = &d->sections[k];

		s->columns = 1 + (uint32_t)boxes_below(random, 4);
		s->rows = (uint32_t)boxes_below(
			random, boxes_one_in(random, 3) ? 18 : 3);
		d->first[k] = d->nparts;
		for (uint32_t i = 0; i < s->rows * s->columns; i++)
			d->which[d->nparts++] =
				(uint32_t)boxes_below(random, w->slice.nparts);
	}
}

/* --- brute force ------------------------------------------------------------- */

static struct truth world_truth;
static uint8_t bytes[BYTES], got[BYTES];
static int errs[BYTES];

static uint64_t expect(const struct drawn *d)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < d->nparts; i++) {
		const struct world_part *p = &d->w->given[d->which[i]];

		memcpy(bytes + size, world_truth.byte + p->vpos, p->len);
		memcpy(errs + size, world_truth.err + p->vpos,
		       p->len * sizeof(*errs));
		size += p->len;
	}
	return size;
}

static bool is_right(struct world *w, struct ck_open_slice *o, uint64_t begin,
		     uint64_t len)
{
	int rc = world_read_into(w, o, begin, len, got);
	bool bad = false;

	for (uint64_t i = begin; i < begin + len; i++) {
		if (errs[i] == rc && rc)
			return true;
		bad |= errs[i] != 0;
	}
	return rc == 0 && !bad && memcmp(got, bytes + begin, len) == 0;
}

/* Each byte is in the part that is found for it, and parts have no gaps. */
static unsigned check_parts(const struct drawn *d, const struct ck_slice *s)
{
	uint64_t at = 0;
	unsigned wrong = s->nparts != d->nparts;

	for (uint32_t i = 0; i < s->nparts; i++) {
		uint64_t len = d->w->given[d->which[i]].len;

		wrong += ck_slice_begin(s, i) != at ||
			 ck_slice_part_len(s, i) != len;
		for (uint64_t k = 0; k < len; k += 1 + len / 3)
			wrong += ck_slice_find(s, at + k) != i;
		at += len;
	}
	return wrong + (at != s->size);
}

static unsigned check_drawn(struct drawn *d, uint64_t *random)
{
	uint64_t size = expect(d);
	struct ck_sections *s;
	struct ck_slice *slice;
	struct ck_open_slice *o;
	unsigned wrong;

	if (ck_sections_make(d->sections, d->n, &d->maker, &s) ||
	    ck_sections_slice(s, &slice) ||
	    ck_open_slice_make(slice, &d->w->locator, &o))
		abort();
	wrong = ck_sections_size(s) != size;
	ck_sections_put(s); /* the slice has it */
	wrong += check_parts(d, slice);
	for (unsigned i = 0; i < 12 && size; i++) {
		uint64_t begin = boxes_below(random, size + 1);
		uint64_t len = boxes_below(random, size + 1 - begin);

		if (boxes_one_in(random, 2))
			len %= 64;
		wrong += !is_right(d->w, o, begin, len);
	}
	wrong += !is_right(d->w, o, 0, size);
	wrong += d->freed;
	ck_open_slice_free(o);
	return wrong + (d->freed != 1);
}

static void test_random(void)
{
	static const char *const dtypes[] = { "float32", "bfloat16", "uint8",
					      "complex64", "complex128" };
	uint64_t cases = tap_cases("CKPTFS_CASES", TAP_SLOW ? 30000 : 150000,
				   TAP_SLOW ? 400000 : 10000000) /
			 100;
	uint64_t random = tap_seed(1511) | 1;
	uint64_t windows[8 * 2 * BOXES_DIMS];
	struct world *w = world_make();
	static struct drawn d;
	unsigned wrong = 0;

	for (uint64_t i = 0; i < cases; i++) {
		random_world(w, dtypes, CK_ARRAY_SIZE(dtypes), windows,
			     &random);
		define(w, &world_truth);
		draw(&d, w, &random);
		wrong += check_drawn(&d, &random);
	}
	printf("# %" PRIu64 " tables\n", cases);
	eq_u64(wrong, 0);
	world_free(w);
}

/* --- limits ------------------------------------------------------------------ */

static uint64_t huge_len(const struct ck_sections_maker *m,
			 struct ck_section_at at)
{
	(void)m;
	return at.row < 2 ? INT64_MAX / 2 : at.row == 2 ? 1 : 0;
}

static void test_limits(void)
{
	static struct drawn d;
	const struct ck_section fits = { 4, 1 }, over = { 5, 2 };
	const struct ck_section many[] = { { UINT32_MAX / 2, 1 },
					   { UINT32_MAX / 3, 2 } };
	struct ck_sections *s;

	d.maker = (struct ck_sections_maker){ .len = huge_len,
					      .free = drawn_free };
	eq_err(ck_sections_make(&fits, 1, &d.maker, &s), 0);
	eq_u64(ck_sections_size(s), INT64_MAX);
	ck_sections_put(s);
	eq_u64(d.freed, 1);
	eq_err(ck_sections_make(&over, 1, &d.maker, &s), -EOVERFLOW);
	eq_u64(d.freed, 2);
	eq_err(ck_sections_make(many, 2, &d.maker, &s), -EOVERFLOW);
	eq_u64(d.freed, 3);
}

static uint64_t small_len(const struct ck_sections_maker *m,
			  struct ck_section_at at)
{
	(void)m;
	return 64U + at.column;
}

/* Bytes; 0 with ASan. */
static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* Of a million rows of three parts. */
static void test_memory(void)
{
	const struct ck_section rows = { 1000000, 3 };
	struct ck_sections_maker maker = { .len = small_len };
	struct ck_sections *s;
	struct ck_slice *slice;
	size_t before = allocated();

	eq_err(ck_sections_make(&rows, 1, &maker, &s), 0);
	ok(allocated() - before < 8 * 1000000 + 10000);
	eq_u64(ck_sections_size(s), 195 * 1000000ULL);
	eq_err(ck_sections_slice(s, &slice), 0);
	eq_u64(slice->nparts, 3000000);
	eq_u64(ck_slice_find(slice, 195 * 654321ULL + 64 + 65), 3 * 654321 + 2);
	eq_u64(ck_slice_begin(slice, 3 * 654321 + 2),
	       195 * 654321ULL + 64 + 65);
	ck_slice_free(slice);
	ck_sections_put(s);
}

int main(void)
{
	if (!world_begin())
		return 2;
	test_random();
	test_limits();
	test_memory();
	return world_end();
}
