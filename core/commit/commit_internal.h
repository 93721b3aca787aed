/* SPDX-License-Identifier: MIT */
/*
 * commit_internal: shared by the files of commit. writer.c has the lock of the checkpoint,
 * collect.c removes files of earlier commits, writable.c decides which files can be written.
 * stage.c receives the writes to one file, staged.c reads them back; written_ranges.c and
 * ranges.c record the written bytes, header.c parses the npy header. reshard.c maps elements to
 * boxes, batch.c boxes to new files; shard.c makes these, ownership.c sets owner and mode.
 * transaction.c and group_commit.c commit several stages, commit.c has the protocol.
 */
#ifndef CK_COMMIT_INTERNAL_H
#define CK_COMMIT_INTERNAL_H

#include "base/bits.h"
#include "ckptfs/commit.h"
#include "ckptfs/io.h"
#include "files_made.h"
#include "format/rewrite.h"
#include "written_ranges.h"

struct ck_writer {
	/* Constant: */
	struct ck_checkpoint *cp;
	struct ck_writer_options options;
	int dirfd; /* own descriptor: closing it releases the lock */

	pthread_mutex_t commit_lock; /* held by the running commit */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_bits busy; /* tensors with a stage, in any transaction */
	uint64_t generation;
	struct stat owned; /* .metadata for which ck_owner_check() passed */
};

struct ck_transaction {
	/* Constant: */
	struct ck_writer *w;

	/* Held for reading by threads that use a stage or the batch, and for writing to use all
	 * stages. */
	pthread_rwlock_t placing;
	/* Under placing: */
	struct ck_batch *batch; /* shared; NULL if each stage has its own */
	/* Under ck_writer.lock: */
	uint32_t nstages;
	/* Changed under ck_writer.lock, with placing held for reading. Must hold
	 * ck_writer.lock, or placing for writing, to read: */
	struct ck_stage *stages; /* open stages */
};

/* --- batch.c: files and items of one commit --------------------------------------- */

/* most files of a commit; with more ranks there is one file */
#define CK_SHARDS_MAX 64

/* A file of a batch. Unnamed until the commit. */
struct ck_shard {
	int fd; /* -1 until made */
	uint64_t rank;
	uint64_t size;		 /* bytes allocated to items */
	struct ck_ranges unused; /* free below `size`; zeros */
	uint32_t uses;		 /* items with a range of it */
	char name[CK_NAME_LEN];	 /* "" until named */
};

/* A complete item that the next commit contains. */
struct ck_staged_item {
	uint32_t chunk; /* chunk of the catalog */
	uint32_t shard;
	uint64_t fpos, length;
};

/* The files of one commit, and the complete items in them. */
struct ck_batch {
	/* Constant: */
	size_t tensors_len;
	bool one_file; /* one file for all ranks */

	pthread_mutex_t lock;
	/* Under lock; after a commit took the batch, of its thread only: */
	struct ck_shard shards[CK_SHARDS_MAX];
	uint32_t nshards;
	struct ck_staged_item *kept;
	size_t nkept, kept_cap;
	struct ck_bits tensors; /* tensors with a staged item */
	uint32_t ntensors;	/* number of bits set */
};

/* shared: for stages of any tensors. NULL if out of memory. */
struct ck_batch *ck_batch_make(const struct ck_writer *w, bool shared);
/* Closes the files; unnamed files are deleted by that. */
void ck_batch_free(struct ck_batch *b);

/* One box of a stage, and the item to write. */
struct ck_cut {
	uint32_t chunk, shard;
	uint64_t fpos; /* of the item, in the file */
	struct ck_item_form form;
};

/* Range [begin, target.size) of a file that belongs to one stage. */
struct ck_payload_block {
	struct ck_target target; /* with the descriptor of the shard */
	uint64_t begin;
	uint32_t uses; /* items */
};

/* Locations of the boxes of one stage in the files of its batch. */
struct ck_cuts {
	struct ck_batch *batch;
	struct ck_cut *cuts; /* sorted by chunk */
	uint32_t n;
	struct ck_payload_block *rooms; /* one for each shard */
	uint32_t nrooms;
};

/* Plans locations for the boxes [first, first + n) of a tensor; makes no file. Locks the
 * batch. Returns 0, or: -EMFILE if there are too many files; -EFBIG; -EOPNOTSUPP;
 * -EOVERFLOW; -ENOMEM. */
CK_MUST_USE int ck_cuts_plan(struct ck_cuts *out, const struct ck_writer *w,
			     struct ck_batch *b, uint32_t tensor,
			     uint32_t first, uint32_t n);
/* Makes missing files, and allocates disk space for the planned ranges. Locks the batch.
 * Returns 0, or an error such as -ENOSPC; it then has allocated nothing. */
CK_MUST_USE int ck_cuts_make(struct ck_cuts *cuts, const struct ck_writer *w,
			     struct ck_diag *d);
