/* SPDX-License-Identifier: MIT */
/*
 * host: properties of this machine that mounting depends on: libfuse, and the
 * program that mounts for an ordinary user. No state, no locks.
 */
#include "host.h"
#include "../internal.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

bool ck_host_refuses_allow_other(void)
{
	char line[256], word[32];
	bool found = false;
	FILE *f;

	if (geteuid() == 0)
		return false;
	f = fopen("/etc/fuse.conf", "re");
	if (!f)
		return errno == ENOENT;
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, " %31[^# \t\n]", word) == 1 &&
			strcmp(word, "user_allow_other") == 0;
	fclose(f);
	return !found;
}

bool ck_host_has_fusermount(void)
{
	const char *list = getenv("PATH");
	ck_auto_free char *path = NULL;
	char *rest, *folder;

	if (asprintf(&path, "/usr/bin:/bin:%s", list ? list : "") < 0)
		return true;
	for (folder = strtok_r(path, ":", &rest); folder;
	     folder = strtok_r(NULL, ":", &rest)) {
		ck_auto_free char *name = NULL;

		if (asprintf(&name, "%s/fusermount3", folder) < 0 ||
		    access(name, X_OK) == 0)
			return true;
	}
	return false;
}

static void *end_thread(void *arg)
{
	pthread_exit(arg);
}

void ck_host_load_unwinder(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_thread, NULL) == 0)
		pthread_join(thread, NULL);
}

int ck_fs_version_print(void)
{
	setlinebuf(stdout); /* fusermount3 prints the last line itself */
	printf("libfuse %s\n", fuse_pkgversion());
	fuse_lowlevel_version();
	return fflush(stdout) ? -errno : 0;
}
