/* SPDX-License-Identifier: MIT */
/* process: reads files of /proc/<pid>, and asks the scheduler. No state; any thread. */
#include "process.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

const char *ck_process_stat(pid_t process, char text[static CK_PROCESS_STAT])
{
	char path[32];
	ck_auto_fd int fd = -1;
	const char *name_end;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, CK_PROCESS_STAT - 1);
	text[n > 0 ? n : 0] = '\0';
	name_end = strrchr(text, ')');
	return name_end ? name_end + 1 : NULL;
}

unsigned ck_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set)
		       ? 1
		       : (unsigned)CPU_COUNT(&set);
}
