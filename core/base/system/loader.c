/* SPDX-License-Identifier: MIT */
/*
 * loader: predicts whether the dynamic loader finds a library, from its cache
 * and its directories, without loading the library. No state; any thread.
 */
#include "component.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Searches the loader's cache file for a string: a name may be the end of a
 * longer string. */
static bool is_in(FILE *cache, const char *library)
{
	struct stat st;
	bool found;
	void *all;

	if (fstat(fileno(cache), &st) || st.st_size <= 0)
		return true;
	all = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE,
		   fileno(cache), 0);
	if (all == MAP_FAILED)
		return true;
	found = memmem(all, (size_t)st.st_size, library, strlen(library) + 1) !=
		NULL;
	(void)munmap(all, (size_t)st.st_size);
	return found;
}

static bool is_in_cache(const char *library)
{
	FILE *cache = fopen("/etc/ld.so.cache", "re");
	bool found;

	if (!cache)
		return errno != ENOENT;
	found = is_in(cache, library);
	(void)fclose(cache);
	return found;
}

static bool is_in_directory(const char *name, const char *library)
{
	char path[1024];
	int n = snprintf(path, sizeof(path), "%s/%s", name, library);

	return n < 0 || (size_t)n >= sizeof(path) || access(path, F_OK) == 0;
}

/* True if a directory that the loader searches for this program has the file,
 * or if the directories cannot be determined. */
static bool is_in_directories(const char *library)
{
	void *program = dlopen(NULL, RTLD_LAZY);
	ck_auto_free Dl_serinfo *all = NULL;
	bool found = true;
	Dl_serinfo size;

	if (program && dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0)
		all = calloc(1, size.dls_size);
	if (all && dlinfo(program, RTLD_DI_SERINFOSIZE, all) == 0 &&
	    dlinfo(program, RTLD_DI_SERINFO, all) == 0) {
		found = false;
		for (unsigned i = 0; i < all->dls_cnt && !found; i++)
			found = is_in_directory(all->dls_serpath[i].dls_name,
						library);
	}
	if (program)
		(void)dlclose(program);
	return found;
}

bool ck_loader_may_find(const char *library)
{
	static const char *const names[] = { "LD_LIBRARY_PATH", "LD_PRELOAD",
					     "LD_AUDIT" };

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return true;
	}
	return is_in_cache(library) || is_in_directories(library);
}
