/* SPDX-License-Identifier: MIT */
/*
 * move: bytes. A plan turns a box of a tensor and a byte range of it into
 * copies; those from files of this host are run at once, and the others go the route
 * to a mover that can reach their files.
 */
#ifndef CKPTFS_MOVE_H
#define CKPTFS_MOVE_H

#include "ckptfs/backend.h"
#include "ckptfs/fetch.h"
#include "ckptfs/gatherer.h"
#include "ckptfs/layout.h"
#include "ckptfs/slice.h"
#include "ckptfs/source.h"

#include <pthread.h>

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
	const uint64_t *strides; /* ndim for each chunk, bytes; NULL: elements
				  * of each are in C order without gaps */
	const uint32_t *order;	 /* chunks sorted by offsets */
};

/* A loop nest over runs of contiguous bytes: outermost loop first. */
struct ck_plan_op {
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
	struct ck_plan_op *copies;
	struct ck_loop *loops;
	size_t ncopies, nloops, copies_cap, loops_cap;
	uint64_t runs;	   /* over all copies */
	uint64_t covered;  /* bytes; less than asked: the rest is in no box */
	uint64_t shortest; /* run; UINT64_MAX if there is none */
};

/* -ENOMEM only. */
CK_MUST_USE int ck_plan_make(const struct ck_request *r, struct ck_plan *plan);
/* One run of so many bytes, from chunk 0. */
CK_MUST_USE int ck_plan_run(struct ck_plan *plan, uint64_t bytes);
void ck_plan_fini(struct ck_plan *plan);

/* --- slices that are open ----------------------------------------------------- */

/* A slice, and where the parts are that were touched so far: what all reads of one
 * open file share. Any thread. */
struct ck_open_slice;

/* Takes the slice if it returns 0; the locator, which is the caller's, must
 * outlive it. -ENOMEM. Looks at nothing, however many parts there are. */
CK_MUST_USE int ck_open_slice_make(struct ck_slice *slice,
				   struct ck_locator *locator,
				   struct ck_open_slice **out);
void ck_open_slice_free(struct ck_open_slice *o); /* NULL is allowed */
const struct ck_slice *ck_open_slice_slice(const struct ck_open_slice *o);
/* Locates all its boxes now. Errors as of ck_locator.get; after -EREMOTE what all of
 * them need is noted. */
CK_MUST_USE int ck_open_slice_locate(struct ck_open_slice *o);
/* Where the boxes are of part i, which is a CK_PART_BOX: located at the first
 * touch. Valid as long as `o`. Errors as of ck_locator.get; -ENOMEM. */
CK_MUST_USE int ck_open_slice_layout(struct ck_open_slice *o, uint32_t i,
				     const struct ck_layout **out);
/* What is done with a layout, which is valid until it returns. */
typedef int ck_open_slice_use(const struct ck_layout *layout, void *arg);
/* What was got before had errors of the moment: has `use` try with one that is
 * asked for now, and keeps that for the part if it serves. Errors as of
 * ck_locator.get, and of use. */
CK_MUST_USE int ck_open_slice_again(struct ck_open_slice *o, uint32_t i,
				    const struct ck_layout *failed,
				    ck_open_slice_use *use, void *arg);
/* Whether the ctime of a file changed since this layout of a part was found. */
CK_MUST_USE bool ck_open_slice_is_old(const struct ck_open_slice *o,
				      const struct ck_layout *layout);
/* After that: has the part located again, from the headers of its items, and `use` try with
 * the new layout, which is kept for the part. Errors as of ck_locator.get, and of use. */
CK_MUST_USE int ck_open_slice_renew(struct ck_open_slice *o, uint32_t i,
				    const struct ck_layout *old,
				    ck_open_slice_use *use, void *arg);
/* The layout of part i, if it was located already, else NULL. */
const struct ck_layout *ck_open_slice_known(const struct ck_open_slice *o,
					    uint32_t i);
/* Of one that was not: as of ck_locator.guess. */
void ck_open_slice_guess(const struct ck_open_slice *o, uint32_t i,
			 uint64_t begin, uint64_t end, ck_range_use *each,
			 void *arg);

/* --- reads ---------------------------------------------------------------------- */

/* Somebody who waits for bytes of remote files, and may lose interest.
 * Zero-initialise. */
struct ck_waiter {
	/* Private, under ck_route.lock: */
	bool unwanted;
	struct ck_moves *moving;	  /* on the way; or NULL */
	struct ck_gather_slot *gathering; /* the same */
};

