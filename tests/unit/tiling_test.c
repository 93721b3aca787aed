/* SPDX-License-Identifier: MIT */
/* Are boxes disjoint? Against comparing all pairs, and for inputs made to
 * take long. */
#include "model/catalog/catalog_internal.h"
#include "tap.h"

static struct ck_tiling make(const int64_t *boxes, uint32_t ndim, uint32_t n)
{
	struct ck_tiling t;

	if (ck_tiling_init(&t, n))
		abort();
	t.boxes = boxes;
	t.ndim = ndim;
	t.n = n;
	t.budget = UINT64_C(1) << 26;
	for (uint32_t i = 0; i < n; i++)
		t.index[i] = i;
	return t;
}

static enum ck_tiling_result check(const int64_t *boxes, uint32_t ndim,
				   uint32_t n)
{
	struct ck_tiling t = make(boxes, ndim, n);
	enum ck_tiling_result result;

	ck_tiling_sort(&t);
	result = ck_tiling_check(&t);
	ck_tiling_fini(&t);
	return result;
}

static bool pair_meets(const int64_t *a, const int64_t *b, uint32_t ndim)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (a[d] >= b[d] + b[ndim + d] || b[d] >= a[d] + a[ndim + d])
			return false;
	return true;
}

static bool any_pair_meets(const int64_t *boxes, uint32_t ndim, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = i + 1; j < n; j++)
			if (pair_meets(boxes + (size_t)i * 2 * ndim,
				       boxes + (size_t)j * 2 * ndim, ndim))
				return true;
	return false;
}

/* --- sorting -------------------------------------------------------------------- */

static bool is_sorted(const struct ck_tiling *t)
{
	for (uint32_t i = 1; i < t->n; i++) {
		const int64_t *a = t->boxes +
				   (size_t)t->index[i - 1] * 2 * t->ndim;
		const int64_t *b = t->boxes + (size_t)t->index[i] * 2 * t->ndim;
		uint32_t d = 0;

		while (d < t->ndim && a[d] == b[d])
			d++;
		if (d == t->ndim ? t->index[i - 1] >= t->index[i] : a[d] > b[d])
			return false;
	}
	return true;
}

static void test_sort(void)
{
	uint64_t seed = tap_seed(5);
	unsigned failed = 0;

	for (int round = 0; round < 20000; round++) {
		uint32_t ndim = (uint32_t)(tap_random(&seed) % 4);
		uint32_t n = (uint32_t)(tap_random(&seed) % 40);
		int64_t boxes[40 * 8];
		struct ck_tiling t = make(boxes, ndim, n);

		for (uint32_t i = 0; i < n * 2 * ndim; i++)
			boxes[i] = (int64_t)(tap_random(&seed) % 5) - 2;
		ck_tiling_sort(&t);
		failed += !is_sorted(&t);
		ck_tiling_fini(&t);
	}
	eq_u64(failed, 0);
}

/* --- random sets ------------------------------------------------------------------ */

/* Cuts box `i` at random into two, appending the second. */
static void split(int64_t *boxes, uint32_t ndim, uint32_t n, uint32_t i,
		  uint64_t *seed)
{
	uint32_t d = (uint32_t)(tap_random(seed) % ndim);
	int64_t *a = boxes + (size_t)i * 2 * ndim;
	int64_t *b = boxes + (size_t)n * 2 * ndim;
	int64_t at = 1;

	memcpy(b, a, 2 * ndim * sizeof(*a));
	if (a[ndim + d] > 1)
		at += (int64_t)(tap_random(seed) % (uint64_t)(a[ndim + d] - 1));
	b[d] += at;
	b[ndim + d] -= at;
	a[ndim + d] = at;
}

/* A tiling made by cuts, sometimes with boxes moved, grown or taken away. */
static uint32_t random_boxes(int64_t *boxes, uint32_t ndim, uint64_t *seed)
{
	uint32_t n = 1, want = 1 + (uint32_t)(tap_random(seed) % 24);

	for (uint32_t d = 0; d < ndim; d++) {
		boxes[d] = 0;
		boxes[ndim + d] = 1 + (int64_t)(tap_random(seed) % 12);
	}
	while (n < want) {
		uint32_t i = (uint32_t)(tap_random(seed) % n);
		int64_t volume = 1;

		split(boxes, ndim, n, i, seed);
		for (uint32_t d = 0; d < ndim; d++)
			volume *= boxes[(size_t)n * 2 * ndim + ndim + d];
		if (volume == 0)
			break;
		n++;
	}
	for (uint64_t k = tap_random(seed) % 4; k > 2; k--) {
		uint64_t at = tap_random(seed) % (n * ndim);
		int64_t *box = boxes + at / ndim * 2 * ndim + at % ndim;

		box[tap_random(seed) % 2 * ndim] += 1;
	}
	return n;
}

