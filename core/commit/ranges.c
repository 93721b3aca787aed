/* SPDX-License-Identifier: MIT */
/*
 * ranges: sets of byte ranges of a file that were written, or are free. A program that
 * writes from front to back makes one range; random writes make many. Adjacent ranges
 * are joined, and their number is limited. No locks; the caller synchronizes.
 */
#include "ckptfs/table.h"
#include "written_ranges.h"

#include <errno.h>

/* Limit of separate ranges, above the number of any real program. */
enum { RANGES_MAX = 1 << 20 };

/* Returns the first range that ends at or behind pos. */
static size_t find(const struct ck_ranges *ranges, uint64_t pos)
{
	return CK_COUNT_BEFORE(ranges->n, i, ranges->r[i].end < pos);
}

int ck_ranges_add(struct ck_ranges *ranges, uint64_t begin, uint64_t end)
{
	size_t first = find(ranges, begin), last = first;
	struct ck_range *r;

	if (begin >= end)
		return 0;
	r = ck_grow(ranges->r, &ranges->cap, ranges->n, 1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	ranges->r = r;
	/* [first, last) overlap or adjoin the new range */
	for (; last < ranges->n && r[last].begin <= end; last++) {
		begin = ck_min(begin, r[last].begin);
		end = ck_max(end, r[last].end);
	}
	if (first == last && ranges->n >= RANGES_MAX)
		return -ENOSPC;
	memmove(r + first + 1, r + last, (ranges->n - last) * sizeof(*r));
	r[first] = (struct ck_range){ begin, end };
	ranges->n = ranges->n - (last - first) + 1;
	return 0;
}

/* Splits r[i] into the parts before and behind [begin, end). */
static int split(struct ck_ranges *ranges, size_t i, uint64_t begin,
		 uint64_t end)
{
	struct ck_range *r = ck_grow(ranges->r, &ranges->cap, ranges->n, 1,
				     sizeof(*r));

	if (!r)
		return -ENOMEM;
	ranges->r = r;
	if (ranges->n >= RANGES_MAX)
		return -ENOSPC;
	memmove(r + i + 1, r + i, (ranges->n - i) * sizeof(*r));
	ranges->n++;
	r[i].end = begin;
	r[i + 1].begin = end;
	return 0;
}

int ck_ranges_remove(struct ck_ranges *ranges, uint64_t begin, uint64_t end)
{
	size_t first = find(ranges, begin), last;
	struct ck_range *r = ranges->r;

	if (begin >= end || first == ranges->n)
		return 0;
	if (r[first].begin < begin && r[first].end > end)
		return split(ranges, first, begin, end);
	if (r[first].begin < begin)
		r[first++].end = begin;
	for (last = first; last < ranges->n && r[last].end <= end;)
		last++;
	if (last < ranges->n)
		r[last].begin = ck_max(r[last].begin, end);
	memmove(r + first, r + last, (ranges->n - last) * sizeof(*r));
	ranges->n -= last - first;
	return 0;
}

void ck_ranges_cut(struct ck_ranges *ranges, uint64_t end)
{
	while (ranges->n && ranges->r[ranges->n - 1].begin >= end)
		ranges->n--;
	if (ranges->n)
		ranges->r[ranges->n - 1].end =
			ck_min(ranges->r[ranges->n - 1].end, end);
}

bool ck_ranges_gap(const struct ck_ranges *ranges, uint64_t *begin,
		   uint64_t *end)
{
	const struct ck_range *r = ranges->r;
	size_t i = find(ranges,
			*end); /* the ranges before it end before *end */

	if (i < ranges->n && r[i].begin < *end)
		*end = r[i].begin;
	if (i > 0)
		*begin = ck_max(*begin, r[i - 1].end);
	return *begin < *end;
}

bool ck_ranges_have(const struct ck_ranges *ranges, uint64_t begin,
		    uint64_t end)
{
	size_t i = find(ranges, begin);

	return begin >= end || (i < ranges->n && ranges->r[i].begin <= begin &&
				ranges->r[i].end >= end);
}

/* Orders ranges by length, then by offset. */
static bool precedes(const struct ck_range *a, const struct ck_range *b)
{
	uint64_t x = a->end - a->begin, y = b->end - b->begin;

	return x < y || (x == y && a->begin < b->begin);
}

const struct ck_range *ck_ranges_fit(const struct ck_ranges *ranges,
				     uint64_t len, const struct ck_range *after)
{
	const struct ck_range *best = NULL;

	for (size_t i = 0; i < ranges->n; i++) {
		const struct ck_range *r = &ranges->r[i];

		if (r->end - r->begin >= len &&
		    (!after || precedes(after, r)) &&
		    (!best || precedes(r, best)))
			best = r;
	}
	return best;
}

void ck_ranges_take(struct ck_ranges *ranges, uint64_t begin, uint64_t end)
{
	size_t i = find(ranges, begin + 1);
	struct ck_range *r = ranges->r;

	if (i == ranges->n || r[i].begin != begin)
		return;
	r[i].begin = end;
	if (end < r[i].end)
		return;
	ranges->n--;
	memmove(r + i, r + i + 1, (ranges->n - i) * sizeof(*r));
}
