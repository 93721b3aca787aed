/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of commit: writer.c has the lock of the checkpoint, collect.c removes
 * files of earlier commits, writable.c decides which files can be written. stage.c takes the
 * writes to one file, staged.c reads them back; written_ranges.c and ranges.c record the
 * written bytes, header.c parses the npy header. cut.c maps elements to boxes, batch.c boxes
 * to new files; shard.c makes these, owner.c sets owner and mode. transaction.c and
 * group_commit.c commit several stages, commit.c has the protocol.
 */
#ifndef CK_COMMIT_INTERNAL_H
#define CK_COMMIT_INTERNAL_H

#include "ckptfs/bits.h"
#include "ckptfs/commit.h"
#include "ckptfs/move.h"
#include "ckptfs/rewrite.h"
#include "ckptfs/written_ranges.h"
#include "files_made.h"

struct ck_writer {
	/* Constant: */
	struct ck_checkpoint *cp;
	struct ck_writer_options options;
	int dirfd; /* of its own: its lock is gone with it */

	pthread_mutex_t commit_lock; /* held by the commit that runs */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_bits busy; /* of tensors: has a stage, in any transaction */
	uint64_t generation;
	struct stat owned; /* a .metadata to whose owner files can be given */
};

struct ck_transaction {
	/* Constant: */
	struct ck_writer *w;

	/* Held for reading by whoever does something with a stage or with the
	 * batch. Its writer may do anything with any stage. */
	pthread_rwlock_t placing;
	/* Under placing: */
	struct ck_batch *batch; /* of all stages; NULL: each has its own */
	/* Under ck_writer.lock: */
	uint32_t nstages;
	/* Changed under ck_writer.lock with placing held for reading; so who holds
	 * that for writing may read it: */
	struct ck_stage *stages; /* open */
};

/* --- batch.c: what one commit will have -------------------------------------- */

#define CK_SHARDS_MAX 64 /* files of one commit; for more ranks, one file */

/* A file of a batch. It has no name until the commit. */
struct ck_shard {
	int fd; /* -1: not made */
	uint64_t rank;
	uint64_t size;		 /* given to items */
	struct ck_ranges unused; /* of it, given back; all zeros */
	uint32_t uses;		 /* items that have a part of it */
	char name[CK_NAME_LEN];	 /* "": it has none */
};

/* An item that is whole, and will be in the commit. */
struct ck_staged_item {
	uint32_t chunk; /* of the catalog */
	uint32_t shard;
	uint64_t fpos, length;
};

/* The files of one commit, and what of them is whole. */
struct ck_batch {
	/* Constant: */
	size_t tensors_len;
	bool one_file; /* for all ranks */

	pthread_mutex_t lock;
	/* Under lock, until a commit takes the batch: then of one thread: */
	struct ck_shard shards[CK_SHARDS_MAX];
	uint32_t nshards;
	struct ck_staged_item *kept;
	size_t nkept, kept_cap;
	struct ck_bits tensors; /* an item of it is kept */
	uint32_t ntensors;	/* bits that are set */
};

/* NULL: out of memory. shared: by stages of any tensors. */
struct ck_batch *ck_batch_make(const struct ck_writer *w, bool shared);
/* Closes the files; what has no name is gone. */
void ck_batch_free(struct ck_batch *b);

/* One box of a stage, and the item that it will be. */
struct ck_cut {
	uint32_t chunk, shard;
	uint64_t fpos; /* of the item */
	struct ck_item_form form;
};

/* What a stage has of a file: [begin, target.size). */
struct ck_payload_block {
	struct ck_target target; /* its descriptor is the shard's */
	uint64_t begin;
	uint32_t uses; /* items */
};

/* Where the boxes of one stage lie in the files of its batch. */
struct ck_cuts {
	struct ck_batch *batch;
	struct ck_cut *cuts; /* in the order of their chunks */
	uint32_t n;
	struct ck_payload_block *rooms; /* one for each shard that there was */
	uint32_t nrooms;
};

/* Plans places for the boxes [first, first + n) of a tensor; makes no file.
 * -EIO, -EOPNOTSUPP, -ENOMEM. */
CK_MUST_USE int ck_cuts_plan(struct ck_cuts *out, const struct ck_writer *w,
			     struct ck_batch *b, uint32_t tensor,
			     uint32_t first, uint32_t n);
/* Makes the files that are missing, with room for all that will be in these
 * places. On an error, -ENOSPC and others, it has none. */
