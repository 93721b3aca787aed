/* SPDX-License-Identifier: MIT */
/*
 * node: what there is in a mount: the nodes of its tree, and scratch files, which have
 * numbers that the tree never gives; and which names were removed.
 */
#ifndef CKPTFS_FS_NODE_H
#define CKPTFS_FS_NODE_H

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
/* A node that the kernel has. -ESTALE: there is none of this number any more. */
CK_MUST_USE int ck_node_find(const struct ck_fs *fs, fuse_ino_t ino,
			     struct ck_node *out);
/* A scratch file. */
struct ck_node ck_node_of_scratch(uint32_t number);
bool ck_node_is_scratch(const struct ck_node *n);
/* Its number, as scratch.h has it. */
uint32_t ck_node_scratch(const struct ck_node *n);
bool ck_node_is_dir(const struct ck_node *n);
/* A file into which a program may write what becomes part of the checkpoint. */
bool ck_node_accepts(const struct ck_node *n);
/* Such a one, or another file of which a commit makes another one. */
bool ck_node_is_of_tensors(const struct ck_node *n);
/* What it has is said of the checkpoint, and none of its bytes. */
bool ck_node_is_report(const struct ck_node *n);
/* A directory of such files, in which there may be scratch files, too. */
bool ck_node_takes_files(const struct ck_node *n);
/* The kernel asks for the attributes of an inode anew. */
void ck_node_forget_attributes(const struct ck_fs *fs, uint64_t number);
/* The same of all directories, and of what has the time of the checkpoint. */
void ck_nodes_forget_attributes(const struct ck_fs *fs);

/* st_blocks of a file of that size. Tools such as `tar -S` take a file of no blocks for
 * one of zeros, and do not read it. */
static inline blkcnt_t ck_blocks_of(uint64_t size)
{
	return (blkcnt_t)(size / 512 + (size % 512 != 0));
}

/* Attributes. Errors of the moment of what is made; -ESTALE of a scratch file that is
 * gone. */
CK_MUST_USE int ck_node_stat(const struct ck_fs *fs, const struct ck_node *n,
			     struct stat *out);
/* The same of a node of the tree, of which this is known. */
void ck_node_stat_fill(const struct ck_fs *fs, const struct ck_node *n,
		       const struct ck_node_stat *known, struct stat *out);
/* Of a file that is read, for a message: the name of the tensor, entry or
 * report. */
const char *ck_node_shown_name(const struct ck_fs *fs, const struct ck_node *n);
/* The name of a tensor, for a line of the log: from the ring of ck_show(). */
const char *ck_tensor_name(const struct ck_fs *fs, uint32_t tensor);
/* Its present version. */
uint64_t ck_tensor_version(const struct ck_fs *fs, uint32_t tensor);

/* --- whiteout.c: names that were removed ------------------------------------------ */

struct ck_whiteouts *ck_whiteouts_make(void);	/* NULL: out of memory */
void ck_whiteouts_free(struct ck_whiteouts *h); /* NULL is allowed */
/* Whether the file was removed from this mount. */
CK_MUST_USE bool ck_whiteout_has(const struct ck_fs *fs,
				 const struct ck_node *n);
/* -ENOMEM. */
CK_MUST_USE int ck_whiteout_add(struct ck_fs *fs, const struct ck_node *n);
void ck_whiteout_remove(struct ck_fs *fs, const struct ck_node *n);
/* Shows one that was hidden and is made again without being opened. It is made
 * until it is begun: what is then written begins with nothing. */
void ck_whiteout_recreate(struct ck_fs *fs, const struct ck_node *n);
CK_MUST_USE bool ck_whiteout_is_recreated(const struct ck_fs *fs,
					  const struct ck_node *n);
void ck_whiteout_opened(struct ck_fs *fs, const struct ck_node *n);

/* The checkpoint that a node is of, and its root: in a run directory a step's. */
struct ck_root *ck_node_root(const struct ck_fs *fs, const struct ck_node *n);
struct ck_checkpoint *ck_node_checkpoint(const struct ck_fs *fs,
					 const struct ck_node *n);

#endif
