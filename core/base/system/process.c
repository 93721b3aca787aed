/* SPDX-License-Identifier: MIT */
/* process: reads files of /proc/<pid>, asks the scheduler, and runs threads. No state; any
 * thread. */
#include "process.h"

#include <fcntl.h>
#include <pthread.h>
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

void ck_workers_run(unsigned n, void *(*work)(void *arg), void *args,
		    size_t size)
{
	pthread_t threads[CK_WORKERS_MOST];
	char *each = args;
	unsigned started = 0;

	while (started + 1 < ck_min(n, CK_WORKERS_MOST) &&
	       pthread_create(&threads[started], NULL, work,
			      each + started * size) == 0)
		started++;
	work(each + started * size);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}
