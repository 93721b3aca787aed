/* SPDX-License-Identifier: MIT */
/*
 * The sample of a tensor: the first and the last 4 KiB, and 64 blocks between them, in order,
 * inside the tensor, apart, and evenly spread; the whole of a tensor that is not larger.
 */
#include "sample.h"
#include "tap.h"

static const uint64_t size = (uint64_t)CK_SAMPLE_BLOCK * CK_SAMPLE_BLOCKS;

static void test_small(void)
{
	const uint64_t all[] = { 1, 2, 4095, 4096, 4097, size - 1, size };
	uint64_t len;

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++) {
		eq_u64(ck_sample_blocks(all[i]), 1);
		eq_u64(ck_sample_block(all[i], 0, &len), 0);
		eq_u64(len, all[i]);
	}
}

static void test_large(void)
{
	const uint64_t all[] = { size + 1,	    size + 64,
				 size + 65,	    size * 2,
				 UINT64_C(1) << 20, (UINT64_C(1) << 31) + 3,
				 UINT64_C(1) << 62, UINT64_MAX };

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++) {
		uint64_t end = 0, least = UINT64_MAX, most = 0, len = 0;

		eq_u64(ck_sample_blocks(all[i]), CK_SAMPLE_BLOCKS);
		for (uint32_t k = 0; k < CK_SAMPLE_BLOCKS; k++) {
			uint64_t at = ck_sample_block(all[i], k, &len);

			ok(at >= end && len == CK_SAMPLE_BLOCK);
			if (k == 0)
				eq_u64(at, 0);
			least = k ? ck_min(least, at - end) : least;
			most = ck_max(most, at - end);
			end = at + len;
		}
		eq_u64(end, all[i]);
		ok(most - least <= 1);
	}
}

int main(void)
{
	test_small();
	test_large();
	return tap_done();
}
