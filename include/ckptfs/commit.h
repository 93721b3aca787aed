/* SPDX-License-Identifier: MIT */
/*
 * commit: new bytes for tensors. They are staged in files without a name,
 * already cut into the boxes of the checkpoint, and become part of it all at
 * once, by one rename(2) over its metadata. Files that were there before are
 * never changed or removed.
 */
#ifndef CKPTFS_COMMIT_H
#define CKPTFS_COMMIT_H

#include "ckptfs/format.h"
#include "ckptfs/slice.h"

/* --- writer: the right to change a checkpoint ----------------------------- */

struct ck_writer; /* opaque; one for each mount */

struct ck_writer_options {
	bool keep_unknown; /* rewrite metadata that names unknown globals */
	/* Called when a commit is durable and the catalog does not have it yet:
	 * the last moment of what is read until then. May be NULL. */
	void (*before_switch)(void *arg);
	void *arg;
};

/* Takes the lock that other writers respect, and keeps it; removes what an
 * interrupted commit left. -EBUSY: another writer has it; -EROFS, -EACCES;
 * -EPERM: unknown globals, or new files could not have the owner, group and
 * ACL of .metadata; -EOPNOTSUPP: a format or file system that cannot be
 * written; -ENOMEM, -EIO. */
CK_MUST_USE int ck_writer_open(struct ck_checkpoint *cp,
			       const struct ck_writer_options *options,
			       struct ck_writer **out, struct ck_diag *d);
void ck_writer_close(struct ck_writer *w); /* has no transaction */
/* Of the last commit found or made; 0: none. */
uint64_t ck_writer_generation(struct ck_writer *w);

/* --- transaction: what is committed together ------------------------------- */

struct ck_transaction; /* opaque; a writer may have many */

/* together: complete stages are kept for a commit of them all; else each is
 * committed by itself. What one transaction keeps, commits or drops is nothing to
 * the others, but that a tensor has one stage in all of them; where two keep the
 * same tensor, the later commit counts. Any threads. -ENOMEM. */
CK_MUST_USE int ck_transaction_begin(struct ck_writer *w, bool together,
				     struct ck_transaction **out);
/* What it keeps is given up. No stage of it may be open. NULL is allowed. */
void ck_transaction_end(struct ck_transaction *x);

struct ck_transaction_status {
	uint32_t stages; /* open */
	uint32_t staged; /* tensors kept for its next commit */
	uint64_t bytes;	 /* of them in new files */
};

void ck_transaction_status(struct ck_transaction *x,
			   struct ck_transaction_status *out);

/* --- stage: what a program writes into one file of the mount -------------- */

struct ck_stage; /* opaque; one for each file that is open for writing */

enum ck_stage_state {
	CK_STAGE_EMPTY, /* nothing was written or cut, or nothing is all there
			 * is to write: close changes nothing */
	CK_STAGE_BEGUN, /* begun anew, and nothing was written */
	CK_STAGE_PART,	/* bytes are missing */
	CK_STAGE_COMPLETE, /* may be committed */
	CK_STAGE_SPOILED,  /* something was refused: never committed */
};

/* In a transaction, for the file that this slice is: the elements of one tensor,
 * all or those of one of its boxes, and before them, with CK_ACCEPTS_NPY, its
 * header. A view made the slice of a catalog of the checkpoint; it stays the
 * caller's, and what the stage needs of it is copied. No file is made before the
 * first write. -EOPNOTSUPP: any other slice, CK_ACCEPTS_NOTHING, or a dtype that
 * cannot be written; the error of the slice; -EBUSY: the tensor has a stage, in
 * this transaction or another; -EIO: a box whose place in the metadata is not
 * known; -ENOMEM. Threads: calls for one stage must not overlap; those of
 * different stages may. */
CK_MUST_USE int ck_stage_open(struct ck_transaction *x,
			      const struct ck_catalog *c,
			      const struct ck_slice *slice,
			      enum ck_accepts accepts, struct ck_stage **out,
			      struct ck_diag *d);
/* What was not committed is gone. */
void ck_stage_close(struct ck_stage *s);

/* Bytes for the file at vpos, by a thread that has this number; 0: it cannot be
 * told from others. -EINVAL: a header of another shape, dtype or form than the
 * tensor's; -EFBIG: beyond the end that the header gives; both spoil the stage.
 * -ENOSPC (also: more than 2^20 pieces that do not touch), -EDQUOT, -EIO,
 * -ENOMEM: these bytes are missing until they are written. */
CK_MUST_USE int ck_stage_write(struct ck_stage *s, uint64_t vpos,
			       const void *bytes, size_t len, uint32_t thread,
			       struct ck_diag *d);
/* The same for bytes copied from the tensor: the new files are not readable by users
 * without read access to all files that have the tensor. The first call reads the items
 * that have them, since damaged bytes would get a new sum: -EIO. Not in a transaction with `together`. */
