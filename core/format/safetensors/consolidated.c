/* SPDX-License-Identifier: MIT */
/*
 * consolidated: a directory of HuggingFaceStorageWriter of PyTorch, which joined the
 * shards in sharded/ below it. The writer writes zeros for each tensor without
 * dimensions (PyTorch 2.8 to 2.13,
 * torch/distributed/checkpoint/_consolidate_hf_safetensors.py,
 * _write_sub_tensor_to_file_optimized). Runs once, when a checkpoint is loaded.
 */
#include "safetensors_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define SHARDED "sharded"

enum {
	READ_MOST = 1000, /* tensors that are read */
	NAMES = 4,	  /* shown */
	VALUE_MOST = 16,  /* bytes of one element */
};

static bool has_shards(const struct ck_checkpoint *cp)
{
	struct stat st;

	return !cp->file && !cp->elsewhere &&
	       fstatat(cp->dirfd, SHARDED, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

/* True if an element is 0. False if its file cannot be read, which reading the tensor
 * will report. */
static bool is_zero(struct ck_checkpoint *cp, const struct ck_item *item)
{
	static const char zeros[VALUE_MOST];
	char value[VALUE_MOST];
	size_t len = (size_t)item->length;
	struct ck_file file;
	int rc;

	if (item->err || len > VALUE_MOST ||
	    ck_files_get(cp->files, item->file, &file))
		return false;
	rc = ck_files_read(cp->files, &file, value, len, item->fpos,
			   item->fpos + len);
	ck_files_put(cp->files, &file);
	return rc == 0 && memcmp(value, zeros, len) == 0;
}

/* Returns the number of zeros among the first READ_MOST tensors. */
static size_t zeros_find(const struct ck_safetensors_load *l,
			 struct ck_buf *names)
{
	size_t zeros = 0, read = 0;

	for (uint32_t i = 0; i < l->c->tensors.n && read < READ_MOST; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(l->c, i);

		if (t->ndim > 0 || t->nchunks != 1)
			continue;
		read++;
		if (!is_zero(l->cp, ck_catalog_item(l->c, t->chunk)))
			continue;
		if (zeros < NAMES) {
			ck_buf_text(names, zeros ? ", " : "");
			ck_buf_escaped(names, t->entry.key);
		}
		zeros++;
	}
	return zeros;
}

int ck_consolidated_note(const struct ck_safetensors_load *l)
{
	struct ck_buf names = { 0 }, line = { 0 };
	size_t zeros = has_shards(l->cp) ? zeros_find(l, &names) : 0;
	int rc = 0;

	if (zeros) {
		ck_buf_printf(&line,
			      "tensors without dimensions that are 0: %zu (",
			      zeros);
		ck_buf_add(&line, names.data, names.len);
		ck_buf_text(&line, zeros > NAMES ? ", ...)" : ")");
		ck_buf_text(&line, "; PyTorch's consolidation writes 0 for all "
				   "of them: compare with a mount of " SHARDED);
		rc = line.err || names.err
			     ? -ENOMEM
			     : ck_catalog_doubt_add(l->c, line.data);
	}
	ck_buf_fini(&line);
	ck_buf_fini(&names);
	return rc;
}
