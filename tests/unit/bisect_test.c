/* SPDX-License-Identifier: MIT */
/*
 * bisect: every sequence of up to eight steps that have the property, have it not, or are unsure;
 * and each place of the first one in sequences of up to 300 steps.
 */
#include "bisect_search.h"
#include "tap.h"

enum { MOST = 300, SHORT = 8 };

struct steps {
	uint8_t truth[MOST];
	unsigned tested[MOST];
};

static int test(void *arg, size_t step, enum ck_verdict *out)
{
	struct steps *s = arg;

	s->tested[step]++;
	*out = (enum ck_verdict)s->truth[step];
	return 0;
}

static struct ck_bisection search(struct steps *s, size_t n, bool every)
{
	static uint8_t verdicts[MOST];
	static size_t order[MOST];
	struct ck_bisection b = { .n = n,
				  .every = every,
				  .verdicts = verdicts,
				  .order = order,
				  .test = test,
				  .arg = s };

	memset(verdicts, 0, sizeof(verdicts));
	memset(s->tested, 0, sizeof(s->tested));
	if (ck_bisect(&b))
		b.found = SIZE_MAX;
	return b;
}

static size_t first_of(const struct steps *s, size_t n, enum ck_verdict v)
{
	size_t i = 0;

	while (i < n && s->truth[i] != v)
		i++;
	return i;
}

/* True if steps that have it are followed by no step that has it not. */
static bool stays(const struct steps *s, size_t n)
{
	for (size_t i = first_of(s, n, CK_STEP_HAS); i < n; i++)
		if (s->truth[i] == CK_STEP_CLEAN)
			return false;
	return true;
}

/* Neighbours of the step found are known, and no step is tested twice. */
static bool is_sound(const struct ck_bisection *b, const struct steps *s)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++) {
		if (s->tested[i] > 1)
			return false;
		n += s->tested[i];
	}
	if (n != b->ntested || b->found > b->n)
		return false;
	if (b->found == b->n)
		return true;
	return s->truth[b->found] == CK_STEP_HAS && s->tested[b->found] &&
	       (b->found == 0 || s->tested[b->found - 1]) &&
	       (b->found + 1 >= b->n || s->tested[b->found + 1]);
}

/* Wrong answers of both searches in one sequence. */
static unsigned count_wrong(struct steps *s, size_t n)
{
	size_t first = first_of(s, n, CK_STEP_HAS);
	bool hidden = first_of(s, n, CK_STEP_UNSURE) < first;
	struct ck_bisection b = search(s, n, true);
	unsigned wrong = b.found != first || b.unsure != hidden ||
			 b.contradicted || b.ntested != n || !is_sound(&b, s);

	b = search(s, n, false);
	wrong += !is_sound(&b, s);
	if (stays(s, n))
		wrong += b.found != first || b.contradicted;
	/* A certain answer is right at its edge. */
	if (!b.unsure && b.found < n && b.found > 0)
		wrong += s->truth[b.found - 1] != CK_STEP_CLEAN;
	if (b.found + 1 < n && s->truth[b.found + 1] == CK_STEP_CLEAN)
		wrong += !b.contradicted;
	if (stays(s, n) && !b.unsure && first > 0)
		wrong += s->truth[first - 1] != CK_STEP_CLEAN;
	return wrong;
}

static void test_all_sequences(void)
{
	struct steps s = { 0 };
	unsigned wrong = 0;

	for (size_t n = 0; n <= SHORT; n++) {
		size_t cases = 1;

		for (size_t i = 0; i < n; i++)
			cases *= 3;
		for (size_t k = 0; k < cases; k++) {
			size_t rest = k;

			for (size_t i = 0; i < n; i++, rest /= 3)
				s.truth[i] =
					(uint8_t)(CK_STEP_CLEAN + rest % 3);
			wrong += count_wrong(&s, n);
		}
	}
	eq_u64(wrong, 0);
}

static unsigned log_2(size_t n)
{
	unsigned log = 0;

	while (n >> (log + 1))
		log++;
	return log;
}

static void test_number_of_tests(void)
{
	struct steps s;
	unsigned wrong = 0;

	for (size_t n = 1; n <= MOST; n++)
		for (size_t first = 0; first <= n; first++) {
			struct ck_bisection b;

			memset(s.truth, CK_STEP_CLEAN, sizeof(s.truth));
			memset(s.truth + first, CK_STEP_HAS, MOST - first);
			b = search(&s, n, false);
			wrong += b.found != first || b.unsure ||
				 b.ntested > 2 + log_2(n);
		}
	eq_u64(wrong, 0);
}

int main(void)
{
	test_all_sequences();
	test_number_of_tests();
	return tap_done();
}
