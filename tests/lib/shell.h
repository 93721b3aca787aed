/* SPDX-License-Identifier: MIT */
/*
 * shell: a command of the shell, for tests of one thread; a failure ends the
 * program.
 */
#ifndef CK_SHELL_H
#define CK_SHELL_H

#include <ckptfs/base.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static inline CK_PRINTF(1, 2) void shell(const char *fmt, ...)
{
	static char command[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	if (system(command))
		abort();
}

#endif