CK_MUST_USE int ck_stage_fill(struct ck_stage *s, uint64_t vpos,
			      const void *bytes, size_t len, struct ck_diag *d);
/* As O_TRUNC and ftruncate(2): 0 begins anew, with nothing written. Then bytes
 * that are skipped, below a write or a size that is set, are zeros of those who
 * write from front to back in one thread and set the size at the end; of all
 * others they are missing. Errors as of write. */
CK_MUST_USE int ck_stage_truncate(struct ck_stage *s, uint64_t size,
				  struct ck_diag *d);
/* As fallocate(2) with mode 0: the file ends at `end` or behind it; bytes that this adds
 * are missing until they are written. Errors as of write. */
CK_MUST_USE int ck_stage_grow(struct ck_stage *s, uint64_t end,
			      struct ck_diag *d);
/* Before ck_stage_state() at a close: which thread calls close(2); 0: it ended with the
 * file open, or is not known. Only the thread that wrote ends a write with skipped bytes:
 * a copy of the open file that a child closes, or a program that is killed, does not. */
void ck_stage_closed_by(struct ck_stage *s, uint32_t thread);
/* Before ck_stage_state() at an fsync(2): bytes skipped until now are missing. */
void ck_stage_synced(struct ck_stage *s);
enum ck_stage_state ck_stage_state(struct ck_stage *s);
/* The last bytes of the file, [*begin, *end), that were not written. False if all bytes
 * were written, or the file was truncated to 0 or spoiled, a write failed, or elements were
 * written in another order than the mount shows. */
CK_MUST_USE bool ck_stage_gap(const struct ck_stage *s, uint64_t *begin,
			      uint64_t *end);
/* The file began empty (O_TRUNC): it has the bytes that were written, and zeros. *size: as
 * its writer sees it. */
CK_MUST_USE bool ck_stage_began_empty(struct ck_stage *s, uint64_t *size);
/* Bytes of a complete stage that were skipped, and are zeros. */
CK_MUST_USE uint64_t ck_stage_skipped(struct ck_stage *s);
/* Puts the bytes that were written of [vpos, vpos + len) into `bytes`, which has what the
 * file had there before. -EINVAL: a write was refused; -EIO; -ENOMEM. */
CK_MUST_USE int ck_stage_overlay(struct ck_stage *s, uint64_t vpos, void *bytes,
				 size_t len);
/* Says into d why the stage is not complete; -EINVAL. */
CK_MUST_USE int ck_stage_explain(const struct ck_stage *s, struct ck_diag *d);

/* --- commit ---------------------------------------------------------------- */

/* Makes a complete stage the checkpoint's content: all or nothing of it. When
 * it returns 0 the bytes are durable, the catalog has the new places,
 * ck_layout_get() gives them, and the stage is empty; layouts got before stay
 * good and lead to the old bytes. On an error the checkpoint is as before:
 * -ESTALE (somebody else saved), -EINVAL (the stage is not complete), -ENOSPC,
 * -EDQUOT, -EIO, -EPERM (owner and group), -ENOMEM, -EBADMSG or -EOPNOTSUPP
 * (metadata that cannot be rewritten); unless it was found out early, the
 * stage is spoiled. Only if one of the last two fsync(2) fails, of the new
 * metadata and of the directory, is the new content there all the same. May take
 * seconds; one at a time, others wait. Not in a transaction with `together`. */
CK_MUST_USE int ck_stage_commit(struct ck_stage *s, struct ck_diag *d);

/* --- commit of many: of a transaction with `together` ------------------------ */

/* A complete stage is kept for the next commit of its transaction, in place of
 * what that kept of the same tensor or box, and is empty then. Readers see nothing
 * of it. -EINVAL: it is not complete; -EOPNOTSUPP: the metadata cannot say where
 * it would lie; -EPERM: new files could not have the owner and group of .metadata;
 * -EIO, -ENOMEM: it stays as it is. */
CK_MUST_USE int ck_stage_keep(struct ck_stage *s, struct ck_diag *d);

/* What became of what was kept. */
struct ck_outcome {
	uint32_t *tensors; /* of which something was kept */
	uint32_t n;
	size_t boxes;
	uint64_t bytes; /* of it in new files */
	uint32_t open;	/* stages that are being written, and no part of it */
	bool published; /* it is the checkpoint's content */
	bool lost;	/* it is gone, and has to be written again */
};

/* Commits all that a transaction keeps: as ck_stage_commit(), and 0 if it is nothing. On
 * an error all is still kept, or it is said that all was lost. Others may
 * write and keep meanwhile: that is for the next commit. */
CK_MUST_USE int ck_transaction_commit(struct ck_transaction *x,
				      struct ck_outcome *out,
				      struct ck_diag *d);
/* Gives up all that is kept. -ENOMEM. */
CK_MUST_USE int ck_transaction_drop(struct ck_transaction *x,
				    struct ck_outcome *out, struct ck_diag *d);
void ck_outcome_fini(struct ck_outcome *out);

#endif
