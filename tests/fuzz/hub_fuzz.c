/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the index of safetensors files, or as one of three shards that PyTorch's
 * HuggingFaceStorageWriter saved, with its sharding information. The directory is refused
 * with a reason, or each box lies within its tensor, and its bytes within its file.
 *
 * The first byte selects the file; the rest is its content. All other files are those of
 * tests/fixtures.
 */
#include "ckptfs/format.h"
#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
	char command[256];

	for (int i = 0; i < WAYS; i++) {
		snprintf(command, sizeof(command), "rm -rf %s", dirs[i]);
		must(system(command) == 0);
	}
}

static void dirs_make(void)
{
	char command[1024];

	for (int i = 0; i < WAYS; i++) {
		snprintf(dirs[i], sizeof(dirs[i]), "%s/ckptfs-hub-XXXXXX",
			 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
		must(mkdtemp(dirs[i]));
		snprintf(command, sizeof(command),
			 "cp " CK_FIXTURE "/../%s/*.safetensors %s",
			 ways[i].fixture, dirs[i]);
		must(system(command) == 0);
	}
	atexit(dirs_remove);
}

static void put(int way, const uint8_t *bytes, size_t len)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dirs[way], ways[way].file);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(fd >= 0 && ck_write_full(fd, bytes, len) == 0);
	close(fd);
}

/* A tensor that can be read has its boxes in the tensor. */
static void look_at_boxes(const struct ck_tensor *t)
{
	for (uint32_t b = 0; b < t->nchunks && !t->err; b++) {
		const int64_t *at = ck_tensor_box(t, b);

		for (uint32_t d = 0; d < t->ndim; d++)
			must(at[d] >= 0 && at[t->ndim + d] >= 0 &&
			     at[d] <= t->shape[d] &&
			     at[t->ndim + d] <= t->shape[d] - at[d]);
	}
}

static void look_at_item(const struct ck_catalog *c, const struct ck_item *item)
{
	uint64_t size;

	if (item->file == CK_NO_FILE || item->err || item->length == 0)
		return;
	size = ck_catalog_file(c, item->file)->size;
	must(item->fpos <= size && item->length <= size - item->fpos);
}

static void look(const struct ck_catalog *c)
{
	struct ck_buf text = { 0 };

	for (uint32_t i = 0; i < c->tensors.n; i++)
		look_at_boxes(ck_catalog_tensor(c, i));
	for (uint32_t i = 0; i < c->chunks.n; i++)
		look_at_item(c, ck_catalog_item(c, i));
	for (uint32_t i = 0; i < c->nlosses; i++)
		must(c->losses[i].err && c->losses[i].what.len);
	ck_catalog_dump(c, &text);
	ck_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };
	int way;

	if (size == 0)
		return 0;
	if (!dirs[0][0])
		dirs_make();
	way = data[0] % WAYS;
	put(way, data + 1, size - 1);
	if (ck_checkpoint_open(dirs[way], &options, &cp, &d))
		must(*d.text);
	else
		look(cp->catalog);
	ck_checkpoint_close(cp);
	return 0;
}
