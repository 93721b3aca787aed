/* SPDX-License-Identifier: MIT */
/*
 * node: what there is in the tree of a mount, by the numbers that the kernel has
 * of it, and which names of it were removed.
 */
#ifndef CKPTFS_FS_NODE_H
#define CKPTFS_FS_NODE_H

#define FUSE_USE_VERSION 314

#include "ckptfs/items.h"
#include <fuse_lowlevel.h>
#include <sys/stat.h>

struct ck_catalog;
struct ck_fs;

enum ck_node_kind {
	CK_NODE_ROOT,
	CK_NODE_CONTROL, /* the directory .ckptfs */
	CK_NODE_REPORT,	 /* a file in it: index in ck_fs_reports */
	CK_NODE_VIEW,	 /* a directory: index in ck_tensor_views */
	CK_NODE_LOCAL,	 /* the directory local */
	CK_NODE_OWNER,	 /* a directory in it: index as in ck_local */
	CK_NODE_OBJECTS, /* the directory objects */
	CK_NODE_TENSOR,	 /* a file in a view */
	CK_NODE_OBJECT,	 /* a file in objects: 0 JSON, 1 the item */
	CK_NODE_BOX,	 /* a file of an owner: index is its chunk */
	CK_NODE_SCRATCH, /* a file of this mount only */
};

struct ck_node {
	enum ck_node_kind kind;
	uint32_t index;	  /* of the report, view, owner or box; which file */
	uint32_t tensor;  /* of a tensor, box or object: index in the catalog;
			   * of a scratch file: its number */
	uint64_t version; /* of a tensor or box: the tensor's */
};

/* False for a number that cannot have been given. */
CK_MUST_USE bool ck_node_find(const struct ck_fs *fs, fuse_ino_t ino,
			      struct ck_node *out);
fuse_ino_t ck_node_number(const struct ck_fs *fs, const struct ck_node *n);
/* The version that the node's tensor has in a catalog; 0 of all else. */
uint64_t ck_node_version_in(const struct ck_catalog *c,
			    const struct ck_node *n);
/* In the present one. */
uint64_t ck_node_version(const struct ck_fs *fs, const struct ck_node *n);
bool ck_node_is_dir(const struct ck_node *n);
/* A file of a tensor or of a box. */
bool ck_node_is_tensor(const struct ck_node *n);
/* A directory of such files. */
bool ck_node_has_tensors(const struct ck_node *n);
/* Its number but for the version: below ck_node_places(). No scratch file. */
uint64_t ck_node_place(const struct ck_fs *fs, const struct ck_node *n);
uint64_t ck_node_places(const struct ck_fs *fs);
/* The kernel asks for its attributes anew. */
void ck_node_forget_attributes(const struct ck_fs *fs, const struct ck_node *n);
/* Whether the file of a tensor or box was removed from this mount. */
CK_MUST_USE bool ck_node_hidden(const struct ck_fs *fs,
				const struct ck_node *n);
void ck_node_hide(struct ck_fs *fs, const struct ck_node *n, bool hidden);
/* Shows one that was hidden and is made again without being opened. It is made
 * until it is begun: what is then written begins with nothing. */
void ck_node_make(struct ck_fs *fs, const struct ck_node *n);
CK_MUST_USE bool ck_node_made(const struct ck_fs *fs, const struct ck_node *n);
void ck_node_begun(struct ck_fs *fs, const struct ck_node *n);
/* The bits for that. -ENOMEM. */
CK_MUST_USE int ck_hidden_make(struct ck_fs *fs);
/* Attributes. size: of a report; unused for all else, and no scratch file. */
void ck_node_stat(const struct ck_fs *fs, const struct ck_node *n,
		  uint64_t size, struct stat *out);
/* The mode that its file has by what is known now of those who may read the bytes
 * that a catalog, the present one or an older one, says. */
mode_t ck_node_mode(const struct ck_fs *fs, const struct ck_catalog *of,
		    const struct ck_node *n);
/* What the bytes of a file come from in a catalog. */
struct ck_items ck_node_items(const struct ck_catalog *c,
			      const struct ck_node *n);
/* Of a file that is read, for a message: the name of the tensor, entry or
 * report. */
const char *ck_node_shown_name(const struct ck_fs *fs, const struct ck_node *n);
/* The name of a tensor, for a line of the log: from the ring of ck_show(). */
const char *ck_tensor_name(const struct ck_fs *fs, uint32_t tensor);

#endif
