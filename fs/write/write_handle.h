/* SPDX-License-Identifier: MIT */
/*
 * write_handle: state of writing a tensor or box, from open(2) to release.
 */
#ifndef CKPTFS_WRITE_HANDLE_H
#define CKPTFS_WRITE_HANDLE_H

#include "commit_thread.h"
#include "deferred.h"

struct ck_write_handle;
struct ck_write_handles;
struct ck_fs;
struct ck_node;

/* --- writers.c: the list of write handles ----------------------------------- */

/* NULL if memory is exhausted. */
struct ck_write_handles *ck_write_handles_make(void);
void ck_write_handles_free(struct ck_write_handles *all);
/* Opens a tensor for writing. Returns 0, or: -EBUSY if it has a write handle;
 * CK_AFTER_RELEASE if that one is closing; errors of ck_stage_open(). */
CK_MUST_USE int ck_write_handle_open(struct ck_fs *fs, const struct ck_node *n,
				     struct ck_write_handle **out);
/* Finds the write handle of a file and adds a reference; *out is NULL without one.
 * Returns 0, or CK_AFTER_RELEASE if the handle is closing and `last` is not set. */
CK_MUST_USE int ck_write_handle_find(struct ck_fs *fs, const struct ck_node *n,
				     bool last, struct ck_write_handle **out);
/* Returns -EBUSY, and logs now and then that the tensor has a writer. */
int ck_write_handle_busy(struct ck_fs *fs, uint32_t tensor);
/* True if the tensor has a write handle that is closing. */
bool ck_write_handle_is_closing(struct ck_fs *fs, uint32_t tensor);
struct ck_write_handle *ck_write_handle_ref(struct ck_fs *fs,
					    struct ck_write_handle *wh);
/* Drops a reference. The last one drops bytes that were not committed. */
void ck_write_handle_put(struct ck_fs *fs, struct ck_write_handle *wh);

/* --- write_handle.c: one write handle ---------------------------------------- */

/* The bytes come from a renamed file, so no file in the kernel grows by them:
 * the header may be longer than the shown one. */
void ck_write_handle_allow_longer(struct ck_write_handle *wh);
/* thread: of the program; 0 if threads are not known. This and the other
 * functions that change bytes return CK_AFTER_COMMIT during a commit of the
 * handle. */
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
/* Call before ck_write_handle_check() and ck_write_handle_stage() at a close.
 * thread: that calls close(2); 0: it ended with the file open. */
void ck_write_handle_closed_by(struct ck_write_handle *wh, pid_t thread);
/* The same at an fsync(2). */
void ck_write_handle_synced(struct ck_write_handle *wh);
/* The file was removed: its written bytes are not committed. */
void ck_write_handle_removed(struct ck_write_handle *wh);
/* True if the file was written or truncated since it was opened. */
CK_MUST_USE bool ck_write_handle_is_changed(const struct ck_write_handle *wh);
/* Reads through the file of the writer. *len: size of the buffer, then number
 * of bytes read. Returns 0, or: CK_AFTER_COMMIT during a commit of the handle;
 * -EINVAL if a write was refused; errors of reading the tensor. */
CK_MUST_USE int ck_write_handle_read(struct ck_fs *fs,
				     struct ck_write_handle *wh, uint64_t vpos,
				     size_t *len, void *bytes);
/* Sets thread, user and flags of open(2), before its reply. */
void ck_write_handle_opened_by(const struct ck_fs *fs,
			       struct ck_write_handle *wh, fuse_req_t req,
			       int flags);
/* As ck_write_handle_truncate(), without an open file. -EBUSY if another thread
 * opened it. If threads are not known (0), also if bytes were written or
 * size is not 0. */
CK_MUST_USE int ck_write_handle_truncate_by(struct ck_fs *fs,
					    struct ck_write_handle *wh,
					    uint64_t size, pid_t thread);
/* For a name that was created again: the written bytes replace all of the file. */
CK_MUST_USE int ck_write_handle_recreate(struct ck_fs *fs,
					 struct ck_write_handle *wh);
/* True if the name was created by this open, and the handle was not committed
 * since. */
CK_MUST_USE bool ck_write_handle_is_recreated(const struct ck_write_handle *wh);
/* True if a change of mode that removes bits may be ignored, since it comes
 * from the thread that opened the file. It is logged. */
CK_MUST_USE bool ck_write_handle_ignore_mode(const struct ck_fs *fs,
					     struct ck_write_handle *wh,
					     mode_t mode, pid_t thread);
/* Returns the action of a close: 0 if there is nothing to do; 1 to commit, or
 * to retry after the running commit; -EINVAL if bytes are missing. The reason
 * is logged: at once if `asked`, as by fsync(2); otherwise after the last
 * close, since a close may be of a duplicate. */
CK_MUST_USE int ck_write_handle_check(struct ck_fs *fs,
				      struct ck_write_handle *wh, bool asked);
/* Marks the handle as closing, after a commit: other requests wait for its
 * release. */
void ck_write_handle_set_closing(struct ck_write_handle *wh);
/* Commits if ck_write_handle_check() would return 1. Errors of
 * ck_stage_commit(). May take seconds. One thread at a time for each handle. */
CK_MUST_USE int ck_write_handle_commit(struct ck_fs *fs,
				       struct ck_write_handle *wh, bool asked);
/* Stages the bytes for the next commit of all tensors instead (commit=manual). */
CK_MUST_USE int ck_write_handle_stage(struct ck_fs *fs,
				      struct ck_write_handle *wh, bool asked);
const struct ck_node *ck_write_handle_node(const struct ck_write_handle *wh);

#endif
