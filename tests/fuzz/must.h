/* SPDX-License-Identifier: MIT */
/* must: what has to be true of every input; if it is not, the input is kept, and this says
 * where. */
#ifndef CK_MUST_H
#define CK_MUST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline void must_at(bool good, const char *file, int line,
			   const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
	abort();
}

#define must(good) must_at((good), __FILE__, __LINE__, #good)

#endif
