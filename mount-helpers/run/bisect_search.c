/* SPDX-License-Identifier: MIT */
/*
 * bisect_search: keeps a range [low, high): steps below low are known not to have the property, or
 * are assumed so; step high has it. A step that is unsure tells nothing, so the nearest other
 * step of the range is tested instead. No state beside the struct.
 */
#include "bisect_search.h"

static int test(struct ck_bisection *b, size_t step)
{
	enum ck_verdict verdict = CK_STEP_UNREAD;
	int rc;

	if (b->verdicts[step] != CK_STEP_UNREAD)
		return 0;
	rc = b->test(b->arg, step, &verdict);
	b->verdicts[step] = (uint8_t)verdict;
	b->order[b->ntested++] = step;
	return rc;
}

/* Finds the untested step of [low, high) that is nearest to the middle. False: all are unsure. */
static bool nearest(const struct ck_bisection *b, size_t low, size_t high,
		    size_t *out)
{
	size_t middle = low + (high - low) / 2;

	for (size_t d = 0; d < high - low; d++) {
		if (middle + d < high &&
		    b->verdicts[middle + d] == CK_STEP_UNREAD) {
			*out = middle + d;
			return true;
		}
		if (d <= middle - low &&
		    b->verdicts[middle - d] == CK_STEP_UNREAD) {
			*out = middle - d;
			return true;
		}
	}
	return false;
}

static int narrow(struct ck_bisection *b)
{
	size_t low = 0, high = b->n, step;
	int rc = 0;

	while (rc == 0 && nearest(b, low, high, &step)) {
		rc = test(b, step);
		if (b->verdicts[step] == CK_STEP_CLEAN)
			low = step + 1;
		else if (b->verdicts[step] == CK_STEP_HAS)
			high = step;
	}
	b->found = high;
	b->unsure = low < high;
	/* The other neighbour was tested: it is clean or unsure. */
	if (rc == 0 && high + 1 < b->n)
		rc = test(b, high + 1);
	for (size_t i = high; i < b->n; i++)
		b->contradicted |= b->verdicts[i] == CK_STEP_CLEAN;
	return rc;
}

static int test_every(struct ck_bisection *b)
{
	int rc = 0;

	b->found = b->n;
	for (size_t i = 0; i < b->n && rc == 0; i++) {
		rc = test(b, i);
		if (b->found < b->n)
			continue;
		if (b->verdicts[i] == CK_STEP_HAS)
			b->found = i;
		else
			b->unsure |= b->verdicts[i] == CK_STEP_UNSURE;
	}
	return rc;
}

int ck_bisect(struct ck_bisection *b)
{
	return b->every ? test_every(b) : narrow(b);
}
