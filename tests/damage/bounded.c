/* SPDX-License-Identifier: MIT */
/*
 * bounded: runs a program under limits, and records its memory and time:
 *
 *	bounded FILE CPU-SECONDS DATA-MIB PROGRAM ARGUMENT...
 *
 * appends a line "KIB MICROSECONDS" to FILE: its largest resident size, and
 * processor time. The kernel kills a program that exceeds CPU-SECONDS or
 * DATA-MIB (0: no limit); its children inherit the limits. The exit status
 * is the program's, or 128 + its signal.
 *
 * The shell or Python cannot measure this: a process starts with the resident
 * size of its parent, and that of this program is small.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TROUBLE = 125, MIB = 1 << 20 };

static int trouble(const char *what)
{
	fprintf(stderr, "bounded: %s: %s\n", what, strerror(errno));
	return TROUBLE;
}

static void limit(__rlimit_resource_t resource, const char *number, rlim_t unit)
{
	rlim_t most = strtoul(number, NULL, 10) * unit;
	struct rlimit l = { most, most };

	if (most && setrlimit(resource, &l))
		exit(trouble("limit"));
}

static long usec(struct timeval t)
{
	return t.tv_sec * 1000000L + t.tv_usec;
}

static int note(const char *path, const struct rusage *u)
{
	FILE *f = fopen(path, "a");

	if (!f)
		return trouble(path);
	fprintf(f, "%ld %ld\n", u->ru_maxrss,
		usec(u->ru_utime) + usec(u->ru_stime));
	return fclose(f) ? trouble(path) : 0;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	int status, rc;
	pid_t child;

	if (argc < 5) {
		fprintf(stderr, "usage: bounded FILE CPU-SECONDS DATA-MIB "
				"PROGRAM ARGUMENT...\n");
		return TROUBLE;
	}
	child = fork();
	if (child < 0)
		return trouble("fork");
	if (child == 0) {
		limit(RLIMIT_CPU, argv[2], 1);
		limit(RLIMIT_DATA, argv[3], MIB);
		execv(argv[4], argv + 4);
		exit(trouble(argv[4]));
	}
	if (wait4(child, &status, 0, &usage) != child)
		return trouble("wait");
	rc = note(argv[1], &usage);
	if (rc)
		return rc;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
				   : WEXITSTATUS(status);
}