CK_MUST_USE int ck_cuts_make(struct ck_cuts *cuts, const struct ck_writer *w,
			     struct ck_diag *d);
/* Writes what stands around the elements, so that the items, of one tensor, are
 * whole. They are in the commit from now on, in place of those that it had of
 * the same boxes. On an error, of writing or -ENOMEM, they are not, and it may
 * be done again. */
CK_MUST_USE int ck_cuts_keep(struct ck_cuts *cuts, uint32_t tensor);
/* The places are free again. */
void ck_cuts_drop(struct ck_cuts *cuts);
/* The bytes of all elements, to the places that other cuts have of the same
 * boxes. */
CK_MUST_USE int ck_cuts_copy(const struct ck_cuts *from,
			     const struct ck_cuts *to);
/* Tensors of which something is kept, and the bytes. */
uint32_t ck_batch_count(struct ck_batch *b, uint64_t *bytes);
/* No item is kept any more. */
void ck_batch_clear(struct ck_batch *b);

/* --- cut.c: elements to boxes --------------------------------------------- */

/* Where elements written in some order belong. */
struct ck_cutter {
	struct ck_request request; /* its arrays are owned */
	struct ck_place *places;   /* one for each chunk */
	uint8_t unit;		   /* bytes to be reversed together; 1: none */
};

CK_MUST_USE int ck_cutter_make(struct ck_cutter *k, const struct ck_catalog *c,
			       uint32_t tensor, uint32_t box, bool fortran,
			       bool swapped);
/* Its boxes lie there; the first box that it is for has this chunk. */
void ck_cutter_aim(struct ck_cutter *k, struct ck_cuts *cuts, uint32_t first);
void ck_cutter_fini(struct ck_cutter *k);
/* Takes bytes of elements at pos, in the order in which they are written. */
CK_MUST_USE int ck_cutter_place(struct ck_cutter *k, uint64_t pos,
				const void *bytes, uint64_t len);
/* Gives those bytes back, as far as they were placed. */
CK_MUST_USE int ck_cutter_fetch(struct ck_cutter *k, uint64_t pos, void *bytes,
				uint64_t len);

/* --- writable.c: what can be written ------------------------------------------ */

#define CK_ALL_BOXES UINT32_MAX /* in place of the number of a box */

/* What a file that can be written is of. */
struct ck_accepted {
	uint32_t tensor;
	uint32_t box;	 /* of it, or CK_ALL_BOXES */
	uint64_t nbytes; /* of the elements */
	struct ck_buf
		header; /* that is shown before them, owned; empty: none */
};

/* Errors, but for -EBUSY, as of ck_stage_open(): then there is no header to free.
 * The slice stays the caller's. */
CK_MUST_USE int ck_accept(struct ck_accepted *out, const struct ck_catalog *c,
			  const struct ck_slice *slice, enum ck_accepts accepts,
			  struct ck_diag *d);

/* --- stage.c ----------------------------------------------------------------- */

struct ck_stage {
	struct ck_transaction *x;
	const struct ck_catalog *catalog; /* held: as it was when it began */
	struct ck_stage *next;		  /* in x->stages */
	struct ck_accepted of;		  /* constant */
	struct ck_batch *batch; /* owned; NULL: nothing was staged, or shared */
	struct ck_cuts cuts;	/* in its files */
	const struct ck_batch *kept_in; /* what it had before is there */
	struct ck_cutter cutter;
	bool placing, made;    /* places are planned; their files are made */
	bool fortran, swapped; /* the order in which it takes elements */
	bool foreign; /* committed with another header than that shown */
	bool anew;    /* truncated to 0: committed bytes are not part of it */
	bool touched; /* something was written or cut */
	bool carries; /* some bytes are those that the tensor has */
	struct ck_buf head; /* the header; bytes not written are 0 */
	uint64_t data;	    /* where elements begin */
	bool data_known;    /* and in which order they come */
	bool head_accepted; /* head was compared with the tensor */
	struct ck_written_ranges written;
	bool spoiled; /* never to be committed; `why` has the reason */
	char why[512];
};

static inline const struct ck_tensor *ck_stage_tensor(const struct ck_stage *s)
{
	return ck_catalog_tensor(s->catalog, s->of.tensor);
}

/* Sizes of what the file holds: the tensor, or one box of it. */
static inline const int64_t *ck_stage_shape(const struct ck_stage *s)
{
	const struct ck_tensor *t = ck_stage_tensor(s);

	return s->of.box == CK_ALL_BOXES
		       ? t->shape
		       : ck_tensor_box(t, s->of.box) + t->ndim;
}