/* The bytes [vpos, vpos + len) of an open slice, into `to`. All of them or an
 * error: -ENODATA (a byte that nobody has), -EIO, -EBADMSG (a box that cannot be
 * served), -ESTALE (a file or the tensor has changed), -EINVAL (not within the
 * slice), -EINTR (it was interrupted), -ENOMEM. On an error `to`, which is the
 * caller's, has anything. */
struct ck_read {
	struct ck_open_slice *from;
	struct ck_files *files; /* that have its bytes; NULL: the route's */
	uint64_t vpos, len;
	void *to;
	/* NULL, or where the bytes go in place of `to`, from `at` on, a multiple of 16: by
	 * the route's gatherer alone, and of one box whose elements it has whole. -EAGAIN:
	 * it has no room now; -EIO: the bytes do not get there. */
	struct ck_gather_memory *memory;
	uint64_t at;
	bool brief; /* as of ck_moves */
	bool ahead; /* no reader waits for it */
	bool remote; /* set by ck_move_read() and ck_route_read(), when it is done: not
		      * all was here */
	/* Called once if the read was not done at once, by any thread that holds
	 * no lock which interrupting it takes; the read and `to` are the caller's
	 * again. rc: 0 or an error. */
	void (*done)(struct ck_read *r, int rc);
	void *arg;
	struct ck_waiter waiter;
};

/* Does it at once: all that it needs is on this host; else -EREMOTE, and `to` has
 * anything. Blocks on local files only. Any thread. */
CK_MUST_USE int ck_host_read(struct ck_files *files, const struct ck_read *r);

/* --- route: to the mover that reaches a file --------------------------------------- */

/* Any thread. */
struct ck_route {
	/* Constant: */
	struct ck_files *files;
	struct ck_backend *remote; /* of remote files; NULL: there are none */
	/* Where bytes are put together, set before the first use; NULL: here. What it has
	 * no room for now is put together here, and so is what fails there. */
	struct ck_gatherer *gatherer;
	bool rounds_only; /* it is only for what comes from others by rounds */

	pthread_mutex_t lock; /* of waiters: which moves are on the way */
};

void ck_route_init(struct ck_route *route, struct ck_files *files,
		   struct ck_backend *remote);
void ck_route_fini(struct ck_route *route);

/* Whether reads go to a gatherer wherever their files are. */
static inline bool ck_route_gathers(const struct ck_route *r)
{
	return r->gatherer && !r->rounds_only;
}

/* One that ck_host_read() said -EREMOTE of, or that the gatherer may have. 0: done. -EINPROGRESS: done() will be
 * called, or was. Else an error. */
CK_MUST_USE int ck_route_read(struct ck_route *route, struct ck_read *r);
/* Either, and waits until it is done. r->done and r->arg are not used. */
CK_MUST_USE int ck_move_read(struct ck_route *route, struct ck_read *r);

/* A request that was given up with -EREMOTE: brings what its fetch wants. */
struct ck_header_fetch {
	struct ck_fetch fetch;
	bool brief; /* as of ck_moves */
	/* As of ck_read. rc: 0, -EINTR, -ENOMEM, or -EIO: nothing was wanted. Why
	 * single pieces did not come is in them. */
	void (*done)(struct ck_header_fetch *e, int rc);
	void *arg;
	struct ck_waiter waiter;
	/* Private: */
	struct ck_route *route;
	struct ck_waiter *sender;
	struct ck_moves moves;
	uint64_t begun;
};

/* 0: all came at once. -EINPROGRESS: done() will be called, or was. Else an error. The
 * errand can be sent again when it is done. */
CK_MUST_USE int ck_route_errand(struct ck_route *route,
				struct ck_header_fetch *e);
/* The same, and waits. e->done and e->arg are not used. */
CK_MUST_USE int ck_io_header_fetch(struct ck_route *route,
				   struct ck_header_fetch *e);
void ck_header_fetch_fini(struct ck_header_fetch *e);

/* Who waits will be called soon, with -EINTR if it has not come otherwise. Does not
 * call done(); may be called from before the start until done() has returned. */
void ck_route_interrupt(struct ck_route *route, struct ck_waiter *w);

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
/* The same bytes back, as far as they were written. Errors and threads as above; -EIO: a
 * file became shorter. */
CK_MUST_USE int ck_host_collect(const struct ck_request *r,
				const struct ck_place *places, void *bytes);
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
/* The stream does this read now. Has the kernel fetch what follows of the parts
 * that are located, if the stream reads on; never waits, never fails. */
void ck_ahead_note(struct ck_ahead *a, struct ck_ahead_stream *s,
		   const struct ck_read *r);

#endif