/* Writes the archive around the elements, so that the items, of one tensor, are complete,
 * and stages them in place of earlier items of the same boxes. The cuts are empty then.
 * Returns 0, or: -ENOMEM; errors of writing. After an error nothing is staged, and it may be
 * called again. */
CK_MUST_USE int ck_cuts_keep(struct ck_cuts *cuts, uint32_t tensor);
/* Frees the ranges. */
void ck_cuts_drop(struct ck_cuts *cuts);
/* Copies all elements to the locations of the same boxes in `to`. -ENOMEM; errors of I/O. */
CK_MUST_USE int ck_cuts_copy(const struct ck_cuts *from,
			     const struct ck_cuts *to);
/* Returns the number of tensors with staged items, and their *bytes. */
uint32_t ck_batch_count(struct ck_batch *b, uint64_t *bytes);
/* Discards all staged items. */
void ck_batch_clear(struct ck_batch *b);

/* --- reshard.c: elements to boxes --------------------------------------------- */

/* Maps written elements, in order, to locations in files. One thread at a time. */
struct ck_cutter {
	struct ck_request request; /* its arrays are owned */
	struct ck_place *places;   /* one for each chunk */
	uint8_t unit; /* bytes that are reversed together; 1 if not swapped */
};

/* Maps elements written for a box, or with CK_ALL_BOXES for the tensor, to boxes. fortran: in
 * Fortran order; swapped: big-endian. Returns 0, or -ENOMEM. Caller must call ck_cutter_fini(). */
CK_MUST_USE int ck_cutter_make(struct ck_cutter *k, const struct ck_catalog *c,
			       uint32_t tensor, uint32_t box, bool fortran,
			       bool swapped);
/* Sets the locations from the cuts. first: chunk of the first box of the cutter. */
void ck_cutter_aim(struct ck_cutter *k, struct ck_cuts *cuts, uint32_t first);
void ck_cutter_fini(struct ck_cutter *k);
/* Writes elements at pos, in written order. Returns 0, or an error of ck_host_scatter(). */
CK_MUST_USE int ck_cutter_place(struct ck_cutter *k, uint64_t pos,
				const void *bytes, uint64_t len);
/* Reads those bytes back. Returns 0, or an error of ck_host_collect(). */
CK_MUST_USE int ck_cutter_fetch(struct ck_cutter *k, uint64_t pos, void *bytes,
				uint64_t len);

/* --- writable.c: slices that can be written ---------------------------------------- */

#define CK_ALL_BOXES UINT32_MAX /* instead of the index of a box */

/* Target of a file that can be written. */
struct ck_accepted {
	uint32_t tensor;
	uint32_t box;	      /* index of its box, or CK_ALL_BOXES */
	uint64_t nbytes;      /* of the elements */
	struct ck_buf header; /* owned; empty without a header */
};

/* Returns 0, or an error of ck_stage_open() other than -EBUSY; there is no header to free then.
 * Caller owns the slice. */
CK_MUST_USE int ck_accept(struct ck_accepted *out, const struct ck_catalog *c,
			  const struct ck_slice *slice, enum ck_accepts accepts,
			  struct ck_diag *d);

/* --- stage.c ----------------------------------------------------------------- */

struct ck_stage {
	struct ck_transaction *x;
	const struct ck_catalog *catalog; /* held: that of the open */
	struct ck_stage *next;		  /* in x->stages */
	struct ck_accepted of;		  /* constant */
	struct ck_batch *batch; /* owned; NULL if not made, or shared */
	struct ck_cuts cuts;	/* locations in the files of the batch */
	const struct ck_batch *kept_in; /* has items staged last */
	struct ck_cutter cutter;
	bool placing, made;    /* locations are planned; files are made */
	bool fortran, swapped; /* order and byte order of written elements */
	bool foreign;	/* committed with another header than the mount shows */
	bool truncated; /* truncated to 0: committed bytes are gone */
	bool touched;	/* written or truncated */
	bool carries;	/* some bytes were copied from the tensor */
	struct ck_buf head; /* the header; unwritten bytes are 0 */
	uint64_t data;	    /* offset of the elements */
	bool data_known;    /* `data` and the order of elements are known */
	bool head_accepted; /* `head` was compared with the tensor */
	struct ck_written_ranges written;
	bool spoiled; /* cannot be committed; `why` has the reason */
	char why[512];
};

static inline const struct ck_tensor *ck_stage_tensor(const struct ck_stage *s)
{
	return ck_catalog_tensor(s->catalog, s->of.tensor);
}

/* Sizes of the tensor, or of the box, that the file has. */
static inline const int64_t *ck_stage_shape(const struct ck_stage *s)
{
	const struct ck_tensor *t = ck_stage_tensor(s);

	return s->of.box == CK_ALL_BOXES
		       ? t->shape
		       : ck_tensor_box(t, s->of.box) + t->ndim;
}

