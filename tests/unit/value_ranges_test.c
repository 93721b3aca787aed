/* SPDX-License-Identifier: MIT */
/*
 * value_ranges: ranges of long tensors, here of at least 4,096 bytes, are read by several threads
 * and merged: figures and differences are those of one pass over all bytes, and the same with any
 * number of threads. Compiled with CK_PASS_RANGE.
 */
#include "tap.h"
#include "values/compare.h"
#include "values/tensor_figures.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { COUNT = 100003, TENSORS = 5 };

static const struct {
	const char *name, *hub;
	size_t size;
} dtypes[TENSORS] = {
	{ "float32", "F32", 4 },	   { "bfloat16", "BF16", 2 },
	{ "float64", "F64", 8 },	   { "int64", "I64", 8 },
	{ "float8_e4m3fn", "F8_E4M3", 1 },
};

static uint64_t state;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Values around 3, some of them far away, NaN, infinite or 0. */
static void fill(uint8_t *bytes, unsigned dtype)
{
	for (size_t i = 0; i < COUNT; i++) {
		double x = 3 + (double)(int64_t)next() / 9e18;
		float f;

		x *= next() % 1000 ? 1 : 1e3;
		x = next() % 2000 ? x : (double)NAN;
		x = next() % 3000 ? x : (double)INFINITY;
		x = next() % 500 ? x : 0;
		f = (float)x;
		if (dtype == 0)
			memcpy(bytes + 4 * i, &f, 4);
		else if (dtype == 1)
			memcpy(bytes + 2 * i, (uint8_t *)&f + 2, 2);
		else if (dtype == 2)
			memcpy(bytes + 8 * i, &x, 8);
		else
			memcpy(bytes + dtypes[dtype].size * i,
			       &(uint64_t){ next() }, dtypes[dtype].size);
	}
}

static size_t bytes_of(unsigned dtype)
{
	return COUNT * dtypes[dtype].size;
}

/* --- checkpoints ------------------------------------------------------------------------- */

struct source {
	char path[64];
	uint8_t *bytes[TENSORS];
	struct ck_checkpoint *cp;
	struct ck_pass_source from;
};

static void put(FILE *file, const void *bytes, size_t len)
{
	if (fwrite(bytes, 1, len, file) != len)
		abort();
}

static void source_write(struct source *s)
{
	char header[1024];
	uint64_t at = 0, len = 0;
	FILE *file = fopen(s->path, "w");

	if (!file)
		abort();
	for (unsigned i = 0; i < TENSORS; i++) {
		len += (uint64_t)snprintf(
			header + len, sizeof(header) - len,
			"%s\"t%u\":{\"dtype\":\"%s\",\"shape\":[%d],"
			"\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
			i ? "," : "{", i, dtypes[i].hub, COUNT, at,
			at + bytes_of(i));
		at += bytes_of(i);
	}
	header[len++] = '}';
	put(file, &len, sizeof(len));
	put(file, header, len);
	for (unsigned i = 0; i < TENSORS; i++)
		put(file, s->bytes[i], bytes_of(i));
	if (fclose(file))
		abort();
}

static void source_open(struct source *s)
{
	static const struct ck_format_options options = { 0 };
	struct ck_diag d = { 0 };

	if (ck_checkpoint_open(s->path, &options, &s->cp, &d)) {
		printf("# %s\n", d.text);
		abort();
	}
	s->from = (struct ck_pass_source){ .cp = s->cp,
					   .c = ck_checkpoint_catalog(s->cp) };
}

static void source_close(struct source *s)
{
	ck_catalog_put(s->from.c);
	ck_checkpoint_close(s->cp);
	unlink(s->path);
	for (unsigned i = 0; i < TENSORS; i++)
		free(s->bytes[i]);
}

/* --- figures ----------------------------------------------------------------------------- */

static bool is_near(double got, double want)
{
	return fabs(got - want) <= 1e-12 * fabs(want);
}

/* Bins of wide dtypes may have values next to an edge in the neighbour. */
static bool are_bins_near(const uint64_t *got, const uint64_t *want,
			  uint64_t most)
{
	uint64_t moved = 0;

	for (unsigned i = 0; i < CK_WIDE_BINS; i++)
		moved += got[i] > want[i] ? got[i] - want[i] : want[i] - got[i];
	return moved <= most;
}

static void figures_check(const struct source *s, unsigned i,
			  const struct ck_figures *got)
{
	struct ck_value_tally *t = ck_value_tally_make();
	struct ck_figures want;

	if (!t)
		abort();
	ck_value_tally_begin(t, ck_dtype_by_name(ck_str_from(dtypes[i].name)));
	ck_value_tally_add(t, s->bytes[i], bytes_of(i));
	ck_value_tally_end(t, &want);
	ck_value_tally_free(t);
	printf("# %s\n", dtypes[i].name);
	ok(want.has_values && got->has_values && want.finite > COUNT / 2);
	eq_u64(got->n, want.n);
	eq_u64(got->zeros, want.zeros);
	eq_u64(got->nan, want.nan);
	eq_u64(got->inf, want.inf);
	eq_u64(got->finite, want.finite);
	ok(got->min == want.min && got->max == want.max);
	ok(is_near(got->mean, want.mean) || dtypes[i].hub[0] == 'I');
	ok(is_near(got->deviation, want.deviation));
	ok(is_near(got->norm, want.norm));
	ok(are_bins_near(got->bins, want.bins,
			 dtypes[i].size > 2 ? COUNT / 200 : 0));
}

