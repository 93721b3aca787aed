/* SPDX-License-Identifier: MIT */
/*
 * tckpt: any bytes as the metadata.pkl of torch_checkpointing, beside the files of two ranks. The
 * checkpoint is refused with a reason, or all boxes lie in their tensors, and all bytes in their
 * files. With the first byte '{', '[' or '"' the input is the file of an item in JSON.
 */
#include "format/torch_checkpointing/tckpt_internal.h"
#include "look_catalog.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILES CK_FIXTURE "/../items_2"

static char dir[64];
static uint8_t metadata[1 << 16];
static size_t metadata_len;

static void files_remove(void)
{
	dir_remove(dir);
}

static void files_make(void)
{
	char command[1024];
	int fd = open(FILES "/metadata.pkl", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, metadata, sizeof(metadata));

	must(n > 0);
	close(fd);
	metadata_len = (size_t)n;
	dir_make(dir, "tckpt");
	(void)snprintf(command, sizeof(command), "cp -r %s/. %s", FILES, dir);
	must(system(command) == 0);
	atexit(files_remove);
}

/* Reads metadata.pkl alone, which is much faster than a checkpoint. False if it is refused. */
static bool is_accepted(const uint8_t *data, size_t size)
{
	struct ck_tckpt_metadata m = { 0 };
	struct ck_diag d = { 0 };
	int rc = ck_tckpt_metadata_read(
		&m, (struct ck_str){ (const char *)data, size }, &d);

	must(rc == 0 || rc == -EBADMSG);
	must(rc == 0 || *d.text);
	for (size_t i = 0; i < m.npaths && rc == 0; i++)
		must(m.paths[i].path.nparts > 0 &&
		     ck_tckpt_path_find(&m, &m.paths[i].path) == &m.paths[i]);
	ck_tckpt_metadata_fini(&m);
	return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool is_json = size > 0 && strchr("{[\"", data[0]) && data[0];

	if (!is_json && !is_accepted(data, size))
		return 0;
	if (!*dir)
		files_make();
	if (is_json)
		put_bytes(dir, "config_0.json", data, size);
	put_bytes(dir, "metadata.pkl", is_json ? metadata : data,
		  is_json ? metadata_len : size);
	open_and_look(dir, OWN_SIZE);
	return 0;
}
