/* SPDX-License-Identifier: MIT */
/*
 * host: random slices of random layouts, read from real files and compared
 * with brute force: bytes, changed values, and the error that each byte is.
 * Half of them from files of which none, or not all, can be mapped.
 */
#include "truth.h"

static bool check_read(struct world *w, const struct truth *t, uint64_t vpos,
		       uint64_t len)
{
	uint64_t size = w->slice.size;
	uint64_t begin = vpos < size ? vpos : size;
	uint64_t n = len < size - begin ? len : size - begin;
	int rc;
	uint8_t *bytes = world_read(w, begin, n, &rc);
	bool right = is_right_rc(t, begin, begin + n, rc) &&
		     (rc || memcmp(bytes, t->byte + begin, n) == 0);

	free(bytes);
	return right;
}

static unsigned check_world(struct world *w, uint64_t *random)
{
	static const char *const dtypes[] = {
		"float32", "bfloat16",	 "int64",   "uint8",	 "complex64",
		"int16",   "complex128", "float64", "complex32", "int32",
	};
	static struct truth truth;
	uint64_t windows[8 * 2 * BOXES_DIMS];
	unsigned wrong = 0;

	random_world(w, dtypes, 10, windows, random);
	if (boxes_one_in(random, 2))
		w->files = boxes_one_in(random, 2) ? unmapped : half_mapped;
	define(w, &truth);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t vpos = boxes_below(random, w->slice.size + 3);
		uint64_t len = boxes_below(random, w->slice.size + 3);

		wrong += !check_read(w, &truth, vpos, len);
	}
	wrong += !check_read(w, &truth, 0, UINT64_MAX);
	return wrong;
}

static void test_random(void)
{
	uint64_t cases = tap_cases("CKPTFS_CASES", TAP_SLOW ? 80000 : 250000,
				   TAP_SLOW ? 1000000 : 20000000) /
			 50;
	uint64_t random = tap_seed(811) | 1;
	struct world *w = world_make();
	unsigned wrong = 0;

	for (uint64_t i = 0; i < cases; i++)
		wrong += check_world(w, &random);
	printf("# %" PRIu64 " layouts\n", cases);
	eq_u64(wrong, 0);
	world_free(w);
}

int main(void)
{
	if (!world_begin())
		return 2;
	test_random();
	return world_end();
}
