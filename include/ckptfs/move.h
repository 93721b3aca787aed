/* SPDX-License-Identifier: MIT */
/*
 * move: bytes. A plan turns a box of a tensor and a byte range of it into
 * copies; the host mover runs them from mapped files.
 */
#ifndef CKPTFS_MOVE_H
#define CKPTFS_MOVE_H

#include "ckptfs/layout.h"
#include "ckptfs/source.h"

/* --- plan ------------------------------------------------------------------- */

/* What is asked of the planner: the bytes [begin, end) of a box of a tensor
 * in C order, and the stored boxes. */
struct ck_request {
	uint32_t ndim;	     /* at most CK_MAX_DIMS */
	uint32_t item;	     /* bytes per element, >= 1 */
	const uint64_t *off; /* the box: ndim offsets in the tensor, elements */
	const uint64_t *size; /* ndim sizes */
	uint64_t begin, end;  /* bytes in the box's C order */
	uint32_t nchunks;
	const int64_t *boxes;	 /* 2 * ndim for each chunk: offsets, sizes;
				  * inside the tensor and disjoint */
	const uint64_t *strides; /* ndim for each chunk, bytes */
	const uint32_t *order;	 /* chunks sorted by offsets */
};

/* count repetitions; each moves on by dst and src bytes. */
struct ck_loop {
	uint64_t count;
	uint64_t dst;
	uint64_t src;
};

/* A loop nest over runs of contiguous bytes: outermost loop first. */
struct ck_copy {
	uint64_t dst;	/* first run's place in the destination, whose byte 0
			 * is `begin` */
	uint64_t src;	/* first run's place, relative to the chunk's first
			 * element */
	uint64_t run;	/* bytes */
	uint32_t chunk; /* index in the tensor */
	uint32_t nloops;
	size_t loop; /* first in plan->loops */
};

/* Zero-initialise; make may be called again on a used one and keeps its
 * memory. */
struct ck_plan {
	struct ck_copy *copies;
	struct ck_loop *loops;
	size_t ncopies, nloops, copies_cap, loops_cap;
	uint64_t runs;	   /* over all copies */
	uint64_t covered;  /* bytes; less than asked: the rest is in no box */
	uint64_t shortest; /* run; UINT64_MAX if there is none */
};

/* -ENOMEM only. */
CK_MUST_USE int ck_plan_make(const struct ck_request *r, struct ck_plan *plan);
void ck_plan_fini(struct ck_plan *plan);

/* --- host mover --------------------------------------------------------------- */

/* What a read needs. */
struct ck_read {
	const struct ck_catalog *catalog;
	struct ck_files *files;
	const struct ck_slice *slice;
	const struct ck_layout *const *layouts; /* one for each part; NULL
						 * for a literal */
};

/* The bytes [vpos, vpos + len) of a slice, into `to`. All of them or an error:
 * -ENODATA (a byte that nobody has), -EIO, -EBADMSG (a box that cannot be
 * served), -ESTALE (a file changed), -EINVAL (not within the slice), -ENOMEM.
 * On an error `to`, which is the caller's, has anything. Blocks on local files
 * only. Any thread. */
CK_MUST_USE int ck_host_read(const struct ck_read *r, uint64_t vpos,
			     uint64_t len, void *to);

/* --- host mover, the other way -------------------------------------------------- */

/* A file that boxes are written into. */
struct ck_target {
	int fd; /* for reading and writing */
	uint64_t size;
	uint8_t *map; /* private; NULL at first */
};

/* Where a chunk begins. */
struct ck_place {
	struct ck_target *target;
	uint64_t fpos;
};

/* Writes bytes [begin, end) of what is asked of the planner into the files of
 * its chunks, which have the strides of the request. `bytes` are the caller's and
 * stay as they are. -ENODATA: some belong to no chunk; errors of write(2); -EINVAL: outside its file; -ENOMEM. Any
 * thread, one at a time for a target. */
CK_MUST_USE int ck_host_scatter(const struct ck_request *r,
				const struct ck_place *places,
				const void *bytes);
void ck_target_unmap(struct ck_target *t);

/* --- read-ahead on data files ---------------------------------------------------- */

struct ck_ahead; /* threads and their queue; one for each mount */

/* One reader of a slice. Zero-initialise. Protected by the ck_ahead. */
struct ck_ahead_stream {
	uint64_t next;	/* vpos behind what was read */
	uint64_t read;	/* bytes read without a jump */
	uint64_t asked; /* vpos up to which data was asked for */
};

/* Starts its threads: not before the last fork(2). NULL: out of memory. */
struct ck_ahead *ck_ahead_make(struct ck_files *files);
void ck_ahead_free(struct ck_ahead *a); /* waits for its threads */
/* The stream reads [vpos, vpos + len) of the slice now. Has the kernel fetch
 * what follows if the stream reads on; never waits, never fails. */
void ck_ahead_note(struct ck_ahead *a, struct ck_ahead_stream *s,
		   const struct ck_read *r, uint64_t vpos, uint64_t len);

#endif
