/* SPDX-License-Identifier: MIT */
/*
 * shards: .ckptfs/shards/ has the shard map of each tensor, <stem>.svg. A map depends on the
 * catalog alone, and a commit changes none: it is printed for each size and each open, and not
 * kept. An entry is the number of a tensor. No state; any thread.
 */
#include "report/shard_map.h"
#include "tree/tree_internal.h"

#include <errno.h>

static bool is_shown(const struct ck_catalog *c, uint64_t tensor)
{
	return ck_tensor_is_whole(c, tensor);
}

/* Names of the files, as in full/ and raw/. */
static const struct ck_tensor_view names = { .suffix = ".svg",
					     .is_shown = is_shown };

static int shards_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
			 struct ck_str name, struct ck_child *out)
{
	(void)dir;
	*out = (struct ck_child){ .type = CK_TYPE_FILE };
	return ck_tensor_view_lookup(&names, c, name, &out->entry);
}

static int shards_next(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint64_t *at, struct ck_child *out)
{
	(void)dir;
	while (*at < c->tensors.n && !is_shown(c, *at))
		++*at;
	if (*at >= c->tensors.n)
		return -ENOENT;
	*out = (struct ck_child){ .type = CK_TYPE_FILE,
				  .entry = (uint32_t)*at };
	return 0;
}

static void shards_name(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, struct ck_buf *out)
{
	(void)dir;
	ck_tensor_view_name(&names, c, entry, out);
}

static int shards_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t entry, struct ck_file_content *out)
{
	(void)dir;
	if (!is_shown(c, entry))
		return -ENOENT;
	*out = (struct ck_file_content){ .topic = CK_FILE_KIND_CHECKPOINT,
					 .made = true };
	return 0;
}

static int shards_size(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t entry, uint64_t *size)
{
	struct ck_buf text = { 0 };
	int rc;

	(void)dir;
	ck_shard_map_print(c, entry, &text);
	*size = text.len;
	rc = text.err;
	ck_buf_fini(&text);
	return rc;
}

static int shards_slice(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, struct ck_slice **out)
{
	struct ck_buf text = { 0 };
	struct ck_snapshot *map;

	(void)dir;
	if (!is_shown(c, entry))
		return -ENOENT;
	ck_shard_map_print(c, entry, &text);
	map = text.err ? NULL : ck_snapshot_make(&text);
	ck_buf_fini(&text);
	return map ? ck_snapshot_slice(map, out) : -ENOMEM;
}

const struct ck_view ck_view_shards = {
	.top = "shards",
	.lookup = shards_lookup,
	.next = shards_next,
	.name = shards_name,
	.stat = shards_stat,
	.size = shards_size,
	.slice = shards_slice,
};
