/* SPDX-License-Identifier: MIT */
/*
 * value_figures: statistics of tensors, as core/values computes them. Reads "DTYPE BYTES\n" and so
 * many bytes, until the end of its input; prints two lines for each. The first one is of value_stats:
 * values, zeros, NaN, infinite and finite ones, then minimum, maximum, sum, mean, standard deviation
 * and norm, exactly. The second one is of value_tally: the same without the sum, and the bins.
 */
#include "values/value_stats.h"
#include "values/value_tally.h"

#include <stdio.h>

enum { PIECE = 960 }; /* a multiple of all sizes of elements */

static void tally_print(struct ck_value_tally *t)
{
	struct ck_figures f;

	ck_value_tally_end(t, &f);
	printf("%ju %ju %ju %ju %ju %a %a %a %a %a", (uintmax_t)f.n,
	       (uintmax_t)f.zeros, (uintmax_t)f.nan, (uintmax_t)f.inf,
	       (uintmax_t)f.finite, f.min, f.max, f.mean, f.deviation, f.norm);
	for (unsigned i = 0; i < CK_WIDE_BINS; i++)
		printf(" %ju", (uintmax_t)f.bins[i]);
	printf("\n");
}

static int run(const char *dtype, size_t len, struct ck_value_tally *t)
{
	uint8_t number = ck_dtype_by_name(ck_str_from(dtype));
	struct ck_value_stats s = ck_value_stats_make(number);
	uint8_t piece[PIECE];

	ck_value_tally_begin(t, number);
	for (size_t n; len > 0; len -= n) {
		n = (size_t)ck_min(len, sizeof(piece));
		if (fread(piece, 1, n, stdin) != n)
			return 1;
		ck_value_stats_add(&s, piece, n);
		ck_value_tally_add(t, piece, n);
	}
	printf("%ju %ju %ju %ju %ju %a %a %a %a %a %a\n", (uintmax_t)s.n,
	       (uintmax_t)s.zeros, (uintmax_t)s.nan, (uintmax_t)s.inf,
	       (uintmax_t)s.finite, s.min, s.max, ck_value_stats_sum(&s),
	       ck_value_stats_mean(&s), ck_value_stats_deviation(&s),
	       ck_value_stats_norm(&s));
	tally_print(t);
	return 0;
}

int main(void)
{
	struct ck_value_tally *t = ck_value_tally_make();
	char dtype[64];
	size_t len;
	int rc = t ? 0 : 1;

	while (rc == 0 && scanf("%63s %zu", dtype, &len) == 2 &&
	       getchar() == '\n')
		rc = run(dtype, len, t);
	ck_value_tally_free(t);
	return rc;
}
