/* SPDX-License-Identifier: MIT */
/*
 * area: files/, the directory of the checkpoint in place, with all of its files. Nodes of
 * files/ are outside of the tree: their numbers begin at CK_AREA_FIRST, and requests for
 * them have handlers of their own.
 *
 * Each request that touches the source is queued for threads of files/ alone, so that a
 * source that does not answer delays no other request of the mount.
 */
#ifndef CKPTFS_AREA_H
#define CKPTFS_AREA_H

#define FUSE_USE_VERSION 314

#include "ckptfs/tree.h"
#include <fuse_lowlevel.h>
#include <sys/stat.h>

/* Name of the directory in the root of a checkpoint or run directory. */
#define CK_AREA_NAME "files"

/* Numbers of inodes in files/ begin here, behind those of scratch files. */
#define CK_AREA_FIRST (CK_TREE_FOREIGN + (UINT64_C(1) << 32))

/* st_ino of a file in files/: the number in the source with this bit, which no other
 * number of a mount has. */
#define CK_AREA_INO (UINT64_C(1) << 63)

struct ck_area;
struct ck_fs;
struct ck_node;

static inline bool ck_area_has(fuse_ino_t number)
{
	return number >= CK_AREA_FIRST;
}

/* True if the source of the mount is a directory of this host and `views` has files/. */
CK_MUST_USE bool ck_area_is_wanted(const struct ck_fs *fs);
/* Sets fs->area, if it is wanted; with fs->creator it is writable. Returns 0, or: -ENOMEM;
 * errors of open(2). */
CK_MUST_USE int ck_area_make(struct ck_fs *fs);
/* Ends the threads. Queued requests are answered with ECONNABORTED. NULL is allowed. */
void ck_area_stop(struct ck_area *a);
/* Stops it, and closes all open files. NULL is allowed. */
void ck_area_free(struct ck_area *a);

/* True if files/ is an entry of the directory `dir` of the tree: the root of a checkpoint
 * or run directory, where no step has that name. Sets *ino to its st_ino. */
CK_MUST_USE bool ck_area_is_in(const struct ck_fs *fs,
			       const struct ck_node *dir, uint64_t *ino);
/* The entry of files/ in such a directory, with one more use. Touches no file. Returns 0,
 * or -ENOMEM. */
CK_MUST_USE int ck_area_entry(const struct ck_fs *fs, const struct ck_node *dir,
			      struct fuse_entry_param *out);
/* Drops uses of nodes; those of other nodes are skipped. */
void ck_area_forget_all(struct ck_area *a, size_t count,
			const struct fuse_forget_data *all);

CK_MUST_USE bool ck_area_is_writable(const struct ck_fs *fs);

/* The handlers of requests for nodes of files/. */
struct fuse_lowlevel_ops ck_area_ops(const struct ck_fs *fs);

/* Appends the line of `status`, of the mount or of a step of its run directory. */
void ck_area_status(struct ck_area *a, bool of_step, struct ck_buf *out);

#endif
