/* SPDX-License-Identifier: MIT */
/* only_child: finds the child of a process that has one child at a time. */
#ifndef CK_ONLY_CHILD_H
#define CK_ONLY_CHILD_H

#include <stdio.h>
#include <sys/types.h>

/* Returns its pid, or 0 without a child. */
static inline pid_t only_child(pid_t of)
{
	char path[64];
	FILE *file;
	int pid = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of,
		       (int)of);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%d", &pid) != 1)
		pid = 0;
	if (file)
		fclose(file);
	return pid;
}

#endif
