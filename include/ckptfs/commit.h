/* SPDX-License-Identifier: MIT */
/*
 * commit: replaces the bytes of tensors. New bytes are staged in unnamed files,
 * already split into the boxes of the checkpoint. A commit makes them part of the
 * checkpoint atomically, by one rename(2) over its metadata. Files that existed
 * before are never changed or removed.
 *
 * A writer has transactions; a transaction has open stages, and staged items that
 * wait for its commit. A stage is empty, then has missing bytes, and is finally
 * complete or spoiled, see ck_stage_state. core/commit/commit.c has the protocol.
 */
#ifndef CKPTFS_COMMIT_H
#define CKPTFS_COMMIT_H

#include "ckptfs/format.h"
#include "ckptfs/slice.h"

/* --- writer: the right to change a checkpoint ----------------------------- */

struct ck_writer; /* opaque; one for each mount */

struct ck_writer_options {
	bool keep_unknown; /* rewrite metadata that names unknown globals */
	/* Called when a commit is durable, before the catalog is switched: the last
	 * moment at which readers see the old version. May be NULL. */
	void (*before_switch)(void *arg);
	void *arg;
};

/* Takes the lock of the checkpoint, which other writers respect, and holds it;
 * removes files of interrupted commits. Returns 0, or: -EBUSY if another writer
 * holds the lock; -EROFS; -EACCES; -EPERM if the metadata has unknown globals, or
 * new files could not get the owner, group and ACL of .metadata; -EOPNOTSUPP if the
 * format or filesystem cannot be written; -ENOMEM; -EIO. Caller must call
 * ck_writer_close(). */
CK_MUST_USE int ck_writer_open(struct ck_checkpoint *cp,
			       const struct ck_writer_options *options,
			       struct ck_writer **out, struct ck_diag *d);
void ck_writer_close(struct ck_writer *w); /* must not have a transaction */
/* Number of the last commit found or made; 0 before the first commit. */
uint64_t ck_writer_generation(struct ck_writer *w);

/* --- transaction: stages with a common commit ------------------------------ */

struct ck_transaction; /* opaque; a writer may have many */

/* together: complete stages are staged for one common commit; otherwise each is
 * committed by itself. Transactions are independent, except that a tensor can have
 * only one stage at a time. If two stage the same tensor, the later commit wins.
 * Any thread. Returns 0, or -ENOMEM. Caller must call ck_transaction_end(). */
CK_MUST_USE int ck_transaction_begin(struct ck_writer *w, bool together,
				     struct ck_transaction **out);
/* Discards its staged items. It must not have an open stage. NULL is allowed. */
void ck_transaction_end(struct ck_transaction *x);

struct ck_transaction_status {
	uint32_t stages; /* open */
	uint32_t staged; /* tensors staged for the next commit */
	uint64_t bytes;	 /* bytes of those in new files */
};

void ck_transaction_status(struct ck_transaction *x,
			   struct ck_transaction_status *out);

/* --- stage: what a program writes into one file of the mount -------------- */

struct ck_stage; /* opaque; one for each file that is open for writing */

enum ck_stage_state {
	/* nothing was written or truncated, or the file has no bytes to write; a
	 * close has no effect */
	CK_STAGE_EMPTY,
	CK_STAGE_BEGUN,	   /* truncated to 0, and not written since */
	CK_STAGE_PART,	   /* bytes are missing */
	CK_STAGE_COMPLETE, /* may be committed */
	CK_STAGE_SPOILED,  /* a write was refused: cannot be committed */
};

/*
 * Opens a stage in a transaction for the file that `slice` is: all elements of one
 * tensor or of one of its boxes, with CK_ACCEPTS_NPY after its header. A view made
 * the slice from a catalog of the checkpoint; caller keeps it. Makes no file before
 * the first write. Calls for one stage must not overlap; those for different stages
 * may.
 *
 * Returns 0, or: -EOPNOTSUPP if the slice is another one, accepts is
 * CK_ACCEPTS_NOTHING, or the dtype cannot be written; the error of the slice or
 * tensor; -EBUSY if the tensor has a stage, in this transaction or another; -EIO if
 * the metadata has no location of a box, or elements are in no box; -ENOMEM. Caller
 * must call ck_stage_close().
 */
CK_MUST_USE int ck_stage_open(struct ck_transaction *x,
			      const struct ck_catalog *c,
			      const struct ck_slice *slice,
			      enum ck_accepts accepts, struct ck_stage **out,
			      struct ck_diag *d);
/* Discards the bytes that were not committed or staged. NULL is allowed. */
void ck_stage_close(struct ck_stage *s);

/* Writes bytes of the file at vpos. thread: number of the writing thread; 0 if not
 * known. Returns 0, or: -EINVAL if the header has another shape, dtype or form than
 * the tensor; -EFBIG if the bytes are behind the end that the header gives; both
 * spoil the stage. -ENOSPC, also for more than 2^20 separate ranges; -EDQUOT; -EIO;
 * -ENOMEM: these bytes are missing until they are written again. */
CK_MUST_USE int ck_stage_write(struct ck_stage *s, uint64_t vpos,
			       const void *bytes, size_t len, uint32_t thread,
			       struct ck_diag *d);
/* As ck_stage_write(), for bytes copied from the tensor: only users with read
 * access to all files of the tensor can read the new files. The first call reads
 * and verifies the items of the tensor, since damaged bytes would get a new
 * checksum; then also -EIO if damaged. Not in a transaction with `together`. */
