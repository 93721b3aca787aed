/* SPDX-License-Identifier: MIT */
/*
 * value_figures: statistics of tensors, as core/values computes them. Reads "DTYPE BYTES\n" and so
 * many bytes, until the end of its input; prints a line for each: values, zeros, NaN, infinite
 * and finite ones, then minimum, maximum, sum, mean, standard deviation and norm, exactly.
 */
#include "values/value_stats.h"

#include <stdio.h>

enum { PIECE = 960 }; /* a multiple of all sizes of elements */

static int run(const char *dtype, size_t len)
{
	struct ck_value_stats s =
		ck_value_stats_make(ck_dtype_by_name(ck_str_from(dtype)));
	uint8_t piece[PIECE];

	for (size_t n; len > 0; len -= n) {
		n = (size_t)ck_min(len, sizeof(piece));
		if (fread(piece, 1, n, stdin) != n)
			return 1;
		ck_value_stats_add(&s, piece, n);
	}
	printf("%ju %ju %ju %ju %ju %a %a %a %a %a %a\n", (uintmax_t)s.n,
	       (uintmax_t)s.zeros, (uintmax_t)s.nan, (uintmax_t)s.inf,
	       (uintmax_t)s.finite, s.min, s.max, ck_value_stats_sum(&s),
	       ck_value_stats_mean(&s), ck_value_stats_deviation(&s),
	       ck_value_stats_norm(&s));
	return 0;
}

int main(void)
{
	char dtype[64];
	size_t len;
	int rc = 0;

	while (rc == 0 && scanf("%63s %zu", dtype, &len) == 2 &&
	       getchar() == '\n')
		rc = run(dtype, len);
	return rc;
}
