/* SPDX-License-Identifier: MIT */
/*
 * node_kind: properties of a node that follow from its number and from its view alone,
 * without a look at the tree, the catalog or the list of scratch files.
 *
 * Inode numbers: those below CK_TREE_FOREIGN belong to the tree of the checkpoint, and
 * CK_TREE_FOREIGN + n is scratch file n. Nodes of files/ follow, from CK_AREA_FIRST on, and
 * have no struct ck_node. No state, no locks.
 */
#include "internal.h"

struct ck_node ck_node_of_scratch(uint32_t number)
{
	return (struct ck_node){ .number = CK_TREE_FOREIGN + number };
}

bool ck_node_is_scratch(const struct ck_node *n)
{
	return n->number >= CK_TREE_FOREIGN;
}

uint32_t ck_node_scratch(const struct ck_node *n)
{
	return (uint32_t)(n->number - CK_TREE_FOREIGN);
}

bool ck_node_is_dir(const struct ck_node *n)
{
	return n->about.type == CK_TYPE_DIR;
}

bool ck_node_accepts(const struct ck_node *n)
{
	return n->about.accepts != CK_ACCEPTS_NOTHING;
}

bool ck_node_is_of_tensors(const struct ck_node *n)
{
	switch (n->about.topic) {
	case CK_FILE_KIND_TENSOR:
	case CK_FILE_KIND_BOX:
	case CK_FILE_KIND_PART:
	case CK_FILE_KIND_MANY: return true;
	default: return ck_node_accepts(n);
	}
}

bool ck_node_is_report(const struct ck_node *n)
{
	return n->about.topic == CK_FILE_KIND_CHECKPOINT;
}

bool ck_node_takes_files(const struct ck_node *n)
{
	return ck_node_is_dir(n) && n->dir.suffix;
}

struct ck_root *ck_node_root(const struct ck_fs *fs, const struct ck_node *n)
{
	return n->dir.root ? n->dir.root : fs->root;
}

struct ck_checkpoint *ck_node_checkpoint(const struct ck_fs *fs,
					 const struct ck_node *n)
{
	return n->dir.root ? ck_root_checkpoint(n->dir.root) : fs->cp;
}
