/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the index of safetensors files, or as one of three shards that PyTorch's
 * HuggingFaceStorageWriter saved, with its sharding information. The directory is refused
 * with a reason, or each box lies within its tensor, and its bytes within its file.
 *
 * The first byte selects the file; the rest is its content. All other files are those of
 * tests/fixtures.
 */
#include "look_catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WAYS = 2 };

static const struct {
	const char *fixture, *file;
} ways[WAYS] = {
	{ "hub_index", "model.safetensors.index.json" },
	{ "hub_shards", "shard-00001-model-00001-of-00001.safetensors" },
};

static char dirs[WAYS][64];

static void dirs_remove(void)
{
	for (int i = 0; i < WAYS; i++)
		dir_remove(dirs[i]);
}

static void dirs_make(void)
{
	char command[1024];

	for (int i = 0; i < WAYS; i++) {
		dir_make(dirs[i], "hub");
		snprintf(command, sizeof(command),
			 "cp " CK_FIXTURE "/../%s/*.safetensors %s",
			 ways[i].fixture, dirs[i]);
		must(system(command) == 0);
	}
	atexit(dirs_remove);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int way;

	if (size == 0)
		return 0;
	if (!dirs[0][0])
		dirs_make();
	way = data[0] % WAYS;
	put_bytes(dirs[way], ways[way].file, data + 1, size - 1);
	open_and_look(dirs[way], OWN_SIZE);
	return 0;
}