/* Size of the file, as far as its header is known. */
uint64_t ck_stage_total(const struct ck_stage *s);
/* First box of the file; *n: number of its boxes. */
uint32_t ck_stage_boxes(const struct ck_stage *s, uint32_t *n);
/* In staged.c: verifies stored checksums. Returns 0, or an error of ck_boxes_verify(). */
CK_MUST_USE int ck_stage_verify(struct ck_stage *s, struct ck_diag *d);
/* Spoils the stage; returns -err. */
int ck_stage_spoil(struct ck_stage *s, const struct ck_diag *d, int err);
/* Spoils a stage that would end at `end`, behind its size; returns -EFBIG. */
int ck_stage_too_long(struct ck_stage *s, uint64_t end, struct ck_diag *d);
/* Plans locations for elements in this order. -ENOMEM; errors of ck_cuts_plan(). */
CK_MUST_USE int ck_stage_place(struct ck_stage *s, bool fortran, bool swapped,
			       struct ck_diag *d);
/* The same, and makes files, unless that was done. Errors of ck_cuts_make(), too. */
CK_MUST_USE int ck_stage_make(struct ck_stage *s, struct ck_diag *d);
/* Returns 0, or: -EINVAL if bytes are missing, d has the reason; as ck_stage_make(). */
CK_MUST_USE int ck_stage_complete(struct ck_stage *s, struct ck_diag *d);
/* Moves the written bytes to another batch. Must hold placing for writing. After an
 * error the stage is unchanged: errors of ck_cuts_plan(), _make() and _copy(). */
CK_MUST_USE int ck_stage_move(struct ck_stage *s, struct ck_batch *to);
/* Discards all bytes and spoils the stage for the reason `why`: write the file again. */
void ck_stage_lose(struct ck_stage *s, const char *why);
/* Resets the stage to its state after the open. Out of memory: spoils it until a truncation. */
void ck_stage_renew(struct ck_stage *s);

/* --- group_commit.c ------------------------------------------------------------- */

/* Lists the staged items now. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_outcome_make(struct ck_outcome *out,
				struct ck_transaction *x, struct ck_diag *d);
/* Gives all stages of the transaction a new batch, to which they copy bytes that are not
 * staged. No thread writes into the old batch *out after that. Returns 0, or -ENOMEM:
 * unchanged. */
CK_MUST_USE int ck_batch_take(struct ck_transaction *x, struct ck_batch **out,
			      struct ck_outcome *of, struct ck_diag *d);
/* Returns 0 if the metadata can give these boxes new locations, or -EOPNOTSUPP. */
CK_MUST_USE int ck_cuts_movable(const struct ck_cuts *cuts,
				const struct ck_writer *w, struct ck_diag *d);
/* Returns 0, or an error for which a commit would refuse these boxes, and all others with them:
 * -EOPNOTSUPP; -EPERM. */
CK_MUST_USE int ck_cuts_check(const struct ck_cuts *cuts, struct ck_writer *w,
			      struct ck_diag *d);
/* Updates the stages whose last items are in a batch that was committed, dropped or lost. */
void ck_batch_settle(struct ck_transaction *x, const struct ck_batch *b,
		     bool lost);

/* --- header.c ---------------------------------------------------------------- */

/* Stores the part of the bytes at vpos that belongs to the header: sets *used to its length.
 * The stage knows where elements begin once the header is complete, or the first element is
 * written. */
CK_MUST_USE int ck_header_write(struct ck_stage *s, uint64_t vpos,
				const void *bytes, uint64_t len, uint64_t *used,
				struct ck_diag *d);
/* Compares a complete header with the tensor, and sets the order of elements. Returns 0, or:
 * -EINVAL or -EFBIG, the stage is spoiled; errors of ck_stage_place(). */
CK_MUST_USE int ck_header_settle(struct ck_stage *s, struct ck_diag *d);
/* For a file without O_TRUNC, before its first element: if another valid header was written,
 * elements have its order. */
void ck_header_order(struct ck_stage *s);

/* --- transaction.c: open stages ------------------------------------------------ */

/* Adds an open stage; a tensor has at most one. Returns 0, or -EBUSY. */
CK_MUST_USE int ck_transaction_enlist(struct ck_transaction *x,
				      struct ck_stage *s);
/* Removes a stage from the list. Must hold placing for reading. */
void ck_transaction_delist(struct ck_transaction *x, struct ck_stage *s);

/* --- collect.c ---------------------------------------------------------------- */

/* Removes unreferenced files of earlier commits, and sets the last generation. Must hold the
 * lock of the checkpoint; .metadata must be the file read. Returns 0, or an errno of open(2). */
CK_MUST_USE int ck_writer_collect(struct ck_writer *w, struct ck_diag *d);

#endif
