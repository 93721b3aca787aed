/* SPDX-License-Identifier: MIT */
/*
 * corpus_main: runs a fuzz target once over each file of a directory, without libFuzzer, so that
 * every build replays the seeds and all former faults. Prints TAP. The name is printed before
 * the run, so that a crash can be assigned to its file.
 */
#include "tap.h"
#include <dirent.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *bytes = NULL;
	size_t len = 0, room = 0, got;

	if (!f)
		return false;
	do {
		room += 65536;
		bytes = realloc(bytes, room);
		if (!bytes)
			abort();
		got = fread(bytes + len, 1, room - len, f);
		len += got;
	} while (got == 65536);
	fclose(f);
	/* A block of the exact size, so that ASan detects a read beyond it. */
	bytes = realloc(bytes, len ? len : 1);
	if (!bytes)
		abort();
	LLVMFuzzerTestOneInput((uint8_t *)bytes, len);
	free(bytes);
	return true;
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	const struct dirent *entry;
	char path[1024];

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		printf("# %s\n", entry->d_name);
		fflush(stdout);
		tap_result(run_file(path), __FILE__, __LINE__, entry->d_name);
	}
	if (dir)
		closedir(dir);
	ok(tap_count > 0);
	return tap_done();
}
