/* SPDX-License-Identifier: MIT */
/*
 * draft: what is written into the files of tensors, and requests that wait for it.
 */
#ifndef CKPTFS_FS_WRITE_HANDLE_H
#define CKPTFS_FS_WRITE_HANDLE_H

#include "commit_thread.h"
#include "deferred.h"

struct ck_write_handle;
struct ck_write_handles;
struct ck_fs;
struct ck_node;

/* --- writers.c: who writes which tensor ---------------------------------------- */

struct ck_write_handles *ck_write_handles_make(void); /* NULL: out of memory */
void ck_write_handles_free(struct ck_write_handles *write_handles);
/* One at a time for each tensor: -EBUSY, or CK_AFTER_RELEASE where the other is being
 * closed. Errors of ck_stage_open(). */
CK_MUST_USE int ck_write_handle_open(struct ck_fs *fs, const struct ck_node *n,
				     struct ck_write_handle **out);
/* The draft of this file, with a reference; NULL: it has none. CK_AFTER_RELEASE: its
 * tensor's draft is being closed, and this is not the last time to ask. */
CK_MUST_USE int ck_write_handle_find(struct ck_fs *fs, const struct ck_node *n,
				     bool last, struct ck_write_handle **out);
/* Says so in the log once in a while, for the tensor has one: -EBUSY. */
int ck_write_handle_busy(struct ck_fs *fs, uint32_t tensor);
/* The tensor has a draft that is being closed. */
bool ck_write_handle_is_closing(struct ck_fs *fs, uint32_t tensor);
struct ck_write_handle *ck_write_handle_ref(struct ck_fs *fs,
					    struct ck_write_handle *wh);
/* Drops a reference; what was not committed is lost with the last one. */
void ck_write_handle_put(struct ck_fs *fs, struct ck_write_handle *wh);

/* --- write_handle.c: what is written through one open file ------------------------ */

/* Its bytes come from a file that is renamed: no file that the kernel has grows by
 * them, so that their header may be longer than the one shown. */
void ck_write_handle_allow_longer(struct ck_write_handle *wh);
/* thread: of the program; 0: it cannot be told from others. This and what else
 * changes what was written: CK_AFTER_COMMIT, a commit of it runs. */
CK_MUST_USE int ck_write_handle_write(struct ck_fs *fs,
				      struct ck_write_handle *wh, uint64_t vpos,
				      const void *bytes, size_t len,
				      pid_t thread);
CK_MUST_USE int ck_write_handle_truncate(struct ck_fs *fs,
					 struct ck_write_handle *wh,
					 uint64_t size);
/* As ck_write_handle_truncate(), but never makes the file shorter. */
CK_MUST_USE int ck_write_handle_grow(struct ck_fs *fs,
				     struct ck_write_handle *wh, uint64_t end);
/* Before ck_write_handle_check() and ck_write_handle_stage() of a close: which thread calls close(2);
 * 0: it ended with the file open. */
void ck_write_handle_closed_by(struct ck_write_handle *wh, pid_t thread);
/* The same of an fsync(2). */
void ck_write_handle_synced(struct ck_write_handle *wh);
/* The file was removed: its written bytes are not committed. */
void ck_write_handle_removed(struct ck_write_handle *wh);
/* True if the file was written or truncated since it was opened. */
CK_MUST_USE bool ck_write_handle_is_changed(const struct ck_write_handle *wh);
/* Reads through the writer's own file: *len is the size of the buffer, then the number of
 * bytes read. CK_AFTER_COMMIT: a
 * commit of it runs; errors of reading the tensor; -EINVAL: a write was refused. */
CK_MUST_USE int ck_write_handle_read(struct ck_fs *fs,
				     struct ck_write_handle *wh, uint64_t vpos,
				     size_t *len, void *bytes);
/* Notes who opened it, and with which flags; before the open is answered. */
void ck_write_handle_opened_by(const struct ck_fs *fs,
			       struct ck_write_handle *wh, fuse_req_t req,
			       int flags);
/* The same without its open file; -EBUSY: another thread opened it, or that
 * cannot be told (0) and something was written, or the size is not 0. */
CK_MUST_USE int ck_write_handle_truncate_by(struct ck_fs *fs,
					    struct ck_write_handle *wh,
					    uint64_t size, pid_t thread);
/* For a name that was made again: what is written begins with nothing. */
CK_MUST_USE int ck_write_handle_recreate(struct ck_fs *fs,
					 struct ck_write_handle *wh);
/* The name of its file was made, and nothing was committed since. */
CK_MUST_USE bool ck_write_handle_is_recreated(const struct ck_write_handle *wh);
/* A change of the mode that would take bits: whether it may be dropped, since
 * the thread that opened the file asks for it. The log says so. */
CK_MUST_USE bool ck_write_handle_ignore_mode(const struct ck_fs *fs,
					     struct ck_write_handle *wh,
					     mode_t mode, pid_t thread);
/* What a close has to do: 0 nothing; 1 commit, or ask after the commit that runs;
 * -EINVAL: not all was written.
 * Why is in the log then: at once if it was asked for all to be there, as by
 * fsync(2); else, since what is closed may be a copy, after the last close. */
CK_MUST_USE int ck_write_handle_check(struct ck_fs *fs,
				      struct ck_write_handle *wh, bool asked);
/* After a commit: others ask later whether it is gone. */
void ck_write_handle_set_closing(struct ck_write_handle *wh);
/* Commits if there is something to commit, as ck_write_handle_check() has it; errors of
 * ck_stage_commit(). May take seconds. One thread at a time for each draft. */
CK_MUST_USE int ck_write_handle_commit(struct ck_fs *fs,
				       struct ck_write_handle *wh, bool asked);
/* Keeps it for the next commit of all instead, where the mount does that. */
CK_MUST_USE int ck_write_handle_stage(struct ck_fs *fs,
				      struct ck_write_handle *wh, bool asked);
const struct ck_node *ck_write_handle_node(const struct ck_write_handle *wh);

#endif
