/* SPDX-License-Identifier: MIT */
/*
 * deaths: runs misuses of the fake driver, each in its own process, which must abort with an
 * expected message; and correct uses, which must not abort.
 */
#ifndef STANDIN_DEATHS_H
#define STANDIN_DEATHS_H

#include "loaded.h"

struct death {
	void (*run)(void);
	const char *expected;
};

/* The library and `begin` are set once, `run` for each process. */
static struct {
	const char *library;
	void (*begin)(void); /* setup of all processes */
	void (*run)(void);
} life;

static inline void life_begin(void)
{
	if (driver_load(life.library))
		abort();
	gpu_begin();
	life.begin();
	life.run();
}

static inline void deaths_check(const struct death *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		life.run = list[i].run;
		tap_result(dies(life_begin, list[i].expected), __FILE__,
			   __LINE__, list[i].expected);
	}
}

/* The exit status of a process. */
static inline int life_of(void (*run)(void))
{
	char output[2048];

	life.run = run;
	return in_child(life_begin, output, sizeof(output));
}

#endif
