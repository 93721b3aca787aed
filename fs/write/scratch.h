/* SPDX-License-Identifier: MIT */
/*
 * scratch: files that are not tensors, in directories of tensors or boxes. They
 * exist until the end of the mount, and are identified by numbers.
 */
#ifndef CKPTFS_SCRATCH_H
#define CKPTFS_SCRATCH_H

#include "ckptfs/base.h"
#include <sys/stat.h>

struct ck_fs;
struct ck_node;
struct ck_scratch; /* exists while it has a name or is open */

/* NULL if memory is exhausted */
struct ck_scratches *ck_scratches_make(void);
void ck_scratches_free(struct ck_scratches *all);
/* Disk space of all scratch files, in bytes. */
uint64_t ck_scratches_bytes(struct ck_fs *fs);
/* Checks that a new file may have this name in a directory of tensors or boxes.
 * Returns 0, or: -EPERM, which is explained in the log; -ENAMETOOLONG. */
CK_MUST_USE int ck_scratch_name_check(struct ck_fs *fs,
				      const struct ck_node *dir,
				      const char *name);
/* Creates a file with a name that is free. Returns 0, or: -ENFILE if there are
 * too many; -ENOMEM; errors of open(2). */
CK_MUST_USE int ck_scratch_create(struct ck_fs *fs, const struct ck_node *dir,
				  const char *name, const struct stat *attr,
				  uint32_t *number);
CK_MUST_USE int ck_scratch_find(const struct ck_fs *fs,
				const struct ck_node *dir, const char *name,
				uint32_t *number);
/* Finds the scratch file with the lowest number, not below *number, that has a
 * name in the directory. Appends that name and sets *number. Returns false if there is
 * no such file. */
CK_MUST_USE bool ck_scratch_next(const struct ck_fs *fs,
				 const struct ck_node *dir, uint64_t *number,
				 struct ck_buf *name);
/* -ESTALE if it was deleted. */
CK_MUST_USE int ck_scratch_stat(const struct ck_fs *fs, uint32_t number,
				struct stat *out);
CK_MUST_USE int ck_scratch_setattr(struct ck_fs *fs, uint32_t number,
				   const struct stat *attr, int to_set);
/* Adds a reference. NULL if it was deleted. */
struct ck_scratch *ck_scratch_hold(struct ck_fs *fs, uint32_t number);
void ck_scratch_drop(struct ck_fs *fs, struct ck_scratch *s);
/* Reads up to *len bytes; sets *len to the number of bytes read. */
CK_MUST_USE int ck_scratch_read(struct ck_scratch *s, uint64_t fpos,
				size_t *len, void *bytes);
/* Writes by `thread`; 0 is a thread that cannot be identified. Returns 0, or:
 * -ESTALE if the file has become a tensor; -ENOSPC if it has more than 2^20
 * separate ranges; errors of pwrite(2). */
CK_MUST_USE int ck_scratch_write(struct ck_fs *fs, struct ck_scratch *s,
				 uint64_t fpos, const void *bytes, size_t len,
				 pid_t thread);
/* Allocates disk blocks of [fpos, fpos + len), as fallocate(2) does. mode: 0, or
 * FALLOC_FL_KEEP_SIZE. Allocated bytes that were not written stay missing.
 * Returns 0, or: -ESTALE as above; errors of fallocate(2). */
CK_MUST_USE int ck_scratch_allocate(struct ck_fs *fs, struct ck_scratch *s,
				    int mode, uint64_t fpos, uint64_t len);
/* At each close(2) by this thread; 0: the thread ended with the file open. */
void ck_scratch_closed_by(struct ck_scratch *s, pid_t thread);
/* At each fsync(2). */
void ck_scratch_synced(struct ck_scratch *s);
/* At a close, and after a rename: logs once that the file is not a tensor, if
 * it holds bytes. */
void ck_scratch_warn(struct ck_fs *fs, struct ck_scratch *s);
/* True if the thread wrote a scratch file with the bytes of this regular file, so that its
 * removal would leave a copy that the end of the mount drops. Compares size and the first
 * 64 KiB. Appends the path of the scratch file. */
CK_MUST_USE bool ck_scratch_is_copy(struct ck_fs *fs, pid_t thread, int dirfd,
				    const char *name, off_t size,
				    struct ck_buf *path);
/* Appends lines of `status`: the number of files that hold bytes, and their
 * names. */
void ck_scratches_status(struct ck_fs *fs, struct ck_buf *out);
/* Appends a sentence for each of those files. */
void ck_scratches_print(struct ck_fs *fs, struct ck_buf *out);
/* Logs the names of those files when the mount ends. */
void ck_scratches_dropped(struct ck_fs *fs);
/* Removes the name, which is free then. */
void ck_scratch_remove(struct ck_fs *fs, uint32_t number);
/* Renames the file to a name that is free. -ENOMEM. */
CK_MUST_USE int ck_scratch_move(struct ck_fs *fs, uint32_t number,
				const struct ck_node *dir, const char *name);
/* Replaces a tensor or box with the bytes of the file. Ranges that were never
 * written are missing in the tensor as well, by the same rules. Returns 0, or:
 * -EBUSY if the tensor has a writer; -EINVAL if bytes are missing; other errors
 * of writing and closing such a file. */
CK_MUST_USE int ck_scratch_commit(struct ck_fs *fs, struct ck_scratch *s,
				  const struct ck_node *n);

#endif