static void test_random_sets(void)
{
	uint64_t rounds = tap_cases("CKPTFS_CASES", TAP_SLOW ? 30000 : 200000,
				    TAP_SLOW ? 1000000 : 20000000);
	uint64_t seed = tap_seed(99), overlapping = 0;
	unsigned failed = 0;

	for (uint64_t round = 0; round < rounds; round++) {
		uint32_t ndim = 1 + (uint32_t)(tap_random(&seed) % 4);
		int64_t boxes[32 * 8];
		uint32_t n = random_boxes(boxes, ndim, &seed);
		struct ck_tiling t = make(boxes, ndim, n);
		bool want = any_pair_meets(boxes, ndim, n);
		enum ck_tiling_result got;

		ck_tiling_sort(&t);
		got = ck_tiling_check(&t);
		overlapping += want;
		failed += got !=
			  (want ? CK_TILING_OVERLAP : CK_TILING_DISJOINT);
		if (got == CK_TILING_OVERLAP)
			failed += t.a >= t.b ||
				  !pair_meets(boxes + (size_t)t.a * 2 * ndim,
					      boxes + (size_t)t.b * 2 * ndim,
					      ndim);
		ck_tiling_fini(&t);
	}
	eq_u64(failed, 0);
	ok(overlapping > rounds / 100 * 3 && overlapping < rounds / 100 * 97);
}

static void test_no_dimension(void)
{
	int64_t none[1] = { 0 };

	eq_u64(check(none, 0, 0), CK_TILING_DISJOINT);
	eq_u64(check(none, 0, 1), CK_TILING_DISJOINT);
	eq_u64(check(none, 0, 2), CK_TILING_OVERLAP);
	eq_u64(check(none, 0, 9), CK_TILING_OVERLAP);
}

/* Five boxes that no straight cut divides. */
static void test_pinwheel(void)
{
	int64_t boxes[] = { 0, 0, 1, 2, 0, 2, 2, 1, 2, 1,
			    1, 2, 1, 0, 2, 1, 1, 1, 1, 1 };

	eq_u64(check(boxes, 2, 5), CK_TILING_DISJOINT);
	boxes[18] = 2; /* the middle one grows */
	eq_u64(check(boxes, 2, 5), CK_TILING_OVERLAP);
}

/* --- large ones ------------------------------------------------------------------- */

static int64_t *boxes_alloc(uint32_t ndim, uint32_t n)
{
	int64_t *boxes = calloc((size_t)n * 2 * ndim, sizeof(*boxes));

	if (!boxes)
		abort();
	return boxes;
}

/* Boxes of a side x side grid, last dimension outermost. */
static void test_grid_in_any_order(void)
{
	enum { SIDE = 1000 };

	uint32_t n = SIDE * SIDE;
	int64_t *boxes = boxes_alloc(2, n);

	for (uint32_t i = 0; i < n; i++) {
		boxes[4 * i] = i % SIDE * 3;
		boxes[4 * i + 1] = i / SIDE * 5;
		boxes[4 * i + 2] = 3;
		boxes[4 * i + 3] = 5;
	}
	eq_u64(check(boxes, 2, n), CK_TILING_DISJOINT);
	boxes[4 * (n / 2) + 3] = 6;
	eq_u64(check(boxes, 2, n), CK_TILING_OVERLAP);
	free(boxes);
}

/* Each cut separates one box only, in turns from both dimensions: quadratic
 * work. The search must end, and may say that it does not know. */
static void test_spiral_is_bounded(void)
{
	uint32_t n = 1000000;
	int64_t *boxes = boxes_alloc(2, n);
	int64_t low[2] = { 0, 0 }, high[2] = { n, n };

	for (uint32_t i = 0; i < n; i++) {
		int64_t *box = boxes + (size_t)4 * i;
		uint32_t d = i % 2;

		box[d] = i % 4 < 2 ? low[d]++ : --high[d];
		box[1 - d] = low[1 - d];
		box[2 + d] = 1;
		box[3 - d] = high[1 - d] - low[1 - d];
	}
	eq_u64(check(boxes, 2, n), CK_TILING_IRREGULAR);
	eq_u64(check(boxes, 2, 1000), CK_TILING_DISJOINT);
	free(boxes);
}

/* Thin boxes along each dimension that all pass each other: every pair has
 * to be compared in some dimension. */
static void test_needles_are_bounded(void)
{
	uint32_t ndim = 64, n = 30000;
	int64_t *boxes = boxes_alloc(ndim, n);

	for (uint32_t i = 0; i < n; i++) {
		int64_t *box = boxes + (size_t)i * 2 * ndim;

		for (uint32_t d = 0; d < ndim; d++)
			box[ndim + d] = 1000000;
		box[ndim - 1] = i;
		box[2 * ndim - 1] = 1;
		box[i % (ndim - 1)] = 1;
	}
	eq_u64(check(boxes, ndim, n), CK_TILING_DISJOINT);
	for (uint32_t i = 0; i < n; i++) /* pinwheels in the last two */
		boxes[(size_t)i * 2 * ndim + 2 * ndim - 1] = 1 + i % 2;
	ok(check(boxes, ndim, n) != CK_TILING_DISJOINT);
	free(boxes);
}

static void test_equal_boxes_end_at_once(void)
{
	uint32_t n = 1000000;
	int64_t *boxes = boxes_alloc(3, n);

	for (size_t i = 0; i < (size_t)n * 6; i++)
		boxes[i] = 1;
	eq_u64(check(boxes, 3, n), CK_TILING_OVERLAP);
	free(boxes);
}

int main(void)
{
	test_sort();
	test_random_sets();
	test_no_dimension();
	test_pinwheel();
	test_grid_in_any_order();
	test_spiral_is_bounded();
	test_needles_are_bounded();
	test_equal_boxes_end_at_once();
	return tap_done();
}
