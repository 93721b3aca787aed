/* SPDX-License-Identifier: MIT */
/*
 * ranges: random ranges, compared with a bitmap.
 */
#include "commit/written_ranges.h"
#include "tap.h"

enum { SPACE = 200, ROUNDS = 3000, CHANGES = 60 };

static bool bits_have(const bool *bits, uint64_t begin, uint64_t end)
{
	for (uint64_t i = begin; i < end; i++)
		if (!bits[i])
			return false;
	return true;
}

/* The last part of [begin, end) without a bit. */
static bool gap_is_right(const struct ck_ranges *ranges, const bool *bits,
			 uint64_t begin, uint64_t end)
{
	uint64_t from = begin, to = end, want = end, want_begin;

	while (want > begin && bits[want - 1])
		want--;
	want_begin = want;
	while (want_begin > begin && !bits[want_begin - 1])
		want_begin--;
	if (!ck_ranges_gap(ranges, &from, &to))
		return want <= begin;
	return from == want_begin && to == want;
}

static bool is_sorted(const struct ck_ranges *ranges)
{
	for (size_t i = 1; i < ranges->n; i++)
		if (ranges->r[i - 1].end >= ranges->r[i].begin)
			return false;
	return true;
}

/* Adds a random range, or takes one away, or all behind a place. */
static bool change(struct ck_ranges *ranges, bool *bits, uint64_t *random)
{
	uint64_t begin = tap_random(random) % SPACE;
	uint64_t end = ck_min(begin + tap_random(random) % 20, SPACE);
	bool has = tap_random(random) % 3;
	int rc = 0;

	if (tap_random(random) % 20 == 0) {
		has = false;
		end = SPACE;
		ck_ranges_cut(ranges, begin);
	} else {
		rc = has ? ck_ranges_add(ranges, begin, end)
			 : ck_ranges_remove(ranges, begin, end);
	}
	for (uint64_t k = begin; k < end; k++)
		bits[k] = has;
	return rc == 0;
}

/* Of all ranges of at least len bytes, the shortest first, each once; then some
 * of one is taken. */
static bool fit_is_right(struct ck_ranges *ranges, bool *bits, uint64_t len,
			 uint64_t *random)
{
	const struct ck_range *r = NULL, *last = NULL;
	uint64_t begin, end;
	size_t want = 0;
	bool right = true;

	for (size_t i = 0; i < ranges->n; i++)
		want += ranges->r[i].end - ranges->r[i].begin >= len;
	for (; (r = ck_ranges_fit(ranges, len, last)); last = r, want--)
		right &= r->end - r->begin >=
			 (last ? last->end - last->begin : len);
	if (!last || !right)
		return right && want == 0;
	begin = last->begin;
	end = begin + 1 + tap_random(random) % (last->end - begin);
	ck_ranges_take(ranges, begin, end);
	memset(bits + begin, 0, (end - begin) * sizeof(*bits));
	return want == 0;
}

static bool round_is_right(uint64_t *random)
{
	struct ck_ranges ranges = { 0 };
	bool bits[SPACE] = { false };
	bool right = true;

	for (int i = 0; i < CHANGES; i++) {
		uint64_t begin, end;

		right &= change(&ranges, bits, random);
		if (tap_random(random) % 4 == 0)
			right &= fit_is_right(&ranges, bits,
					      tap_random(random) % 30, random);
		right &= is_sorted(&ranges);
		begin = tap_random(random) % SPACE;
		end = ck_min(begin + tap_random(random) % 50, SPACE);
		right &= ck_ranges_have(&ranges, begin, end) ==
			 bits_have(bits, begin, end);
		right &= gap_is_right(&ranges, bits, begin, end);
	}
	free(ranges.r);
	return right;
}

int main(void)
{
	uint64_t random = 3;
	int wrong = 0;

	for (int i = 0; i < ROUNDS; i++)
		wrong += !round_is_right(&random);
	eq_i64(wrong, 0);
	return tap_done();
}