/* Size of the whole file, as far as its header is known. */
uint64_t ck_stage_total(const struct ck_stage *s);
/* The first box of what the file holds, and how many there are. */
uint32_t ck_stage_boxes(const struct ck_stage *s, uint32_t *n);
/* staged.c: the bytes that the tensor has are those that were saved. Errors of
 * ck_boxes_verify(). */
CK_MUST_USE int ck_stage_verify(struct ck_stage *s, struct ck_diag *d);
/* Refuses for good: -err. */
int ck_stage_spoil(struct ck_stage *s, const struct ck_diag *d, int err);
/* Refuses a file that would end at `end`, beyond its size: -EFBIG. */
int ck_stage_too_long(struct ck_stage *s, uint64_t end, struct ck_diag *d);
/* Plans the places of elements that come in that order. */
CK_MUST_USE int ck_stage_place(struct ck_stage *s, bool fortran, bool swapped,
			       struct ck_diag *d);
/* Plans and makes the files, if they are not. */
CK_MUST_USE int ck_stage_make(struct ck_stage *s, struct ck_diag *d);
/* All its bytes are in its files; else -EINVAL and why, or as of write. */
CK_MUST_USE int ck_stage_complete(struct ck_stage *s, struct ck_diag *d);
/* Its boxes have places in another batch, and what was written is there. */
CK_MUST_USE int ck_stage_move(struct ck_stage *s, struct ck_batch *to);
/* Drops what was staged, and says why: the file has to be written anew. */
void ck_stage_lose(struct ck_stage *s, const char *why);
/* Brings it back to how it was after its open: what was staged was
 * committed, or is dropped. */
void ck_stage_renew(struct ck_stage *s);

/* --- group_commit.c ------------------------------------------------------------- */

/* What there is now. */
CK_MUST_USE int ck_outcome_make(struct ck_outcome *out,
				struct ck_transaction *x, struct ck_diag *d);
/* All stages of the transaction share another batch from now on, and what of them
 * is not kept moves there; nothing is written into the old one. -ENOMEM: as it
 * was. */
CK_MUST_USE int ck_batch_take(struct ck_transaction *x, struct ck_batch **out,
			      struct ck_outcome *of, struct ck_diag *d);
/* Can the metadata give these boxes other places? -EOPNOTSUPP. */
CK_MUST_USE int ck_cuts_movable(const struct ck_cuts *cuts,
				const struct ck_writer *w, struct ck_diag *d);
/* Would a commit refuse these boxes, and all others with them? -EOPNOTSUPP,
 * -EPERM. */
CK_MUST_USE int ck_cuts_check(const struct ck_cuts *cuts, struct ck_writer *w,
			      struct ck_diag *d);
/* Tells the stages of a batch that it was committed, or dropped. */
void ck_batch_settle(struct ck_transaction *x, const struct ck_batch *b,
		     bool lost);

/* --- header.c ---------------------------------------------------------------- */

/* Takes what of bytes written at vpos belongs to the header: *used of them. Once
 * it is whole, or elements came, the stage knows where elements begin. */
CK_MUST_USE int ck_header_write(struct ck_stage *s, uint64_t vpos,
				const void *bytes, uint64_t len, uint64_t *used,
				struct ck_diag *d);
/* A whole header is compared with what the stage is for, and says in which order
 * elements come. -EINVAL, -EFBIG: the stage is spoiled; errors of placing. */
CK_MUST_USE int ck_header_settle(struct ck_stage *s, struct ck_diag *d);
/* Before the first element of a file without O_TRUNC: if the header was replaced by one
 * that fits, elements come in its order. */
void ck_header_order(struct ck_stage *s);

/* --- transaction.c: open stages ------------------------------------------------ */

/* One for each tensor. -EBUSY. */
CK_MUST_USE int ck_transaction_enlist(struct ck_transaction *x,
				      struct ck_stage *s);
/* With placing. */
void ck_transaction_delist(struct ck_transaction *x, struct ck_stage *s);

/* --- collect.c ---------------------------------------------------------------- */

/* Removes what nothing names any more, and finds the last generation. The lock
 * is held and .metadata is the one that was read. Errors of opening the
 * directory. */
CK_MUST_USE int ck_writer_collect(struct ck_writer *w, struct ck_diag *d);

#endif
