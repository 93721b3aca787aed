/* SPDX-License-Identifier: MIT */
/*
 * scratch: files that are no tensors, for the time of the mount. They have
 * numbers, and names in the directories that have files of tensors or boxes.
 */
#ifndef CKPTFS_FS_SCRATCH_H
#define CKPTFS_FS_SCRATCH_H

#include "ckptfs/base.h"
#include <sys/stat.h>

struct ck_fs;
struct ck_node;
struct ck_scratch; /* there as long as it has a name, or is open */

struct ck_scratches *ck_scratches_make(void); /* NULL: out of memory */
void ck_scratches_free(struct ck_scratches *all);
/* What they take of the disk. */
uint64_t ck_scratches_bytes(struct ck_fs *fs);
/* Whether a new file may have this name in a directory of files of tensors or
 * boxes. -EPERM (why goes into the log), -ENAMETOOLONG. */
CK_MUST_USE int ck_scratch_name_check(struct ck_fs *fs,
				      const struct ck_node *dir,
				      const char *name);
/* A new file with a name that is free. -ENFILE: too many; -ENOMEM, errors of
 * open(2). */
CK_MUST_USE int ck_scratch_create(struct ck_fs *fs, const struct ck_node *dir,
				  const char *name, const struct stat *attr,
				  uint32_t *number);
CK_MUST_USE int ck_scratch_find(const struct ck_fs *fs,
				const struct ck_node *dir, const char *name,
				uint32_t *number);
/* The scratch file with the lowest number, not below *number, that has a
 * name in the directory; appends that name. */
CK_MUST_USE bool ck_scratch_next(const struct ck_fs *fs,
				 const struct ck_node *dir, uint64_t *number,
				 struct ck_buf *name);
/* -ESTALE: it is gone. */
CK_MUST_USE int ck_scratch_stat(const struct ck_fs *fs, uint32_t number,
				struct stat *out);
CK_MUST_USE int ck_scratch_setattr(struct ck_fs *fs, uint32_t number,
				   const struct stat *attr, int to_set);
/* With a reference; NULL: it is gone. */
struct ck_scratch *ck_scratch_hold(struct ck_fs *fs, uint32_t number);
void ck_scratch_drop(struct ck_fs *fs, struct ck_scratch *s);
/* Reads up to *len bytes; *len becomes how many there are. */
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
/* At each close(2) of it, by this thread; 0: the thread ended with the file open. */
void ck_scratch_closed_by(struct ck_scratch *s, pid_t thread);
/* At each fsync(2) of it. */
void ck_scratch_synced(struct ck_scratch *s);
/* At a close of its open files, and when it got another name: if it holds bytes,
 * the log says once that the name is no tensor's. */
void ck_scratch_warn(struct ck_fs *fs, struct ck_scratch *s);
/* Appends the lines of `status`: how many have a name and hold bytes, and which. */
void ck_scratches_status(struct ck_fs *fs, struct ck_buf *out);
/* Appends a sentence for each of those. */
void ck_scratches_print(struct ck_fs *fs, struct ck_buf *out);
/* The log says that they are gone. */
void ck_scratches_dropped(struct ck_fs *fs);
/* The name is free then. */
void ck_scratch_remove(struct ck_fs *fs, uint32_t number);
/* Renames it to a name that is free. -ENOMEM. */
CK_MUST_USE int ck_scratch_move(struct ck_fs *fs, uint32_t number,
				const struct ck_node *dir, const char *name);
/* Its bytes replace those of the file of a tensor or box. Bytes that were never
 * written to the scratch file are missing there as well, by the same rules. Returns
 * 0, or: -EBUSY if that file has a writer; -EINVAL if bytes are missing; other
 * errors of writing and closing such a file. */
CK_MUST_USE int ck_scratch_commit(struct ck_fs *fs, struct ck_scratch *s,
				  const struct ck_node *n);

#endif
