/* SPDX-License-Identifier: MIT */
/*
 * file_reader: the bytes of one version of a file of the tree. It is used by open files
 * (handle.c) and by commits that read the tensor that they replace (patch.c).
 *
 * States: initialised (the node is in use); pinned (the catalog cannot be replaced);
 * open (bytes can be read). A commit does not change the bytes of an open reader.
 *
 * Any number of threads may read at a time.
 */
#include "file_reader.h"
#include "internal.h"
#include <errno.h>

/* The mode of the file, as far as its data files are known now. */
static mode_t reader_mode(const struct ck_file_reader *r)
{
	struct ck_node_stat known;

	ck_tree_rights(r->file.catalog, &r->file.node, &known);
	return known.mode;
}

/* Identifies a catalog and its access rights; never 0. */
static uint64_t checked_as(const struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	return ((c->generation + 1) << 32) + ck_checkpoint_access(cp);
}

/* -ESTALE: a data file was opened only now, and its mode restricts that of the
 * file. */
static int located(struct ck_tree_file *f)
{
	struct ck_file_reader *r = (struct ck_file_reader *)f;
	uint64_t known = checked_as(ck_node_checkpoint(r->fs, &f->node));

	/* A file of many tensors comes here for each of them. */
	if (atomic_load(&r->checked) == known)
		return 0;
	if (reader_mode(r) != r->shown)
		return -ESTALE;
	atomic_store(&r->checked, known);
	return 0;
}

void ck_file_reader_init(struct ck_file_reader *r, struct ck_fs *fs,
			 const struct ck_node *n)
{
	r->file.node = *n;
	r->file.located = located;
	r->fs = fs;
	if (!ck_node_is_scratch(n))
		ck_tree_hold(fs->tree, n->number);
}

void ck_file_reader_fini(struct ck_file_reader *r)
{
	ck_tree_file_close(&r->file);
	if (!ck_node_is_scratch(&r->file.node))
		ck_tree_forget(r->fs->tree, r->file.node.number, 1);
}

int ck_file_reader_pin(struct ck_file_reader *r)
{
	return ck_tree_pin(r->fs->tree, &r->file.node, &r->file.catalog);
}

int ck_file_reader_open(struct ck_file_reader *r)
{
	r->shown = reader_mode(r);
	return ck_tree_file_open(&r->file);
}

int ck_file_reader_read(struct ck_file_reader *r, uint64_t vpos, size_t len,
			void *to)
{
	struct ck_read read = {
		.from = r->file.opened, .vpos = vpos, .len = len, .to = to
	};

	if (r->file.err)
		return -r->file.err;
	ck_ahead_note(r->fs->ahead, &r->stream, &read);
	return ck_io_read(&r->fs->route, &read);
}
