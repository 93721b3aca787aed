/* SPDX-License-Identifier: MIT */
/* must: a condition for every input. If it is false, its position is printed, and the abort
 * makes the fuzzer save the input. */
#ifndef CK_MUST_H
#define CK_MUST_H

#include <stdio.h>
#include <stdlib.h>

_Noreturn static inline void must_not(const char *file, int line,
				      const char *what)
{
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
	abort();
}

#define must(good) ((good) ? (void)0 : must_not(__FILE__, __LINE__, #good))

#endif