static void test_figures(const struct source *s)
{
	struct ck_figured all[TENSORS], first[TENSORS];

	for (unsigned threads = 1; threads <= 9; threads += 2) {
		const struct ck_figures_options o = { .threads = threads };

		memset(all, 0, sizeof(all));
		for (unsigned i = 0; i < TENSORS; i++)
			all[i].tensor = i;
		eq_i64(ck_figures_compute(&s->from, all, TENSORS, &o), 0);
		for (unsigned i = 0; i < TENSORS && threads == 1; i++) {
			first[i] = all[i];
			eq_i64(all[i].err, 0);
			figures_check(s, i, &all[i].figures);
		}
		for (unsigned i = 0; i < TENSORS; i++)
			eq_mem(&all[i].figures, sizeof(all[i].figures),
			       &first[i].figures, sizeof(first[i].figures));
	}
}

/* --- differences ------------------------------------------------------------------------- */

static void diff_check(const struct source *a, const struct source *b,
		       unsigned i, const struct ck_compared *got)
{
	struct ck_value_diff want = ck_value_diff_make(
		ck_dtype_by_name(ck_str_from(dtypes[i].name)),
		(struct ck_tolerance){ .absolute = 0.5 });

	ck_value_diff_add(&want, a->bytes[i], b->bytes[i], bytes_of(i));
	printf("# %s\n", dtypes[i].name);
	eq_i64(got->err, 0);
	ok(got->differs == (i != 1));
	eq_u64(got->diff.n, want.n);
	eq_u64(got->diff.changed, want.changed);
	eq_u64(got->diff.beyond, want.beyond);
	eq_u64(got->diff.finite, want.finite);
	ok(got->diff.max == want.max);
	ok(is_near(ck_value_diff_mean(&got->diff), ck_value_diff_mean(&want)));
	ok(is_near(got->diff.squares, want.squares));
}

static void test_diff(const struct source *a, const struct source *b)
{
	const struct ck_pass_source from[2] = { a->from, b->from };
	struct ck_compared all[TENSORS], first[TENSORS];

	for (unsigned threads = 1; threads <= 9; threads += 2) {
		const struct ck_compare_options o = {
			.values = true,
			.tolerance = { .absolute = 0.5 },
			.threads = threads,
		};

		memset(all, 0, sizeof(all));
		for (unsigned i = 0; i < TENSORS; i++)
			all[i].row.tensor[0] = all[i].row.tensor[1] = i;
		eq_i64(ck_tensors_compare(from, all, TENSORS, &o), 0);
		for (unsigned i = 0; i < TENSORS && threads == 1; i++) {
			first[i] = all[i];
			diff_check(a, b, i, &all[i]);
		}
		for (unsigned i = 0; i < TENSORS; i++) {
			ok(all[i].diff.sum == first[i].diff.sum);
			ok(all[i].diff.rest == first[i].diff.rest);
			ok(all[i].diff.squares == first[i].diff.squares);
			ok(all[i].differs == first[i].differs);
		}
	}
}

static void test_ranges(void)
{
	struct ck_pass_row row = { .tensor = { 7, 8 } }, rows[CK_PASS_RANGES];

	eq_u64(ck_pass_ranges(0), 1);
	eq_u64(ck_pass_rows_make(&row, 0, rows), 1);
	eq_u64(rows[0].end, 0);
	eq_u64(ck_pass_ranges(4096), 1);
	eq_u64(ck_pass_ranges(4097), 2);
	eq_u64(ck_pass_ranges(65536), 16);
	eq_u64(ck_pass_rows_make(&row, 4097, rows), 2);
	eq_u64(rows[0].end, 4096);
	eq_u64(rows[1].begin, 4096);
	eq_u64(rows[1].end, 4097);
	eq_u64(rows[1].tensor[1], 8);
	ok(ck_pass_ranges(UINT64_C(1) << 62) <= CK_PASS_RANGES);
}

int main(void)
{
	struct source a = { .path = "/tmp/ckptfs-ranges-a-XXXXXX.safetensors" };
	struct source b = { .path = "/tmp/ckptfs-ranges-b-XXXXXX.safetensors" };

	state = tap_seed(4321);
	if (close(mkstemps(a.path, 12)) || close(mkstemps(b.path, 12)))
		return 2;
	for (unsigned i = 0; i < TENSORS; i++) {
		a.bytes[i] = malloc(bytes_of(i));
		b.bytes[i] = malloc(bytes_of(i));
		if (!a.bytes[i] || !b.bytes[i])
			return 2;
		fill(a.bytes[i], i);
		memcpy(b.bytes[i], a.bytes[i], bytes_of(i));
		if (i != 1) /* the last bytes differ in all but one */
			fill(b.bytes[i], i);
	}
	source_write(&a);
	source_write(&b);
	source_open(&a);
	source_open(&b);
	test_ranges();
	test_figures(&a);
	test_diff(&a, &b);
	source_close(&a);
	source_close(&b);
	return tap_done();
}