CK_MUST_USE int ck_stage_fill(struct ck_stage *s, uint64_t vpos,
			      const void *bytes, size_t len, struct ck_diag *d);
/* As O_TRUNC and ftruncate(2). Size 0 discards all bytes: the file is then empty.
 * After that, skipped bytes below a write or below a set size count as zeros only
 * if one thread writes from front to back and sets the size at the end; otherwise
 * they are missing. Errors as of ck_stage_write(). */
CK_MUST_USE int ck_stage_truncate(struct ck_stage *s, uint64_t size,
				  struct ck_diag *d);
/* As fallocate(2) with mode 0: the file ends at `end` or behind it. Bytes that this
 * adds are missing until they are written. Errors as of ck_stage_write(). */
CK_MUST_USE int ck_stage_grow(struct ck_stage *s, uint64_t end,
			      struct ck_diag *d);
/* Sets the thread that calls close(2), before ck_stage_state(); 0 if it ended with
 * the file open, or is not known. Skipped bytes count as zeros only if the writing
 * thread closes the file, not if a child process closes its copy, or the program is
 * killed. */
void ck_stage_closed_by(struct ck_stage *s, uint32_t thread);
/* Records an fsync(2), before ck_stage_state(): bytes skipped so far are missing. */
void ck_stage_synced(struct ck_stage *s);
enum ck_stage_state ck_stage_state(struct ck_stage *s);
/* Sets [*begin, *end) to the last range of the file that was not written. Returns
 * false if all bytes were written, the file was truncated to 0, the stage is
 * spoiled, a write failed, or elements were written in another order than the mount
 * shows. */
CK_MUST_USE bool ck_stage_gap(const struct ck_stage *s, uint64_t *begin,
			      uint64_t *end);
/* True if the file was truncated to 0: its contents are the written bytes and
 * zeros. Sets *size to its present size. */
CK_MUST_USE bool ck_stage_began_empty(struct ck_stage *s, uint64_t *size);
/* Bytes of a complete stage that were skipped, and count as zeros. */
CK_MUST_USE uint64_t ck_stage_skipped(struct ck_stage *s);
/* Copies the written bytes of [vpos, vpos + len) into `bytes`, over the previous
 * contents of the file. Returns 0, or: -EINVAL if the stage is spoiled; -EIO;
 * -ENOMEM. */
CK_MUST_USE int ck_stage_overlay(struct ck_stage *s, uint64_t vpos, void *bytes,
				 size_t len);
/* Sets d to the reason why the stage is not complete, and returns -EINVAL. */
CK_MUST_USE int ck_stage_explain(const struct ck_stage *s, struct ck_diag *d);

/* --- commit ---------------------------------------------------------------- */

/*
 * Makes a complete stage part of the checkpoint, atomically. If 0, the bytes are
 * durable, the catalog and ck_layout_get() have the new locations, and the stage is
 * empty; layouts found before stay valid and refer to the old bytes. May take
 * seconds; commits of one writer run one at a time. Not in a transaction with
 * `together`.
 *
 * Returns 0, or: -ESTALE if another program saved the checkpoint; -EINVAL if the
 * stage is not complete; -ENOSPC; -EDQUOT; -EIO; -EPERM if new files cannot get
 * owner and group; -ENOMEM; -EBADMSG or -EOPNOTSUPP if the metadata cannot be
 * rewritten. After an error the checkpoint is unchanged, and the stage is spoiled
 * unless the error was found before its files were sealed. Exception: after an
 * error behind the rename, the fsync(2) of the metadata or its directory, the new
 * content stays published.
 */
CK_MUST_USE int ck_stage_commit(struct ck_stage *s, struct ck_diag *d);

/* --- commit of many: of a transaction with `together` ------------------------ */

/* Stages a complete stage for the next commit of its transaction, in place of
 * staged items of the same tensor or box; the stage is empty then. Readers do not
 * see the bytes. Returns 0, or: -EINVAL if it is not complete; -EOPNOTSUPP if the
 * metadata cannot represent the new location; -EPERM if new files could not get the
 * owner and group of .metadata; -EIO; -ENOMEM. After an error the stage is
 * unchanged. */
CK_MUST_USE int ck_stage_keep(struct ck_stage *s, struct ck_diag *d);

/* Result of a commit or drop of staged items. */
struct ck_outcome {
	uint32_t *tensors; /* tensors with staged items */
	uint32_t n;
	size_t boxes;
	uint64_t bytes; /* of those in new files */
	uint32_t open;	/* stages with written bytes that are not staged */
	bool published; /* the items are part of the checkpoint */
	bool lost;	/* the items are lost, and must be written again */
};

/* Commits all staged items of a transaction; returns 0 without any. Errors as
 * of ck_stage_commit(). After an error all items are still staged, or out->lost is
 * set. Other threads may write and stage meanwhile, for the next commit. Caller
 * must call ck_outcome_fini(). */
CK_MUST_USE int ck_transaction_commit(struct ck_transaction *x,
				      struct ck_outcome *out,
				      struct ck_diag *d);
/* Discards all staged items. Returns 0, or -ENOMEM. Caller must call
 * ck_outcome_fini(). */
CK_MUST_USE int ck_transaction_drop(struct ck_transaction *x,
				    struct ck_outcome *out, struct ck_diag *d);
void ck_outcome_fini(struct ck_outcome *out);

#endif
