/* SPDX-License-Identifier: MIT */
/*
 * node: nodes of a mount, by inode number. These are the nodes of the tree, and
 * scratch files, which have numbers that the tree never uses.
 */
#ifndef CKPTFS_NODE_H
#define CKPTFS_NODE_H

#define FUSE_USE_VERSION 314

#include "ckptfs/tree.h"
#include <fuse_lowlevel.h>
#include <sys/stat.h>

struct ck_fs;

/* Makes the tree of the checkpoint, with the views that options ask for; d explains an
 * error. status: as of ck_tree_options, its arg is fs. Must be freed in any case. */
CK_MUST_USE int ck_nodes_make(struct ck_fs *fs,
			      void (*status)(void *arg, struct ck_root *of,
					     struct ck_buf *out),
			      struct ck_diag *d);
void ck_nodes_free(struct ck_fs *fs);
/* The node of an inode number that the kernel has. -ESTALE if the number is not
 * in use any more. */
CK_MUST_USE int ck_node_find(const struct ck_fs *fs, fuse_ino_t ino,
			     struct ck_node *out);
/* The node of a scratch file. */
struct ck_node ck_node_of_scratch(uint32_t number);
bool ck_node_is_scratch(const struct ck_node *n);
/* The number of a scratch file, see scratch.h. */
uint32_t ck_node_scratch(const struct ck_node *n);
bool ck_node_is_dir(const struct ck_node *n);
/* True for files that can be written: tensors and boxes. */
bool ck_node_accepts(const struct ck_node *n);
/* True for those, and for other files that a commit replaces. */
bool ck_node_is_of_tensors(const struct ck_node *n);
/* True for files about the checkpoint that contain no bytes of tensors. */
bool ck_node_is_report(const struct ck_node *n);
/* True for directories of writable files. They may contain scratch files, too. */
bool ck_node_takes_files(const struct ck_node *n);
/* Makes the kernel request the attributes of an inode again. */
void ck_node_forget_attributes(const struct ck_fs *fs, uint64_t number);
/* The same for all directories, and for nodes with the time of the checkpoint. */
void ck_nodes_forget_attributes(const struct ck_fs *fs);

/* st_blocks of a file of that size. Tools such as `tar -S` take a file without
 * blocks for one of zeros, and do not read it. */
static inline blkcnt_t ck_blocks_of(uint64_t size)
{
	return (blkcnt_t)(size / 512 + (size % 512 != 0));
}

/* Attributes of a node. Transient errors of making it; -ESTALE for a scratch
 * file that was deleted. */
CK_MUST_USE int ck_node_stat(const struct ck_fs *fs, const struct ck_node *n,
			     struct stat *out);
/* The same for a node of the tree with known attributes. */
void ck_node_stat_fill(const struct ck_fs *fs, const struct ck_node *n,
		       const struct ck_node_stat *known, struct stat *out);
/* Name of the tensor, entry or report of an open file, for a message. */
const char *ck_node_shown_name(const struct ck_fs *fs, const struct ck_node *n);
/* Name of a tensor, for a message. The text is in the ring of ck_show(). */
const char *ck_tensor_name(const struct ck_fs *fs, uint32_t tensor);
/* Present version of a tensor. */
uint64_t ck_tensor_version(const struct ck_fs *fs, uint32_t tensor);

/* --- whiteout.c: removed names -------------------------------------------- */

/* NULL if memory is exhausted */
struct ck_whiteouts *ck_whiteouts_make(void);
void ck_whiteouts_free(struct ck_whiteouts *h); /* NULL is allowed */
/* True if the file was removed in this mount. */
CK_MUST_USE bool ck_whiteout_has(const struct ck_fs *fs,
				 const struct ck_node *n);
/* Removes the file in this mount. -ENOMEM. */
CK_MUST_USE int ck_whiteout_add(struct ck_fs *fs, const struct ck_node *n);
void ck_whiteout_remove(struct ck_fs *fs, const struct ck_node *n);
/* Shows a removed file again, where it is created without being opened. It is
 * recreated until the next open for writing: the written bytes then replace all
 * of it. */
void ck_whiteout_recreate(struct ck_fs *fs, const struct ck_node *n);
CK_MUST_USE bool ck_whiteout_is_recreated(const struct ck_fs *fs,
					  const struct ck_node *n);
void ck_whiteout_opened(struct ck_fs *fs, const struct ck_node *n);

/* The root and the checkpoint of a node. In a run directory they are those of a
 * step. */
struct ck_root *ck_node_root(const struct ck_fs *fs, const struct ck_node *n);
struct ck_checkpoint *ck_node_checkpoint(const struct ck_fs *fs,
					 const struct ck_node *n);

#endif
